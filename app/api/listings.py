"""Pages of listings that belong to no version of a table, such as that of its snapshots.

What is listed comes and goes between two pages. So a token names the last entry of its page, and the next
page begins behind it: nothing that stays is left out or told twice.

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
from dataclasses import dataclass

from app.api.queries import ListingQuery
from app.errors import PageTokenError, RequestError
from app.planning.request.requests import TableRef
from app.settings import Settings
from app.types.digest import DIGEST_BYTES, digest, request_digest

_LAYOUT = b"\x02"
_HEAD_BYTES = len(_LAYOUT) + DIGEST_BYTES


@dataclass(frozen=True, slots=True)
class Listing:
    """One request for a page of a listing.

    Attributes:
        after: key of the last entry of the page before; None for the first page.
        size: most entries of this page.
    """

    request: bytes
    after: str | None
    size: int

    @classmethod
    def of(cls, endpoint: str, table: TableRef, query: ListingQuery, settings: Settings) -> Listing:
        """The listing that a caller asks for.

        Raises:
            RequestError: the page is larger than any may be.
            PageTokenError: the token was not given with this listing.
        """
        size = query.page_size or settings.page_size
        if size > settings.page_size_max:
            raise RequestError(f"page_size is at most {settings.page_size_max}")
        request = request_digest(endpoint, table, query.branch)
        after = None if query.page_token is None else _read_token(query.page_token, request)
        return cls(request, after, size)

    def next_token(self, last: str | int | None) -> str | None:
        """The token of the page behind an entry; None if there is none."""
        if last is None:
            return None
        key = str(last).encode()
        return base64.urlsafe_b64encode(_LAYOUT + digest(key, self.request) + key).decode("ascii")


def _read_token(text: str, request: bytes) -> str:
    try:
        content = base64.b64decode(text, b"-_", validate=True)
    except ValueError as error:
        raise PageTokenError("this is no page token: send next_page_token back as it was given") from error
    key = content[_HEAD_BYTES:]
    if content[:_HEAD_BYTES] != _LAYOUT + digest(key, request):
        raise PageTokenError("the page token belongs to another request: send the same request with it")
    return key.decode()
