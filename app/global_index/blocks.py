"""Blocks of global index files, as LevelDB has them, and the numbers of varying width within.

A varint has seven bits of a number in each byte, the lowest first. The eighth bit is set if more follow.

Stored block, little endian. Its *size* in handles counts the first line alone:

=============  ==================================================================================
width          meaning
=============  ==================================================================================
size           the block, which may be compressed
u8             compression: 0 none, 1 zstd, 2 lz4, 3 lzo
u32            CRC-32 of the block and of the byte before
=============  ==================================================================================

A compressed block is a varint of its length, then what the compressor wrote. Lz4 and lzo put two i32 in front
of that, compressed and original length.

Expanded block of entries:

=============  ==================================================================================
width          meaning
=============  ==================================================================================
n entries      varint key length, key, varint value length, value; keys ascend
4 x n          u32 where each entry starts; absent where all entries have one size
u32            n; where all entries have one size, this size
u8             1; where all entries have one size, 0
=============  ==================================================================================
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final, Self, TypeAlias

import cramjam
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap

from app.errors import CorruptIndexError, UnsupportedFormatError
from app.types.roaring import bitmap_of
from app.work import LEDGER, Claim

TRAILER_BYTES: Final = 5
_TRAILER: Final = struct.Struct("<BI")
_END: Final = struct.Struct("<IB")
_LENGTHS: Final = struct.Struct("<ii")
_NONE, _ZSTD, _LZ4 = range(3)
_COMPRESSIONS: Final = ("none", "zstd", "lz4", "lzo")
_CONTINUES: Final = 0x80
_BITS: Final = 7
_LONGEST_VARINT: Final = 9
"""Bytes of a number below 2 ** 63."""
# Writers close blocks at 64 kB, except that a key may have any number of rows.
_EXPANSION: Final = 64
_SMALL_BLOCK_BYTES: Final = 8 << 20
_LEAST_CLAIM_BYTES: Final = 1 << 20
_BYTES_AT_ONCE: Final = 1 << 20
_ROW_ID_BYTES: Final = 26
"""Memory that a byte of stored row ids takes at most while it is decoded."""
_ENTRY_BYTES: Final = 160
"""Memory that an entry takes while its block is decoded."""

Claiming: TypeAlias = Callable[[int], None]
"""Claims more bytes. Raises MemoryShortError or LimitExceededError if there is no memory for them."""


@contextmanager
def decoding() -> Iterator[Claiming]:
    """Hold the growing claim of a block until it is decoded. A small block can expand to very much."""
    claims: list[Claim] = []
    total = 0
    with ExitStack() as stack:

        def claim(size: int) -> None:
            nonlocal total
            total += size
            # A claim takes as long as decoding many entries, and loading the block has claimed this much.
            if total > _LEAST_CLAIM_BYTES:
                if not claims:
                    claims.append(
                        stack.enter_context(LEDGER.claim("decoding", path="a block of a global index"))
                    )
                claims[0].grow_to(total)

        yield claim


def read_block(stored: bytes, claim: Claiming) -> NDArray[np.uint8]:
    """Expand a block that is followed by its trailer.

    Raises CorruptIndexError if it is cut off, its checksum is wrong, or it does not expand to its length.
    Raises UnsupportedFormatError if no codec here expands its compression. Raises MemoryShortError or
    LimitExceededError if there is no memory for what it expands to.
    """
    size = len(stored) - TRAILER_BYTES
    if size < 0:
        raise CorruptIndexError(f"expected a block with a trailer, found {len(stored)} bytes")
    compression, checksum = _TRAILER.unpack_from(stored, size)
    content = memoryview(stored)
    actual = zlib.crc32(content[: size + 1])
    if actual != checksum:
        raise CorruptIndexError(f"expected a block of checksum {checksum:08x}, found {actual:08x}")
    block = np.frombuffer(content[:size], np.uint8)
    return block if compression == _NONE else _expanded(block, compression, claim)


def compression_name(number: int) -> str:
    """Return the name of a compression by its number in a block's trailer."""
    return _COMPRESSIONS[number] if number < len(_COMPRESSIONS) else f"number {number}"


def _expanded(block: NDArray[np.uint8], compression: int, claim: Claiming) -> NDArray[np.uint8]:
    if compression not in (_ZSTD, _LZ4):
        shown = compression_name(compression)
        raise UnsupportedFormatError(f"blocks compressed by {shown} are not read: none, zstd or lz4 are")
    lengths, at = read_varints(block, np.zeros(1, np.int64))
    length, start = int(lengths[0]), int(at[0])
    most = max(_SMALL_BLOCK_BYTES, _EXPANSION * len(block))
    if length > most:
        raise CorruptIndexError(f"expected a block that expands to at most {most} bytes, found {length}")
    claim(length)
    try:
        if compression == _ZSTD:
            # One call writes to one buffer of this length. A stream would need a window and parts as well.
            return np.frombuffer(pa.Codec("zstd").decompress(block[start:], length), np.uint8)
        compressed, original = _LENGTHS.unpack_from(block.data, start)
        packed, expanded = block[start + _LENGTHS.size :], np.empty(length, np.uint8)
        if (compressed, original) != (len(packed), length):
            raise CorruptIndexError(
                f"expected {len(packed)} bytes of {length}, found {compressed} of {original}"
            )
        written = cramjam.lz4.decompress_block_into(packed.data, expanded.data)
    except (OSError, cramjam.DecompressionError, struct.error, ValueError) as error:
        raise CorruptIndexError(f"expected a block that expands to {length} bytes: {error}") from error
    if written != length:
        raise CorruptIndexError(f"expected a block that expands to {length} bytes, found {written}")
    return expanded


def read_varints(
    data: NDArray[np.uint8], at: NDArray[np.signedinteger]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Decode the varints at given places. Return them and their ends. Raises CorruptIndexError if cut."""
    if len(at) and not 0 <= int(at.min()) <= int(at.max()) < len(data):
        raise CorruptIndexError("expected a number of varying width, found none")
    firsts = data[at]
    if int(firsts.max(initial=0)) < _CONTINUES:
        return firsts.astype(np.int64), np.add(at, 1, dtype=np.int64)
    numbers, ends = np.zeros(len(at), np.int64), at.astype(np.int64)
    going = np.arange(len(at))
    for place in range(_LONGEST_VARINT):
        where = ends[going]
        if len(where) and not 0 <= int(where.min()) <= int(where.max()) < len(data):
            break
        part = data[where]
        numbers[going] |= (part & np.uint8(_CONTINUES - 1)).astype(np.int64) << (_BITS * place)
        ends[going] += 1
        going = going[part >= _CONTINUES]
        if not len(going):
            return numbers, ends
    raise CorruptIndexError("expected a number of varying width, found none that ends")


def write_varint(number: int) -> bytes:
    """Encode a number as a varint."""
    written = bytearray()
    while number >= _CONTINUES:
        written.append(number & (_CONTINUES - 1) | _CONTINUES)
        number >>= _BITS
    written.append(number)
    return bytes(written)


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """The entries of a block: bounds of keys and values in ``data``, int64, shape (n,)."""

    data: NDArray[np.uint8]
    key_starts: NDArray[np.int64]
    key_ends: NDArray[np.int64]
    value_starts: NDArray[np.int64]
    value_ends: NDArray[np.int64]

    @classmethod
    def read(cls, stored: bytes, claim: Claiming) -> Self:
        """Locate the entries of a block. Raises what :func:`read_block` raises."""
        data = read_block(stored, claim)
        if len(data) < _END.size:
            raise CorruptIndexError(f"expected a block of entries, found {len(data)} bytes")
        end = len(data) - _END.size
        number, is_indexed = _END.unpack(data[end:].tobytes())
        match is_indexed:
            case 0 if number and not end % number:
                claim(_ENTRY_BYTES * (end // number))
                starts = np.arange(0, end, number, dtype=np.int64)
            case 1 if 4 * number <= end:
                claim(_ENTRY_BYTES * number)
                end -= 4 * number
                starts = np.frombuffer(data, "<u4", number, end).astype(np.int64)
            case _:
                raise CorruptIndexError(
                    f"expected entries and where they start, found {number}, {is_indexed}"
                )
        body = data[:end]
        lengths, key_starts = read_varints(body, starts)
        key_ends = key_starts + lengths
        lengths, value_starts = read_varints(body, key_ends)
        entries = cls(body, key_starts, key_ends, value_starts, value_starts + lengths)
        ends = entries.value_ends
        if len(starts) and ((ends[:-1] != starts[1:]).any() or ends[-1] != end):
            raise CorruptIndexError("expected entries that lie back to back, found others")
        return entries

    def __len__(self) -> int:
        return len(self.key_starts)


def read_row_ids(
    data: NDArray[np.uint8],
    starts: NDArray[np.signedinteger],
    ends: NDArray[np.signedinteger],
    row_count: int,
) -> BitMap:
    """Decode the row ids of values. A value is a varint with their number, then each of them as a varint.

    Raises CorruptIndexError if a value has another number of row ids than it says, or one is not below
    ``row_count``. Raises MemoryShortError or LimitExceededError if there is no memory for them.
    """
    counts, starts = read_varints(data, starts)
    lengths = ends - starts
    if not len(counts):
        return BitMap()
    if (counts <= 0).any() or (lengths < counts).any():
        raise CorruptIndexError("expected row ids of each key, found fewer than were counted")
    total = int(lengths.sum())
    with decoding() as claim:
        claim(_ROW_ID_BYTES * total)
        before = np.cumsum(lengths) - lengths
        if len(starts) == 1:
            stored = data[int(starts[0]) : int(ends[0])]
        else:
            stored = data[np.repeat(starts - before, lengths) + np.arange(total)]
        is_last = stored < _CONTINUES
        counted = np.add.reduceat(is_last, before, dtype=np.int64)
        if not is_last[before + lengths - 1].all() or not np.array_equal(counted, counts):
            raise CorruptIndexError("expected as many row ids as were counted, found others")
        ids = np.empty(int(counts.sum()), np.uint32)
        done = start = 0
        while start < total:
            stop = min(start + _BYTES_AT_ONCE, total)
            # No number is cut: one that continues beyond this portion begins the next.
            stop -= int(is_last[start:stop][::-1].argmax())
            numbers = _numbers(stored[start:stop], np.flatnonzero(is_last[start:stop]))
            if int(numbers.max()) >= row_count:
                raise CorruptIndexError(f"expected row ids below {row_count}, found {int(numbers.max())}")
            ids[done : done + len(numbers)] = numbers
            done, start = done + len(numbers), stop
        return bitmap_of(ids)


def _numbers(stored: NDArray[np.uint8], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Decode varints that are back to back, by the place of the last byte of each."""
    widths = np.diff(ends, prepend=-1)
    if not len(widths) or int(widths.max()) > _BITS:
        raise CorruptIndexError("expected row ids of a range, found one that is too large")
    firsts = ends - widths + 1
    numbers = (stored[firsts] & np.uint8(_CONTINUES - 1)).astype(np.int64)
    for place in range(1, int(widths.max())):
        longer = np.flatnonzero(widths > place)
        part = (stored[firsts[longer] + place] & np.uint8(_CONTINUES - 1)).astype(np.int64)
        numbers[longer] |= part << (_BITS * place)
    return numbers
