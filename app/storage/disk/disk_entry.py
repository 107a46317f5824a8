"""One entry of the disk tier: a piece of a file, with what it takes to trust it again.

========  =====  ==========  ================================================
offset    width  type        meaning
========  =====  ==========  ================================================
0         4      bytes       ``PIC1``
4         16     bytes       xxh3_128 of the key, followed by the content
20        4      u32, big    *k*, length of the key
24        8      u64, big    *n*, length of the content
32        *k*    ASCII       the key: the members of :class:`Piece`, as JSON
32 + *k*  *n*    bytes       the content, to the end of the file
========  =====  ==========  ================================================
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass

import xxhash

_MAGIC = b"PIC1"
_HEADER = struct.Struct(">4s16sIQ")


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of a file that never changes, all where ``length`` is None, in a warehouse by its identity."""

    warehouse: str
    path: str
    size: int | None
    offset: int
    length: int | None

    @property
    def key(self) -> bytes:
        """The same in bytes."""
        # Not by a faster library: they refuse text that is not Unicode, and a caller's path may be that.
        members = (self.warehouse, self.path, self.size, self.offset, self.length)
        return json.dumps(members).encode("ascii")


def entry_name(key: bytes) -> str:
    """The name of the file that an entry lies in, without its directory."""
    return xxhash.xxh3_128_hexdigest(key)


def entry_head(key: bytes, content: bytes) -> bytes:
    """What an entry has before its content."""
    return _HEADER.pack(_MAGIC, _checksum(key, content), len(key), len(content)) + key


def read_entry(entry: bytes, key: bytes) -> bytes | None:
    """The content of an entry; None if it is not what was written, or has another key."""
    if len(entry) < _HEADER.size + len(key):
        return None
    magic, checksum, key_bytes, content_bytes = _HEADER.unpack_from(entry)
    start = _HEADER.size + len(key)
    if (magic, key_bytes, content_bytes) != (_MAGIC, len(key), len(entry) - start):
        return None
    content = entry[start:]
    if entry[_HEADER.size : start] != key or checksum != _checksum(key, content):
        return None
    return content


def _checksum(key: bytes, content: bytes) -> bytes:
    checksum = xxhash.xxh3_128(key)
    checksum.update(content)
    return checksum.digest()
