"""Reads the portable serialization of 32-bit Roaring bitmaps from untrusted files.

The bytes carry no length, and a decoder silently ignores trailing bytes. So the extent is computed here, and
checked against the available bytes, before anything is decoded. All integers are little endian. ``n`` is the
number of containers.

======================  =======================  =====================================================
width                   present if               meaning
======================  =======================  =====================================================
u32                     always                   cookie: 12346, or ``12347 | (n - 1) << 16``
u32                     cookie 12346             n, at most 65536
(n + 7) / 8 bytes       cookie 12347             bit i: container i is stored as runs
n x (u16, u16)          always                   key (high 16 bits of the values), cardinality - 1
n x u32                 cookie 12346, or n >= 4  offsets of the containers; redundant, not read
n containers            always                   see below, back to back
======================  =======================  =====================================================

=========  ==========================  ===============================================
container  chosen if                   bytes
=========  ==========================  ===============================================
runs       its run bit is set          u16 number of runs r, then r x (u16, u16)
bits       cardinality > 4096          8192
array      otherwise                   2 for each value
=========  ==========================  ===============================================

Specified in the RoaringFormatSpec of the Roaring project.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from typing import Final, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap, BitMap64

from app.errors import CorruptIndexError

Buffer: TypeAlias = "bytes | memoryview"
# Row positions of one data file: a BitMap if all are below 2^32, which in practice they are.
Positions: TypeAlias = "BitMap | BitMap64"

COOKIE_WITHOUT_RUNS: Final = 12346
COOKIE_WITH_RUNS: Final = 12347
MAX_CONTAINERS: Final = 1 << 16
# With runs, bitmaps of fewer containers have no offsets.
FEWEST_WITH_OFFSETS: Final = 4
MAX_ARRAY_VALUES: Final = 4096
BITS_BYTES: Final = 8192
_BITMAP_BYTES: Final = 200
"""Approximate bytes of memory of an empty bitmap."""

_U16 = struct.Struct("<H")
# Cookie, and the next four bytes of every bitmap: the number of containers, or flags and a key.
_HEAD = struct.Struct("<II")
_COOKIE_BYTES = 4


def read_bitmap(
    buffer: Buffer,
    offset: int = 0,
    length: int | None = None,
    *,
    row_count: int | None = None,
    is_measured: bool = False,
) -> tuple[BitMap, int]:
    """Decode and validate the bitmap at ``offset``. Return it and its size in bytes.

    ``length``: required size, where the surrounding format states it.
    ``row_count``: exclusive upper limit of positions, where the surrounding format states it.
    ``is_measured``: True if ``length`` comes from :func:`bitmap_size`.

    Raises CorruptIndexError if the bytes are not a bitmap, or break these limits.
    """
    size = length if is_measured and length is not None else bitmap_size(buffer, offset)
    if length is not None and size != length:
        raise CorruptIndexError(f"expected a roaring bitmap of {length} bytes, found {size}", offset=offset)
    try:
        bitmap = BitMap.deserialize(bytes(buffer[offset : offset + size]))
    except ValueError as error:
        raise CorruptIndexError(
            "expected a valid roaring bitmap, found broken containers", offset=offset
        ) from error
    if row_count is not None and bitmap and bitmap.max() >= row_count:
        raise CorruptIndexError(
            f"expected positions below {row_count} in the roaring bitmap, found {bitmap.max()}", offset=offset
        )
    return bitmap, size


def bitmap_of(positions: NDArray[np.uint32]) -> BitMap:
    """Return a bitmap of the positions."""
    # The constructor copies the memory of array.array, but iterates over a NumPy array.
    copied = array("I")
    copied.frombytes(positions.tobytes())
    return BitMap(copied)


def serialize(bitmap: BitMap) -> bytes:
    """Serialize a bitmap as the engine does. The bitmap is optimized in place."""
    bitmap.run_optimize()
    return bitmap.serialize()


def bitmap_bytes(bitmap: BitMap) -> int:
    """Return the approximate bytes of memory that a bitmap takes."""
    sizes = bitmap.get_statistics()
    dense_bytes = sizes["n_bytes_bitset_containers"] + sizes["n_bytes_run_containers"]
    return _BITMAP_BYTES + sizes["n_bytes_array_containers"] + dense_bytes


def bitmap_size(buffer: Buffer, offset: int = 0) -> int:
    """Measure the bitmap at ``offset`` in bytes. Its containers are not validated.

    Raises CorruptIndexError if there is no bitmap, or it reaches beyond the buffer.
    """
    if not 0 <= offset <= len(buffer):
        raise CorruptIndexError(f"expected a roaring bitmap within {len(buffer)} bytes, found it at {offset}")
    at, containers, run_flags = _read_cookie(buffer, offset)
    end_of_keys = at + 4 * containers
    if end_of_keys > len(buffer):
        _truncated(buffer, offset)
    cardinalities = struct.unpack_from(f"<{2 * containers}H", buffer, at)[1::2]
    at = end_of_keys
    if run_flags is None or containers >= FEWEST_WITH_OFFSETS:
        at += 4 * containers
    if run_flags is None:
        at += sum(map(_plain_bytes, cardinalities))
    else:
        at = _end_of_containers(buffer, at, cardinalities, run_flags, offset)
    if at > len(buffer):
        _truncated(buffer, offset)
    return at - offset


def _read_cookie(buffer: Buffer, offset: int) -> tuple[int, int, bytes | None]:
    """Return ``(start of the keys, number of containers, run flags or None)``."""
    end = offset + _HEAD.size
    if end > len(buffer):
        _truncated(buffer, offset)
    cookie, containers = _HEAD.unpack_from(buffer, offset)
    if cookie & 0xFFFF == COOKIE_WITH_RUNS:
        containers = (cookie >> 16) + 1
        at = offset + _COOKIE_BYTES
        end_of_flags = at + (containers + 7) // 8
        if end_of_flags > len(buffer):
            _truncated(buffer, offset)
        return end_of_flags, containers, bytes(buffer[at:end_of_flags])
    if cookie != COOKIE_WITHOUT_RUNS:
        raise CorruptIndexError(
            f"expected the cookie of a roaring bitmap ({COOKIE_WITHOUT_RUNS} or {COOKIE_WITH_RUNS}), "
            f"found {cookie}",
            offset=offset,
        )
    if containers > MAX_CONTAINERS:
        raise CorruptIndexError(
            f"expected at most {MAX_CONTAINERS} containers, found {containers}",
            offset=offset + _COOKIE_BYTES,
        )
    return end, containers, None


def _plain_bytes(cardinality_less_one: int) -> int:
    values = cardinality_less_one + 1
    return BITS_BYTES if values > MAX_ARRAY_VALUES else 2 * values


def _end_of_containers(
    buffer: Buffer, at: int, cardinalities: Sequence[int], run_flags: bytes, start: int
) -> int:
    for container, cardinality in enumerate(cardinalities):
        if run_flags[container >> 3] >> (container & 7) & 1:
            if at + _U16.size > len(buffer):
                _truncated(buffer, start)
            at += _U16.size + 4 * _U16.unpack_from(buffer, at)[0]
        else:
            at += _plain_bytes(cardinality)
    return at


def _truncated(buffer: Buffer, start: int) -> NoReturn:
    raise CorruptIndexError(
        f"expected a whole roaring bitmap, found only {len(buffer) - start} bytes of one", offset=start
    )
