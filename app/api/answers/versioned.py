"""Answers about one version of a table: its resolution, pages, and ``ETag``."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse
from starlette.types import Send

from app.api.answers.encoding import NextToken
from app.api.answers.paging import PAGE_BYTES, PageToken, VersionKey, Window
from app.api.http.strict_json import write_json
from app.api.questions.bodies import PagedRequest
from app.api.runtime import Runtime
from app.errors import NotFoundError, RequestError, SnapshotExpiredError
from app.observation import Phase, during
from app.planning import Version
from app.planning.request import SnapshotSelector, TableRef, VersionedRequest
from app.release import __version__
from app.types.digest import digest, request_digest

_Answer = TypeVar("_Answer")

_PAGE_MEMBERS = {"page_size", "page_token"}
# Page, freshness and time budget do not change the answer about a version.
_NOT_PART_OF_THE_ETAG = _PAGE_MEMBERS | {"max_staleness_ms", "budget_ms"}
_TAG = re.compile(r'"[^"]*"')
_RELEASE = __version__.encode()


@dataclass(frozen=True, slots=True)
class Provisional(Generic[_Answer]):
    """An answer that may change for the same version, and so is sent without ETag."""

    answer: _Answer


class PieceStream(StreamingResponse):
    """Sends pieces as blocking work makes them, each within a deadline of its own.

    A failure before the first piece becomes a problem answer, since nothing is sent until then. A later
    failure breaks the connection off, and so does a caller who stops reading: the answer then lacks its end.
    """

    def __init__(
        self, runtime: Runtime, pieces: Iterator[bytes], *, media_type: str, headers: Mapping[str, str]
    ) -> None:
        super().__init__((), headers=headers, media_type=media_type)
        self._runtime = runtime
        self._pieces = pieces

    async def stream_response(self, send: Send) -> None:
        """Make and send the pieces."""
        piece = await self._next()
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        while piece is not None:
            try:
                async with asyncio.timeout(self._runtime.settings.deadline_seconds):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            except TimeoutError as error:
                raise ClientDisconnect from error
            piece = await self._next()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _next(self) -> bytes | None:
        return await self._runtime.run(self._make, is_begun=True)

    def _make(self) -> bytes | None:
        with during(Phase.ENCODE):
            return next(self._pieces, None)


@dataclass(frozen=True, slots=True)
class VersionedQuestion:
    """One request about one version of a table."""

    runtime: Runtime
    table: TableRef
    endpoint: str
    body: VersionedRequest
    if_none_match: Sequence[str] = ()
    headers: Mapping[str, str] = field(default_factory=dict)

    def answer(
        self, compute: Callable[[Version, Window, NextToken], object | Provisional[object]]
    ) -> Response:
        """Answer in JSON with the result of ``compute``, or with 304 without calling it.

        Raises PageTokenError if the token is of another request. Raises SnapshotExpiredError if its snapshot
        is gone.
        """
        request = self._digest()
        token = self._token(request)
        version = self._resolve(self.body.selector) if token is None else self._version_of(token)
        key = version_key(version)
        window = self._window(0 if token is None else token.offset)

        def next_token(offset: int | None) -> str | None:
            return None if offset is None else PageToken(key, offset).write(request)

        def write(headers: Mapping[str, str]) -> Response:
            headers, entry = _untagged(headers, compute(version, window, next_token))
            with during(Phase.ENCODE):
                content = write_json(entry)
            return Response(content, headers=headers, media_type="application/json")

        tag = digest(key.identity, request, repr(window).encode(), _RELEASE)
        return self._unless_cached(version, tag, write)

    def stream(
        self, media_type: str, compute: Callable[[Version], Iterator[bytes] | Provisional[Iterator[bytes]]]
    ) -> Response:
        """Stream the result of ``compute``, or answer 304. Raises RequestError if a page was requested."""
        if not _PAGE_MEMBERS.isdisjoint(name for name, value in self.body if value is not None):
            raise RequestError(
                f"{media_type} is answered as one stream: omit page_size and page_token, or accept "
                f"application/json"
            )
        version = self._resolve(self.body.selector)

        def write(headers: Mapping[str, str]) -> Response:
            headers, pieces = _untagged(headers, compute(version))
            return PieceStream(self.runtime, pieces, media_type=media_type, headers=headers)

        tag = digest(version_key(version).identity, self._digest(), media_type.encode(), _RELEASE)
        return self._unless_cached(version, tag, write)

    def _unless_cached(
        self, version: Version, tag: bytes, write: Callable[[Mapping[str, str]], Response]
    ) -> Response:
        etag = f'W/"{tag.hex()}"'
        headers = {"ETag": etag, "X-Snapshot-Age-Ms": f"{version.resolved.age_ms:.0f}", **self.headers}
        return (
            Response(status_code=304, headers=headers)
            if etag_matches(etag, self.if_none_match)
            else write(headers)
        )

    def _token(self, request: bytes) -> PageToken | None:
        text = self.body.page_token if isinstance(self.body, PagedRequest) else None
        return None if text is None else PageToken.read(text, request)

    def _version_of(self, token: PageToken) -> Version:
        """Return exactly the version of earlier pages, whatever has been committed since."""
        selector, key = self.body.selector, token.version
        # A tag keeps its snapshot when the snapshot of that number has expired.
        by_number = selector.tag is None and key.snapshot_id is not None
        pinned = SnapshotSelector(key.snapshot_id, branch=selector.branch) if by_number else selector
        version = same_version(self.runtime, self.table, pinned, key)
        if version is None:
            raise SnapshotExpiredError(
                f"snapshot {key.snapshot_id}, which this page continues, is gone: send the request without it"
            )
        return version

    def _resolve(self, selector: SnapshotSelector) -> Version:
        return self.runtime.service.resolve(self.table, selector)

    def _digest(self) -> bytes:
        members = {name: value for name, value in self.body if name not in _NOT_PART_OF_THE_ETAG}
        return request_digest(self.endpoint, self.table, members)

    def _window(self, offset: int) -> Window:
        settings = self.runtime.settings
        given = self.body.page_size if isinstance(self.body, PagedRequest) else None
        size = settings.page_size if given is None else given
        if size > settings.page_size_max:
            raise RequestError(f"page_size is at most {settings.page_size_max}")
        return Window(offset, size, PAGE_BYTES)


def _untagged(
    headers: Mapping[str, str], answer: _Answer | Provisional[_Answer]
) -> tuple[Mapping[str, str], _Answer]:
    if not isinstance(answer, Provisional):
        return headers, answer
    return {name: value for name, value in headers.items() if name != "ETag"}, answer.answer


def same_version(
    runtime: Runtime, table: TableRef, selector: SnapshotSelector, key: VersionKey
) -> Version | None:
    """Resolve a selector with the schemas of a key. Return None if the result is another version."""
    try:
        version = runtime.service.resolve(table, replace(selector, schemas=key.schemas))
    except NotFoundError:
        return None
    return version if version_key(version) == key else None


def version_key(version: Version) -> VersionKey:
    """Return the key of a version."""
    return VersionKey(digest(version.identity.encode()), version.snapshot_id, version.schema.ids)


def etag_matches(etag: str, if_none_match: Iterable[str]) -> bool:
    """Return True if one of the ``If-None-Match`` headers names ``etag``. Weak tags match strong ones."""
    names = set(_TAG.findall(etag))
    return any(
        header.strip() == "*" or not names.isdisjoint(_TAG.findall(header)) for header in if_none_match
    )
