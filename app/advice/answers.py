"""What is said of the indexes of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from app.described import DESCRIBED

_TERABYTE: Final = 1e12
_THOUSAND: Final = 1e3


class AdviceSubject(StrEnum):
    """What a piece of advice is about, see :mod:`app.advice.table_advice`."""

    BLOOM_FILTER_ITEMS = "bloom-filter-items"
    SMALL_FILES = "small-files"
    BITMAP_OF_MANY_VALUES = "bitmap-of-many-values"
    RANGE_BITMAP_FOR_BSI = "range-bitmap-for-bsi"
    INDEX_MISSING = "index-missing"
    LARGE_INDEX = "large-index"
    EMBED_INDEXES = "embed-indexes"
    SEPARATE_INDEXES = "separate-indexes"
    INDEX_WITHOUT_EFFECT = "index-without-effect"
    COLUMN_WITHOUT_INDEX = "column-without-index"


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to do."""

    subject: AdviceSubject
    column: str | None
    """With the key in brackets for one key of a map column; null: the table."""
    index: Annotated[str | None, Field(examples=["bloom-filter"])]
    detail: str
    """What was found, and what to do."""
    files: int
    """Data files that it is about."""
    bytes_saved: int | None
    """Of indexes, once all files are written anew; negative: what it costs; null: unknown."""


@dataclass(frozen=True, slots=True)
class IndexUse:
    """The indexes of one kind on one column."""

    column: str
    index: Annotated[str, Field(examples=["bitmap"])]
    declared: bool
    """The table's options name it, so that writers make it."""
    files: int
    """Data files that have it."""
    files_without: int
    """Data files that lack it, though their schema has the column."""
    bytes: int
    largest_bytes: int
    plans_asked: int
    """Plans with a test on the column, since the service started."""
    plans_useful: int
    """Those of them in which an index of this kind left out a file."""


@dataclass(frozen=True, slots=True)
class ShapeUse:
    """A filter that was asked, with `?` in place of every literal."""

    filter: Annotated[str, Field(examples=["`city` = ? AND `amount` > ?"])]
    plans: int


@dataclass(frozen=True, slots=True)
class Savings:
    """What file indexes have spared the readers of a table since the service started."""

    plans: int
    files: int
    """Data files that indexes alone left out."""
    bytes: int
    """Of these files."""
    calls: int
    """At least two for each file: for its footer, and for its columns."""
    money: float | None
    """By the prices in the settings; null: there are none."""


@dataclass(frozen=True, slots=True)
class TableAdvice:
    """What the file indexes of a table cost and give, and what to do about it."""

    __pydantic_config__ = DESCRIBED

    snapshot_id: int | None
    files: int
    files_examined: int
    """Data files whose index heads were read; if there are more, numbers of indexes are estimates."""
    data_bytes: int
    index_bytes: int
    files_without_index: int
    """Data files that have no file index at all."""
    indexes: Sequence[IndexUse]
    advice: Sequence[Advice]
    """At most one piece for an index; what saves most comes first."""
    options: Mapping[str, str | None]
    """Table options to set for all pieces of advice together; null: to remove."""
    statements: Sequence[str]
    """Spark's SQL that sets them, for what is written from then on; none for less than 1 MiB of data."""
    command: str | None
    """That writes the indexes of the files that are there already, and takes off only those that it names;
    null: there is nothing to write, or less than 1 MiB of data."""
    savings: Savings
    shapes: Sequence[ShapeUse]
    """The filters that were asked most; empty if the service does not count them."""
    warnings: Sequence[str]


@dataclass(frozen=True, slots=True)
class Prices:
    """What reading a terabyte and a thousand calls to the store cost, in any currency."""

    terabyte: float | None = None
    thousand_calls: float | None = None

    def of(self, bytes_read: int, calls: int) -> float | None:
        """What it costs to read so much; None without prices."""
        if self.terabyte is None and self.thousand_calls is None:
            return None
        terabytes, thousands = bytes_read / _TERABYTE, calls / _THOUSAND
        return terabytes * (self.terabyte or 0) + thousands * (self.thousand_calls or 0)
