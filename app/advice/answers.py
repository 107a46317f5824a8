"""Answers about the indexes of a table."""

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
    """Subject of a piece of advice. See :mod:`app.advice.table_advice`."""

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
    """A piece of advice."""

    subject: AdviceSubject
    column: str | None
    """Column, with the key in brackets for one key of a map; null: the table."""
    index: Annotated[str | None, Field(examples=["bloom-filter"])]
    detail: str
    """The finding, and the remedy."""
    files: int
    """Data files concerned."""
    bytes_saved: int | None
    """Bytes of indexes saved once all files are rewritten; negative: the cost; null: unknown."""


@dataclass(frozen=True, slots=True)
class IndexUse:
    """The indexes of one kind on one column."""

    column: str
    index: Annotated[str, Field(examples=["bitmap"])]
    declared: bool
    """True if the table's options name it, so that writers make it."""
    files: int
    """Data files with the index."""
    files_without: int
    """Data files without it, though their schema has the column."""
    bytes: int
    largest_bytes: int
    plans_asked: int
    """Plans with a test on the column, since the service started."""
    plans_useful: int
    """Plans of `plans_asked` in which an index of this kind skipped a file."""


@dataclass(frozen=True, slots=True)
class ShapeUse:
    """A filter that callers sent, with `?` for every literal."""

    filter: Annotated[str, Field(examples=["`city` = ? AND `amount` > ?"])]
    plans: int


@dataclass(frozen=True, slots=True)
class Savings:
    """Savings of a table's readers by file indexes since the service started."""

    plans: int
    files: int
    """Data files that only indexes skipped."""
    bytes: int
    """Bytes of these files."""
    calls: int
    """Calls saved: at least two per file, for its footer and for its columns."""
    money: float | None
    """Money saved, by the prices in the settings; null without prices."""


@dataclass(frozen=True, slots=True)
class TableAdvice:
    """Cost and use of a table's file indexes, and advice about them."""

    __pydantic_config__ = DESCRIBED

    snapshot_id: int | None
    files: int
    files_examined: int
    """Data files whose index heads were read; below `files`, numbers of indexes are estimates."""
    data_bytes: int
    index_bytes: int
    files_without_index: int
    """Data files without any file index."""
    indexes: Sequence[IndexUse]
    advice: Sequence[Advice]
    """At most one piece per index; the largest saving first."""
    options: Mapping[str, str | None]
    """Table options to set for all advice together; null: to unset."""
    statements: Sequence[str]
    """Spark SQL that sets these options, for files written from then on; none for less than 1 MiB of data."""
    command: str | None
    """Command that indexes existing files, and removes only indexes that it names; null if nothing is to be
    written, or for less than 1 MiB of data.
    """
    savings: Savings
    shapes: Sequence[ShapeUse]
    """The most frequent filters; empty if the service does not count them."""
    warnings: Sequence[str]


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of a terabyte read and of a thousand calls, in any currency."""

    terabyte: float | None = None
    thousand_calls: float | None = None

    def of(self, bytes_read: int, calls: int) -> float | None:
        """Return the price of a read. Return None without prices."""
        if self.terabyte is None and self.thousand_calls is None:
            return None
        terabytes, thousands = bytes_read / _TERABYTE, calls / _THOUSAND
        return terabytes * (self.terabyte or 0) + thousands * (self.thousand_calls or 0)
