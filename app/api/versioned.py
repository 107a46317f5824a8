"""Answers about one version of a table: which version, which page, and whether the caller has it already."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.responses import Response

from app import __version__
from app.api.bodies import PagedBody
from app.api.etags import is_known
from app.api.paging import PageToken, Version, Window
from app.api.strict_json import write_json
from app.errors import NotFoundError, RequestError, SnapshotExpiredError
from app.planning.requests import SnapshotSelector

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from app.api.bodies import VersionedBody
    from app.api.encoding import Entry, NextToken
    from app.api.runtime import Runtime
    from app.planning.requests import TableRef

_PAGE_MEMBERS = {"page_size", "page_token"}


@dataclass(frozen=True, slots=True)
class Question:
    """One request about one version of a table.

    Attributes:
        runtime: the service and the settings.
        table: what the request is about.
        endpoint: tells equal bodies of different endpoints apart.
        body: names the version, and the page where there are pages.
        if_none_match: the caller's ``If-None-Match`` headers.
    """

    runtime: Runtime
    table: TableRef
    endpoint: str
    body: VersionedBody
    if_none_match: Sequence[str] = ()

    def answer(self, compute: Callable[[SnapshotSelector, Window, NextToken], Entry]) -> Response:
        """The HTTP answer: what ``compute`` gives for the version and the page, or 304 without asking it.

        Raises:
            PageTokenError: the page token is not of this request.
            SnapshotExpiredError: the snapshot that a page token goes on with is gone.
        """
        request = self._digest()
        selector, version = self.body.selector(), self._resolve(self.body.selector())
        token = self._token()
        if token is not None:
            asked, version = version, Version(version.identity, token.snapshot_id, token.schema_id)
            token.check(version, request)
            if version != asked:
                selector = self._pin(selector, version)
        window = self._window(token)
        etag = f'"{version.digest(request, repr(window).encode(), __version__.encode()).hex()}"'
        if is_known(etag, self.if_none_match):
            return Response(status_code=304, headers={"ETag": etag})

        def next_token(offset: int | None) -> str | None:
            return None if offset is None else PageToken.after(offset, version, request).write()

        content = write_json(compute(selector, window, next_token))
        return Response(content, media_type="application/json", headers={"ETag": etag})

    def _token(self) -> PageToken | None:
        text = self.body.page_token if isinstance(self.body, PagedBody) else None
        return None if text is None else PageToken.read(text)

    def _pin(self, selector: SnapshotSelector, version: Version) -> SnapshotSelector:
        """Asks for the version that the first page had, which is no longer what ``selector`` means."""
        pinned = SnapshotSelector(snapshot_id=version.snapshot_id, branch=selector.branch)
        try:
            found = self._resolve(pinned)
        except NotFoundError:
            found = None
        if found != version:
            raise SnapshotExpiredError(
                f"snapshot {version.snapshot_id}, which this page token goes on with, is gone: ask without it"
            )
        return pinned

    def _resolve(self, selector: SnapshotSelector) -> Version:
        resolved = self.runtime.service.resolve(self.table, selector)
        return Version(resolved.identity, resolved.snapshot_id, resolved.schema_id)

    def _digest(self) -> bytes:
        members = self.body.model_dump(exclude=_PAGE_MEMBERS)
        # Numbers that a double cannot hold are Decimal, which stands for itself as text.
        canonical = json.dumps([self.endpoint, members], sort_keys=True, separators=(",", ":"), default=str)
        return hashlib.blake2b(canonical.encode(), digest_size=16).digest()

    def _window(self, token: PageToken | None) -> Window:
        settings = self.runtime.settings
        asked = self.body.page_size if isinstance(self.body, PagedBody) else None
        size = settings.page_size if asked is None else asked
        if size > settings.page_size_max:
            raise RequestError(f"page_size is at most {settings.page_size_max}")
        return Window(0 if token is None else token.offset, size, settings.page_bytes)
