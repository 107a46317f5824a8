"""What callers send to have indexes tried; see :mod:`app.api.bodies`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from app.advice.what_if import DEFAULT_BYTES, DEFAULT_FILES, MOST_FILES, WhatIfRequest
from app.api.bodies import Body, Count, Filter, Name, TimeZone, VersionedBody
from app.errors import RequestError
from app.options.file_indexes import DeclaredIndex

_MOST_INDEXES = 20
_MOST_FILTERS = 64
_MOST_BYTES = 1 << 30


class IndexBody(Body):
    """An index to try."""

    column: Name
    index: Name = Field(examples=["range-bitmap"])
    options: dict[str, str] = Field({}, description="Of the index, by the last part of the option's name.")


class WhatIfBody(VersionedBody):
    """How many files would these indexes leave out?"""

    example: ClassVar = {
        "indexes": [{"column": "user_id", "index": "bloom-filter", "options": {"items": "10000"}}],
        "filters": ["user_id = ?", "dt = '2025-08-01' AND user_id IN (17, 23)"],
    }

    indexes: Annotated[list[IndexBody], Field(min_length=1, max_length=_MOST_INDEXES)]
    filters: Annotated[list[Filter], Field(min_length=1, max_length=_MOST_FILTERS)] | None = Field(
        None,
        description="SQL may have `?` in place of literals, which are then drawn from the table. Absent: the "
        "filters that this table's plans had most often, as far as the service counts them.",
    )
    files: Annotated[int, Field(ge=1, le=MOST_FILES)] = Field(
        DEFAULT_FILES, description="Data files that are tried for each filter."
    )
    bytes: Annotated[int, Field(ge=1, le=_MOST_BYTES)] = Field(
        DEFAULT_BYTES, description="Of data files that are read at most, but for the first."
    )
    seed: Count = Field(0, description="Chooses files and rows; the same seed chooses the same.")
    time_zone: TimeZone | None = None

    def to_request(self, shapes: Sequence[str]) -> WhatIfRequest:
        """What is tried."""
        filters = shapes if self.filters is None else self.filters
        if not filters:
            raise RequestError("no plan of this table had a filter since the service started: send filters")
        declared = [DeclaredIndex(each.column, each.index, each.options) for each in self.indexes]
        return WhatIfRequest(declared, filters, self.files, self.bytes, self.seed)
