"""Deletion vector files: vectors of several data files, one after the other, each with its checksum.

Integers are big endian.

======  =====  ==================================================
offset  width  meaning
======  =====  ==================================================
0       i8     version 1
1              records, back to back; none in an empty file
======  =====  ==================================================

======  =====  ===========================================================================================
record  width  meaning
======  =====  ===========================================================================================
0       i32    size S of the data
4       S      data: a 32-bit or a 64-bit vector, distinguished by its magic; one file may hold both
4 + S   i32    CRC-32 of the data
======  =====  ===========================================================================================

The index manifest names the range of each record: ``offset`` points at its size, and ``length`` is **S for
a 32-bit vector but S + 8 for a 64-bit one**. So a caller must fetch :data:`RECORD_MARGIN_BYTES` more than
``length`` (or up to the end of the file). Bytes after the record are ignored.

The engine never verifies the checksum. Here a record that fails it is an error, since a smaller vector would
let deleted rows reappear. Both readers accept a file that ends without the checksum of its last record.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from app.deletion_vectors import vector32, vector64
from app.errors import CorruptIndexError, UnsupportedFormatError
from app.types.roaring import Positions

VERSION: Final = 1
RECORD_MARGIN_BYTES: Final = 8
"""Bytes of a 32-bit record that its ``length`` does not count: size and checksum."""
MAGICS: Final = (vector32.MAGIC, vector64.MAGIC)
"""First words of a vector of each width."""

_SIZE: Final = struct.Struct(">i")
_CRC: Final = struct.Struct(">I")
_VERSION_BYTES: Final = 1
_MAGIC_BYTES: Final = 4
_MEMORY: Final = 256
_MEMORY_PER_CONTAINER: Final = 64


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """The deleted rows of one data file: 0-based ``positions``. They are shared, so do not modify them."""

    positions: Positions
    is64: bool
    record_bytes: int

    @property
    def nbytes(self) -> int:
        """Approximate bytes of memory."""
        sizes = self.positions.get_statistics()
        arrays, runs = sizes["n_bytes_array_containers"], sizes["n_bytes_run_containers"]
        values = arrays + runs + sizes["n_bytes_bitset_containers"]
        return _MEMORY + _MEMORY_PER_CONTAINER * int(sizes["n_containers"]) + int(values)

    @property
    def cardinality(self) -> int:
        """Number of deleted rows."""
        return len(self.positions)

    @property
    def highest(self) -> int | None:
        """The highest deleted position. None if no row is deleted."""
        return self.positions.max() if self.positions else None


def read_vector(buffer: bytes | memoryview, *, offset: int = 0, length: int | None = None) -> DeletionVector:
    """Read one record.

    ``length``: length in the index manifest. None skips the comparison. Raises CorruptIndexError if the
    record is cut, of another length, fails its checksum, or holds no vector.
    """
    data, end = _read_data(memoryview(buffer), offset)
    magic = bytes(data[:_MAGIC_BYTES])
    is64 = magic == vector64.MAGIC
    if magic not in MAGICS:
        raise CorruptIndexError(
            f"expected the magic {vector32.MAGIC.hex()} or {vector64.MAGIC.hex()}, found {magic.hex()}",
            offset=offset + _SIZE.size,
        )
    stated = len(data) + (RECORD_MARGIN_BYTES if is64 else 0)
    if length is not None and stated != length:
        raise CorruptIndexError(f"expected a vector of length {length}, found {stated}", offset=offset)
    try:
        positions: Positions = vector64.read(data) if is64 else vector32.read(data)
    except CorruptIndexError as error:
        inner = 0 if error.offset is None else error.offset
        raise CorruptIndexError(error.expectation, offset=offset + _SIZE.size + inner) from error
    return DeletionVector(positions, is64, end - offset)


def read_vectors(buffer: bytes | memoryview, ranges: Iterable[tuple[int, int]]) -> list[DeletionVector]:
    """Read records of a whole file by their offsets and lengths in the index manifest.

    Raises CorruptIndexError if a record is damaged. Raises UnsupportedFormatError if the file is of another
    version.
    """
    _check_version(buffer)
    return [read_vector(buffer, offset=offset, length=length) for offset, length in ranges]


def read_file(buffer: bytes | memoryview) -> list[DeletionVector]:
    """Read all records of a whole file, in order.

    Raises CorruptIndexError if a record is damaged, or other bytes follow the last one. Raises
    UnsupportedFormatError if the file is of another version.
    """
    _check_version(buffer)
    vectors = []
    at = _VERSION_BYTES
    while at < len(buffer):
        vector = read_vector(buffer, offset=at)
        vectors.append(vector)
        at += vector.record_bytes
    return vectors


def write_record(data: bytes) -> bytes:
    """Wrap a vector from ``vector32.write`` or ``vector64.write`` into a record."""
    return _SIZE.pack(len(data)) + data + _CRC.pack(zlib.crc32(data))


def stored_data(buffer: bytes, offset: int) -> bytes:
    """Return the vector in the record at ``offset``, which has been read before."""
    (size,) = _SIZE.unpack_from(buffer, offset)
    start = offset + _SIZE.size
    return buffer[start : start + size]


def _check_version(buffer: bytes | memoryview) -> None:
    if len(buffer) == 0:
        raise CorruptIndexError(
            "expected the version of a deletion vector file, found an empty file", offset=0
        )
    if buffer[0] != VERSION:
        raise UnsupportedFormatError(
            f"expected a deletion vector file of version {VERSION}, found version {buffer[0]}"
        )


def _read_data(buffer: memoryview, offset: int) -> tuple[memoryview, int]:
    start = offset + _SIZE.size
    if not 0 <= offset <= len(buffer) - _SIZE.size:
        raise CorruptIndexError(f"expected a vector within {len(buffer)} bytes", offset=offset)
    (size,) = _SIZE.unpack_from(buffer, offset)
    if not _MAGIC_BYTES <= size <= len(buffer) - start:
        raise CorruptIndexError(
            f"expected a vector of {_MAGIC_BYTES} to {len(buffer) - start} bytes, found size {size}",
            offset=offset,
        )
    end = start + size
    data = buffer[start:end]
    # The engine accepts a file without its last checksum, so there is nothing to verify.
    if end == len(buffer):
        return data, end
    if end + _CRC.size > len(buffer):
        raise CorruptIndexError(f"expected a checksum, found {len(buffer) - end} bytes", offset=end)
    (expected,) = _CRC.unpack_from(buffer, end)
    checksum = zlib.crc32(data)
    if checksum != expected:
        raise CorruptIndexError(
            f"expected data with checksum {expected:08x}, found {checksum:08x}", offset=start
        )
    return data, end + _CRC.size
