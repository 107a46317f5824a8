"""Pages of one answer, and the token that asks for the next of them.

A token holds everything that a replica needs to go on, so any replica can:

======  =====  ==============================================================
offset  bytes  meaning
======  =====  ==============================================================
0       1      version of this layout
1       8      snapshot id, big endian; -1 for a table without snapshots
9       8      schema id
17      8      entries that earlier pages held
25      16     digest over all of this, the table's identity and the request
======  =====  ==============================================================

The digest is no secret: a token gives no right that its holder does not have. It makes sure that a token
goes on with the request, the table and the snapshot that it began with, and with nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import orjson

from app.api.strict_json import write_json
from app.errors import PageTokenError

if TYPE_CHECKING:
    from collections.abc import Callable

_VERSION = 1
_HEAD = struct.Struct(">Bqqq")
_DIGEST_BYTES = 16
_NO_SNAPSHOT = -1


@dataclass(frozen=True, slots=True)
class Version:
    """What a versioned answer is about.

    Attributes:
        identity: of the table; another table at the same path has another.
        snapshot_id: None for a table without snapshots.
    """

    identity: str
    snapshot_id: int | None
    schema_id: int

    def digest(self, *parts: bytes) -> bytes:
        """16 bytes that stand for this version and ``parts``."""
        hashed = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        for part in (repr(self).encode(), *parts):
            hashed.update(len(part).to_bytes(8, "big"))
            hashed.update(part)
        return hashed.digest()


@dataclass(frozen=True, slots=True)
class PageToken:
    """Where the next page goes on."""

    snapshot_id: int | None
    schema_id: int
    offset: int
    digest: bytes

    @classmethod
    def after(cls, offset: int, version: Version, request: bytes) -> Self:
        """The token for the entries from ``offset`` of ``request``, as asked of ``version``."""
        digest = version.digest(request, offset.to_bytes(8, "big"))
        return cls(version.snapshot_id, version.schema_id, offset, digest)

    @classmethod
    def read(cls, text: str) -> Self:
        """The token in ``text``.

        Raises:
            PageTokenError: no server wrote this.
        """
        try:
            content = base64.b64decode(text, b"-_", validate=True)
        except ValueError as error:
            raise PageTokenError(
                "this is no page token: send next_page_token back as it was given"
            ) from error
        if len(content) != _HEAD.size + _DIGEST_BYTES or content[0] != _VERSION:
            raise PageTokenError("this is no page token of this release: ask for the first page again")
        _, snapshot_id, schema_id, offset = _HEAD.unpack_from(content)
        snapshot = None if snapshot_id == _NO_SNAPSHOT else snapshot_id
        token = cls(snapshot, schema_id, offset, content[_HEAD.size :])
        if token.write() != text or offset <= 0:
            raise PageTokenError("this page token was changed: send next_page_token back as it was given")
        return token

    def write(self) -> str:
        """The token as text."""
        snapshot_id = _NO_SNAPSHOT if self.snapshot_id is None else self.snapshot_id
        head = _HEAD.pack(_VERSION, snapshot_id, self.schema_id, self.offset)
        return base64.urlsafe_b64encode(head + self.digest).decode("ascii")

    def check(self, version: Version, request: bytes) -> None:
        """Makes sure that the token goes on with this request.

        Raises:
            PageTokenError: it was given for another table, snapshot or request, or was changed.
        """
        if self != PageToken.after(self.offset, version, request):
            raise PageTokenError("the page token belongs to another request: send the same request with it")


@dataclass(frozen=True, slots=True)
class Window:
    """The share of an answer that goes into one page.

    Attributes:
        offset: entries that earlier pages held.
        size: most entries in this page.
        max_bytes: of JSON after which the page ends early; a single larger entry still goes out.
    """

    offset: int
    size: int
    max_bytes: int

    def fill(self, total: int, entry: Callable[[int], object]) -> Page:
        """The page of an answer of ``total`` entries; ``entry`` gives one by its index."""
        last = min(self.offset + self.size, total)
        entries: list[orjson.Fragment] = []
        held_bytes = 0
        for index in range(self.offset, last):
            encoded = write_json(entry(index))
            held_bytes += len(encoded)
            if entries and held_bytes > self.max_bytes:
                break
            entries.append(orjson.Fragment(encoded))
        after = self.offset + len(entries)
        return Page(entries, after if after < total else None)


@dataclass(frozen=True, slots=True)
class Page:
    """Entries ready for JSON, and the offset of the next page's; None on the last page."""

    entries: list[orjson.Fragment]
    next_offset: int | None
