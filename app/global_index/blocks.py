"""Blocks of global index files, as LevelDB has them, and the numbers of varying width within.

A varint has seven bits of a number in each byte, the lowest first; the eighth bit is set if more follow.

Stored block, little endian; its *size* in handles counts the first line alone:

=============  ==================================================================================
width          meaning
=============  ==================================================================================
size           the block, which may be compressed
u8             compression: 0 none, 1 zstd, 2 lz4, 3 lzo
u32            CRC-32 of the block and of the byte before
=============  ==================================================================================

A compressed block is a varint of its length, then what the compressor wrote; lz4 and lzo put two i32 in front
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
import sys
import zlib
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final, Self

import cramjam
import numpy as np
from numpy.typing import NDArray

from app.errors import CorruptIndexError, UnsupportedFormatError
from app.work import LEDGER

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdDecompressor, ZstdError
else:
    from backports.zstd import ZstdDecompressor, ZstdError

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
_MOST_EXPANDED: Final = 1 << 30
_LEAST_CLAIM_BYTES: Final = 1 << 20
_BYTES_AT_ONCE: Final = 1 << 20
_ROW_ID_BYTES: Final = 16
"""Memory that a byte of stored row ids takes at most while it is decoded."""
_ENTRY_BYTES: Final = 160
"""Memory that an entry takes while its block is decoded."""


def _claim(size: int, path: str) -> AbstractContextManager[object]:
    # A claim takes as long as decoding many entries, and the load of a block has already claimed this much.
    return LEDGER.claim("decoding", size, path=path) if size > _LEAST_CLAIM_BYTES else nullcontext()


def read_block(stored: bytes) -> NDArray[np.uint8]:
    """Expand a block, which is given with its trailer.

    Raises:
        CorruptIndexError: it is cut off, its checksum is wrong, or it does not expand to its length.
        UnsupportedFormatError: no codec here expands its compression.
        MemoryShortError, LimitExceededError: there is no memory for what it expands to.
    """
    if len(stored) < TRAILER_BYTES:
        raise CorruptIndexError(f"expected a block with a trailer, found {len(stored)} bytes")
    block = stored[:-TRAILER_BYTES]
    compression, checksum = _TRAILER.unpack_from(stored, len(block))
    actual = zlib.crc32(stored[: len(block) + 1])
    if actual != checksum:
        raise CorruptIndexError(f"expected a block of checksum {checksum:08x}, found {actual:08x}")
    if compression != _NONE:
        block = _expanded(block, compression)
    return np.frombuffer(block, np.uint8)


def compression_name(number: int) -> str:
    """What a block's trailer calls its compression."""
    return _COMPRESSIONS[number] if number < len(_COMPRESSIONS) else f"number {number}"


def _expanded(block: bytes, compression: int) -> bytes:
    if compression not in (_ZSTD, _LZ4):
        shown = compression_name(compression)
        raise UnsupportedFormatError(f"blocks compressed by {shown} are not read: none, zstd or lz4 are")
    lengths, at = read_varints(np.frombuffer(block, np.uint8), np.zeros(1, np.int64))
    length, start = int(lengths[0]), int(at[0])
    if length > _MOST_EXPANDED:
        raise CorruptIndexError(f"expected a block of at most {_MOST_EXPANDED} bytes, found {length}")
    # A small file can say that it expands to anything.
    with _claim(length, "a block of a global index"):
        try:
            if compression == _ZSTD:
                # One more byte reveals a block that expands to more.
                expanded = ZstdDecompressor().decompress(block[start:], length + 1)
            else:
                compressed, original = _LENGTHS.unpack_from(block, start)
                packed = block[start + _LENGTHS.size :]
                if (compressed, original) != (len(packed), length):
                    raise CorruptIndexError(
                        f"expected {len(packed)} bytes of {length}, found {compressed} of {original}"
                    )
                expanded = bytes(cramjam.lz4.decompress_block(packed, output_len=length))
        except (ZstdError, cramjam.DecompressionError, struct.error, ValueError, EOFError) as error:
            raise CorruptIndexError(f"expected a block that expands to {length} bytes: {error}") from error
    if len(expanded) != length:
        raise CorruptIndexError(f"expected a block that expands to {length} bytes, found another length")
    return expanded


def read_varints(
    data: NDArray[np.uint8], at: NDArray[np.signedinteger]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Decode the varints at given places; also returns where each ends. Raises CorruptIndexError."""
    if len(at) and not 0 <= int(at.min()) <= int(at.max()) < len(data):
        raise CorruptIndexError("expected a number of varying width, found none")
    numbers = data[at].astype(np.int64)
    if int(numbers.max(initial=0)) < _CONTINUES:
        return numbers, at.astype(np.int64) + 1
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
    def read(cls, data: NDArray[np.uint8]) -> Self:
        """Locate the entries of an expanded block; raises CorruptIndexError."""
        if len(data) < _END.size:
            raise CorruptIndexError(f"expected a block of entries, found {len(data)} bytes")
        end = len(data) - _END.size
        number, is_indexed = _END.unpack(data[end:].tobytes())
        match is_indexed:
            case 0 if number and not end % number:
                starts = np.arange(0, end, number, dtype=np.int64)
            case 1 if 4 * number <= end:
                end -= 4 * number
                starts = np.frombuffer(data, "<u4", number, end).astype(np.int64)
            case _:
                raise CorruptIndexError(
                    f"expected entries and where they start, found {number}, {is_indexed}"
                )
        # A small block can expand to very many entries.
        with _claim(_ENTRY_BYTES * len(starts), "entries of a global index"):
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
) -> NDArray[np.uint32]:
    """Decode the row ids of values, each a varint of how many follow, and these as varints.

    Raises:
        CorruptIndexError: their number is not the one that was counted, or one is not below ``row_count``.
        MemoryShortError, LimitExceededError: there is no memory for them.
    """
    counts, starts = read_varints(data, starts)
    lengths = ends - starts
    if not len(counts):
        return np.zeros(0, np.uint32)
    if (counts <= 0).any() or (lengths < counts).any():
        raise CorruptIndexError("expected row ids of each key, found fewer than were counted")
    total = int(lengths.sum())
    with _claim(_ROW_ID_BYTES * total, "row ids of a global index"):
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
            # No number is cut: the next portion begins with the one that continues after this.
            stop -= int(is_last[start:stop][::-1].argmax())
            numbers = _numbers(stored[start:stop], np.flatnonzero(is_last[start:stop]))
            if int(numbers.max()) >= row_count:
                raise CorruptIndexError(f"expected row ids below {row_count}, found {int(numbers.max())}")
            ids[done : done + len(numbers)] = numbers
            done, start = done + len(numbers), stop
    return ids


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
