"""Strong entity tags, and whether a caller has the answer already."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from app.api.compression import CODINGS

if TYPE_CHECKING:
    from collections.abc import Iterable

_TAG = re.compile(r'(?:W/)?("[^"]*")')


def is_known(etag: str, if_none_match: Iterable[str]) -> bool:
    """Whether one of the ``If-None-Match`` headers names ``etag``, in any content coding."""
    names = {etag, *(f'{etag[:-1]}-{coding}"' for coding in CODINGS)}
    return any(
        header.strip() == "*" or not names.isdisjoint(_TAG.findall(header)) for header in if_none_match
    )
