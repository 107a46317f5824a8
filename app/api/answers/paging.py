"""Pages of one answer, and the tokens that ask for the next page.

A token holds everything that any replica needs to continue:

======  =====  ==================================================================
offset  bytes  meaning
======  =====  ==================================================================
0       1      version of this layout
1       8      snapshot id, big endian; -1 for a table without snapshots
9       8      id of the schema whose columns filters refer to
17      8      id of the schema whose options apply
25      8      entries of earlier pages; for plans, start of the next page (``encoding``)
33      16     digest of the version's identity, see :class:`VersionKey`
49      16     digest of all of this and of the request
======  =====  ==================================================================

The digests are not secret: a token gives no right that its holder does not have. They tie a token to its
request and its version.

Entries that belong to no version of a table, such as its snapshots, come and go between two pages. So the
token of a listing names the last entry of its page, and the next page begins after it:

======  =====  ====================================
offset  bytes  meaning
======  =====  ====================================
0       1      version of this layout
1       16     digest of all of this and of the request
17             key of the last entry, UTF-8
======  =====  ====================================
"""

from __future__ import annotations

import base64
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

import orjson
from pydantic import Field

from app.api.http.strict_json import write_json
from app.api.questions.queries import NamesQuery
from app.errors import PageTokenError, RequestError
from app.settings import Settings
from app.table import SchemaIds
from app.types.digest import DIGEST_BYTES, digest, request_digest

_LAYOUT = 5
_HEAD = struct.Struct(">Bqqqq16s")
_NO_SNAPSHOT = -1
_LISTING_LAYOUT = b"\x02"
_LISTING_HEAD_BYTES = len(_LISTING_LAYOUT) + DIGEST_BYTES
_OF_ANOTHER_REQUEST = "the page token belongs to another request: send the same request with it"

PAGE_BYTES = 1 << 20
"""Bytes of JSON after which a page ends early."""

NextPageToken = Annotated[str | None, Field(description="Asks for the next page; null on the last one.")]


@dataclass(frozen=True, slots=True)
class VersionKey:
    """Identity of one version of a table.

    ``identity``: a digest that changes with anything that could change the answer, so that another table made
    at the same path is another version, whatever its numbers.
    """

    identity: bytes
    snapshot_id: int | None
    schemas: SchemaIds


@dataclass(frozen=True, slots=True)
class PageToken:
    """Position of the next page."""

    version: VersionKey
    offset: int

    @classmethod
    def read(cls, text: str, request: bytes) -> Self:
        """Read a token. Raises PageTokenError if it is malformed, or not of this ``request``."""
        content = _decoded(text)
        if len(content) != _HEAD.size + DIGEST_BYTES or content[0] != _LAYOUT:
            raise PageTokenError("this is not a page token of this release: ask for the first page again")
        _, snapshot_id, columns, options, offset, identity = _HEAD.unpack_from(content)
        snapshot = None if snapshot_id == _NO_SNAPSHOT else snapshot_id
        token = cls(VersionKey(identity, snapshot, SchemaIds(columns, options)), offset)
        if offset < 0 or token.write(request) != text:
            raise PageTokenError(_OF_ANOTHER_REQUEST)
        return token

    def write(self, request: bytes) -> str:
        """Encode the token, valid for ``request`` only."""
        version = self.version
        snapshot_id = _NO_SNAPSHOT if version.snapshot_id is None else version.snapshot_id
        head = _HEAD.pack(_LAYOUT, snapshot_id, *version.schemas, self.offset, version.identity)
        return base64.urlsafe_b64encode(head + digest(head, request)).decode("ascii")


@dataclass(frozen=True, slots=True)
class Window:
    """The part of an answer that goes into one page.

    ``offset``: entries of earlier pages, or for plans the start of this page. ``size``: most entries in this
    page, except for entries that must share one page. ``max_bytes``: bytes of JSON after which the page ends
    early. A single larger entry is still sent.
    """

    offset: int
    size: int
    max_bytes: int

    def fill(self, total: int, entry: Callable[[int], object]) -> Page:
        """Encode the page of an answer of ``total`` entries. ``entry`` returns one by its index."""
        return self.take(total, (write_json(entry(index)) for index in range(self.offset, total)))

    def take(
        self, total: int, encoded_entries: Iterator[bytes], goes_on: Callable[[int], bool] = lambda _: False
    ) -> Page:
        """Fill the page from encoded entries. One that ``goes_on`` shares a page with the one before it."""
        entries: list[orjson.Fragment] = []
        held_bytes = 0
        for index, encoded in enumerate(encoded_entries, self.offset):
            held_bytes += len(encoded)
            is_full = len(entries) >= self.size or held_bytes > self.max_bytes
            if entries and is_full and not goes_on(index):
                break
            entries.append(orjson.Fragment(encoded))
        after = self.offset + len(entries)
        return Page(entries, after if after < total else None)


@dataclass(frozen=True, slots=True)
class Page:
    """Entries, each an :class:`orjson.Fragment`, and the offset of the next page. None on the last one."""

    entries: list[Any]
    next_offset: int | None


@dataclass(frozen=True, slots=True)
class Listing:
    """A request for the page of a listing that begins after the entry ``after``."""

    request: bytes
    after: str | None
    size: int

    @classmethod
    def of(cls, endpoint: str, *place: object, query: NamesQuery, settings: Settings) -> Listing:
        """Check the request of a caller.

        ``place``: scope of the listing: a warehouse and a database, or a table and a branch. Raises
        RequestError if the page size is over the limit. Raises PageTokenError if the token came with another
        listing.
        """
        size = query.page_size or settings.page_size
        if size > settings.page_size_max:
            raise RequestError(f"page_size is at most {settings.page_size_max}")
        request = request_digest(endpoint, *place)
        after = None if query.page_token is None else _read_token(query.page_token, request)
        return cls(request, after, size)

    def page(self, names: Sequence[str]) -> tuple[Sequence[str], str | None]:
        """Cut this page from all names in ascending order. Return it with the next page's token."""
        start = 0 if self.after is None else bisect_right(names, self.after)
        page = names[start : start + self.size]
        return page, self.next_token(page[-1] if start + self.size < len(names) else None)

    def next_token(self, last: str | int | None) -> str | None:
        """Return the token of the page after an entry. Return None if there is none."""
        if last is None:
            return None
        # Names of files need not be UTF-8.
        key = str(last).encode(errors="surrogatepass")
        return base64.urlsafe_b64encode(_LISTING_LAYOUT + digest(key, self.request) + key).decode("ascii")


def _read_token(text: str, request: bytes) -> str:
    content = _decoded(text)
    key = content[_LISTING_HEAD_BYTES:]
    if content[:_LISTING_HEAD_BYTES] != _LISTING_LAYOUT + digest(key, request):
        raise PageTokenError(_OF_ANOTHER_REQUEST)
    return key.decode(errors="surrogatepass")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, b"-_", validate=True)
    except ValueError as error:
        raise PageTokenError("this is not a page token: send next_page_token back as it was given") from error
