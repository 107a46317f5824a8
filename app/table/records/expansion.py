"""Expands and compresses blocks of metadata files, within limits.

========== ======================================================================
codec      block
========== ======================================================================
null       plain
deflate    raw deflate stream (no zlib header)
snappy     raw snappy, then the CRC-32 of the expanded bytes, big endian
zstandard  one zstd frame
bzip2, xz  one stream of that name
========== ======================================================================
"""

from __future__ import annotations

import bz2
import lzma
import struct
import sys
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Final, Literal, Protocol, TypeAlias, assert_never

import cramjam

from app.errors import CorruptMetadataError, UnsupportedFormatError
from app.observation import bound
from app.types.roaring import Buffer

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdCompressor, ZstdDecompressor, ZstdError
else:
    from backports.zstd import ZstdCompressor, ZstdDecompressor, ZstdError


# Codecs that this project writes.
WrittenCodec: TypeAlias = Literal["null", "deflate", "snappy", "zstandard"]

_CRC = struct.Struct(">I")
# A snappy copy of three bytes yields at most 64.
_SNAPPY_MAX_EXPANSION = 22
_RAW_DEFLATE = -15
_DEFLATE_LEVEL = 6
_ZSTD_LEVEL = 1
_XZ_MEMORY_BYTES = 128 << 20
# Some writers cut raw deflate out of a zlib stream, and leave part of its checksum at the end.
_TOLERATED_TAIL = {"deflate": 4}

MAX_BLOCK_BYTES: Final = 64 << 20
# Blocks, and columns, may take 64 times the bytes of the file; small files get more, large ones at most 1
# GiB.
_EXPANSION: Final = 64
_SMALL_BLOCK_BYTES: Final = 8 << 20
_SMALL_FILE_BYTES: Final = 64 << 20
_SMALL_COLUMNS_BYTES: Final = 256 << 20
_MAX_FILE_BYTES: Final = 1 << 30

_claim: ContextVar[Callable[[int], None]] = ContextVar("claim", default=lambda _: None)


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: Buffer, max_length: int, /) -> bytes: ...


_STREAMS: dict[str, Callable[[], _Decompressor]] = {
    "deflate": lambda: zlib.decompressobj(_RAW_DEFLATE),
    "zstandard": ZstdDecompressor,
    "bzip2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY_BYTES),
}


def expand(codec: str, block: Buffer, limit: int) -> Buffer:
    """Expand a block to at most ``limit`` bytes.

    Raises CorruptMetadataError if the block is damaged, or expands to more than ``limit`` bytes. Raises
    UnsupportedFormatError if the codec is not in the table above.
    """
    match codec:
        case "null":
            return _within(block, limit, len(block))
        case "snappy":
            return _expand_snappy(block, limit)
        case _ if codec in _STREAMS:
            return _expand_stream(codec, block, limit)
        case _:
            raise UnsupportedFormatError(f"Avro codec {codec!r} is not supported")


def compress(codec: WrittenCodec, block: bytes) -> bytes:
    """Compress a block. The bytes equal the engine's, except for ``snappy``."""
    match codec:
        case "null":
            return block
        case "deflate":
            deflate = zlib.compressobj(_DEFLATE_LEVEL, zlib.DEFLATED, _RAW_DEFLATE)
            return deflate.compress(block) + deflate.flush()
        case "snappy":
            return bytes(cramjam.snappy.compress_raw(block)) + _CRC.pack(zlib.crc32(block))
        case "zstandard":
            # A stream, like the engine's: one call would record the size, and compress differently by it.
            stream = ZstdCompressor(level=_ZSTD_LEVEL)
            return stream.compress(block) + stream.flush()
        case _:
            assert_never(codec)


def _within(expanded: Buffer, limit: int, size: int) -> Buffer:
    if len(expanded) > limit:
        raise CorruptMetadataError(f"a block of {size} bytes expands to more than {limit} bytes")
    return expanded


def _expand_stream(codec: str, block: Buffer, limit: int) -> bytes:
    decompressor = _STREAMS[codec]()
    try:
        expanded = decompressor.decompress(block, limit + 1)
    except (zlib.error, ZstdError, lzma.LZMAError, OSError, EOFError, ValueError) as error:
        raise CorruptMetadataError(f"expected a {codec} block, found damage: {error}") from error
    _within(expanded, limit, len(block))
    if not decompressor.eof or len(decompressor.unused_data) > _TOLERATED_TAIL.get(codec, 0):
        raise CorruptMetadataError(f"a {codec} stream does not end where its block ends")
    return expanded


def _expand_snappy(block: Buffer, limit: int) -> bytes:
    if len(block) <= _CRC.size:
        raise CorruptMetadataError(f"a snappy block of {len(block)} bytes has no room for its checksum")
    packed, (checksum,) = block[: -_CRC.size], _CRC.unpack(block[-_CRC.size :])
    expanded = _expand_raw_snappy(packed, limit)
    if zlib.crc32(expanded) != checksum:
        raise CorruptMetadataError("the checksum of a snappy block does not match")
    return expanded


def _expand_raw_snappy(packed: Buffer, limit: int) -> bytes:
    claimed = _snappy_claim(packed)
    if claimed > min(limit, _SNAPPY_MAX_EXPANSION * len(packed)):
        raise CorruptMetadataError(f"{len(packed)} bytes of snappy claim to expand to {claimed}")
    try:
        return bytes(cramjam.snappy.decompress_raw(packed))
    except cramjam.DecompressionError as error:
        raise CorruptMetadataError(f"expected a snappy block, found damage: {error}") from error


def _snappy_claim(packed: Buffer) -> int:
    """Read the expanded length at the start of raw snappy: seven bits a byte, lowest first."""
    claimed = 0
    for at, byte in enumerate(packed[:5]):
        claimed |= (byte & 0x7F) << (7 * at)
        if byte < 0x80:  # noqa: PLR2004 - the continuation bit
            return claimed
    raise CorruptMetadataError("a snappy block does not start with a length")


def block_bytes(size: int) -> int:
    """Return the limit of a block of ``size`` bytes, expanded. Writers close one at 64 kB."""
    return min(max(_SMALL_BLOCK_BYTES, _EXPANSION * size), MAX_BLOCK_BYTES)


def blocks_bytes(size: int) -> int:
    """Return the limit of all blocks of a file of ``size`` bytes, expanded."""
    return min(max(_SMALL_FILE_BYTES, _EXPANSION * size), _MAX_FILE_BYTES)


def columns_bytes(size: int) -> int:
    """Return the memory limit of the columns of a file of ``size`` bytes."""
    return min(max(_SMALL_COLUMNS_BYTES, _EXPANSION * size), _MAX_FILE_BYTES)


def claiming(grow_to: Callable[[int], None]) -> AbstractContextManager[None]:
    """Have decoders in the block claim their total memory from ``grow_to``, which may raise."""
    return bound(_claim, grow_to)


def claim(size: int) -> None:
    """Claim ``size`` bytes in total for the file being decoded, before they are used."""
    _claim.get()(size)


def check_columns(taken: int, size: int, offset: int | None = None) -> None:
    """Refuse columns of ``taken`` bytes if that is too much for a file of ``size`` bytes."""
    most = columns_bytes(size)
    if taken > most:
        raise CorruptMetadataError(
            f"records would take {taken} bytes of memory; a file of {size} bytes may take {most}",
            offset=offset,
        )
