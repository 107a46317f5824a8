"""Blocks of metadata files, compressed, and expanded no further than allowed.

========== ======================================================================
codec      block
========== ======================================================================
null       as it is
deflate    raw deflate stream (no zlib header)
snappy     raw snappy, then the CRC-32 of the expanded bytes, big endian
zstandard  one zstd frame
bzip2, xz  one stream of that name
========== ======================================================================

A codec makes gigabytes of a few kilobytes, and so do runs of equal values. So every reader adds up what a
file claims before it expands anything, and stops where that is more than a file of its size has ever
needed; and every codec stops at the limit instead of trusting the claim.

What a reader claims it also asks for: whoever has a file decoded says of whom (:func:`asking`), and a file
that is harmless by itself may have to wait for others.
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


WrittenCodec: TypeAlias = Literal["null", "deflate", "snappy", "zstandard"]
"""Codecs that files are written with."""

_CRC = struct.Struct(">I")
# A snappy copy of three bytes yields at most 64.
_SNAPPY_MAX_EXPANSION = 22
_RAW_DEFLATE = -15
_DEFLATE_LEVEL = 6
_ZSTD_LEVEL = 1
_STEP_BYTES = 1 << 20
"""So much of a block is expanded at once, which is all of nearly every block."""
_XZ_MEMORY_BYTES = 128 << 20
# Some writers make raw deflate of a zlib stream, and leave of its checksum what they forget to cut off.
_TOLERATED_TAIL = {"deflate": 4}


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: Buffer, max_length: int, /) -> bytes: ...


class _Inflate:
    """Raw deflate as the other decompressors have it: what is left of the input is kept inside."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(_RAW_DEFLATE)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: Buffer, max_length: int, /) -> bytes:
        return self._inner.decompress(data or self._inner.unconsumed_tail, max_length)


_STREAMS: dict[str, Callable[[], _Decompressor]] = {
    "deflate": _Inflate,
    "zstandard": ZstdDecompressor,
    "bzip2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY_BYTES),
}


AskMemory: TypeAlias = Callable[[int], None]
"""Takes the bytes that decoding holds by now, and returns once it may."""


def _ask_nobody(_: int) -> None:
    """Tools that decode one file after the other need nobody's leave."""


def expand(codec: str, block: Buffer, limit: int, hold: AskMemory = _ask_nobody) -> Buffer:
    """The block without its compression.

    Args:
        limit: most bytes that may come out.
        hold: is asked for the bytes that this takes, before it takes them.

    Raises:
        CorruptMetadataError: the block is damaged, or expands to more than ``limit`` bytes.
        UnsupportedFormatError: the codec is not in the table above.
    """
    match codec:
        case "null":
            return _within(block, limit)
        case "snappy":
            return _expand_snappy(block, limit, hold)
        case _ if codec in _STREAMS:
            return _expand_stream(codec, block, limit, hold)
        case _:
            raise UnsupportedFormatError(f"Avro codec {codec!r} is not supported")


def compress(codec: WrittenCodec, block: bytes) -> bytes:
    """The block as it stands in a file; but for ``snappy``, it is the engine's to the byte."""
    match codec:
        case "null":
            return block
        case "deflate":
            deflate = zlib.compressobj(_DEFLATE_LEVEL, zlib.DEFLATED, _RAW_DEFLATE)
            return deflate.compress(block) + deflate.flush()
        case "snappy":
            return bytes(cramjam.snappy.compress_raw(block)) + _CRC.pack(zlib.crc32(block))
        case "zstandard":
            # As a stream, like the engine: one call would state the size, and choose otherwise by it.
            stream = ZstdCompressor(level=_ZSTD_LEVEL)
            return stream.compress(block) + stream.flush()
        case _:
            assert_never(codec)


def _within(expanded: Buffer, limit: int) -> Buffer:
    if len(expanded) > limit:
        raise CorruptMetadataError(f"a block expands to more than {limit} bytes")
    return expanded


def _expand_stream(codec: str, block: Buffer, limit: int, hold: AskMemory) -> bytes:
    decompressor = _STREAMS[codec]()
    try:
        hold(min(limit, _STEP_BYTES))
        expanded = decompressor.decompress(block, min(limit + 1, _STEP_BYTES))
        if len(expanded) == _STEP_BYTES:
            expanded += _rest(decompressor, limit + 1 - _STEP_BYTES, hold)
    except (zlib.error, ZstdError, lzma.LZMAError, OSError, EOFError, ValueError) as error:
        raise CorruptMetadataError(f"expected a {codec} block, found damage: {error}") from error
    _within(expanded, limit)
    if not decompressor.eof or len(decompressor.unused_data) > _TOLERATED_TAIL.get(codec, 0):
        raise CorruptMetadataError(f"a {codec} stream does not end where its block ends")
    return expanded


def _rest(decompressor: _Decompressor, most: int, hold: AskMemory) -> bytes:
    """What a stream has beside its first bytes, ``most`` bytes at most."""
    parts, size = [], 0
    while size < most and not decompressor.eof:
        # The parts, and what is made of all of them.
        hold(2 * (size + 2 * _STEP_BYTES))
        part = decompressor.decompress(b"", min(most - size, _STEP_BYTES))
        if not part:
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _expand_snappy(block: Buffer, limit: int, hold: AskMemory) -> bytes:
    if len(block) <= _CRC.size:
        raise CorruptMetadataError(f"a snappy block of {len(block)} bytes has no room for its checksum")
    packed, (checksum,) = block[: -_CRC.size], _CRC.unpack(block[-_CRC.size :])
    hold(min(limit, _SNAPPY_MAX_EXPANSION * len(packed)))
    expanded = _expand_raw_snappy(packed, limit)
    if zlib.crc32(expanded) != checksum:
        raise CorruptMetadataError("a snappy block does not have the checksum it states")
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
    """The expanded length that raw snappy starts with: seven bits a byte, lowest first."""
    claimed = 0
    for at, byte in enumerate(packed[:5]):
        claimed |= (byte & 0x7F) << (7 * at)
        if byte < 0x80:  # noqa: PLR2004 - the continuation bit
            return claimed
    raise CorruptMetadataError("a snappy block does not start with a length")


# A file may expand to this multiple of itself, or to this many bytes if that is more, but never to more than
# the last: decoding takes several times as much memory.
MAX_EXPANSION: Final = 64
_ALWAYS_ALLOWED_BYTES: Final = 256 << 20
_MAX_EXPANDED_BYTES: Final = 1 << 30


_ask: ContextVar[AskMemory] = ContextVar("ask", default=_ask_nobody)


def asking(ask: AskMemory) -> AbstractContextManager[None]:
    """Inside the block decoders report growing memory to ``ask``, which may raise."""
    return bound(_ask, ask)


def allowed_bytes(size: int, always: int = _ALWAYS_ALLOWED_BYTES) -> int:
    """Bytes that a file of ``size`` bytes may expand to; ``always`` is what the smallest file may."""
    return min(max(always, MAX_EXPANSION * size), _MAX_EXPANDED_BYTES)


class ExpansionLimit:
    """What is left of the memory that a file may take."""

    def __init__(self, size: int) -> None:
        self.left = allowed_bytes(size)
        self._taken = 0
        self._ask = _ask.get()

    def take(self, claimed: int, what: str, offset: int | None = None) -> None:
        """Uses up some bytes."""
        self.require(claimed, what, offset)
        self.left -= claimed
        self._taken += claimed

    def require(self, claimed: int, what: str, offset: int | None = None) -> None:
        """Makes sure that there are some bytes, for as long as they are needed."""
        if not 0 <= claimed <= self.left:
            raise CorruptMetadataError(
                f"{what} would take {claimed} bytes of memory; a file this small has {self.left} left",
                offset=offset,
            )
        self.hold(claimed)

    def hold(self, size: int) -> None:
        """Asks for bytes that are needed for a moment only, whatever the file may take."""
        self._ask(self._taken + size)
