"""Verifies an index file against the rows of its data file.

An index is right if it never skips a matching row. A bitmap, range-bitmap or bsi must also name no other row.
In each index every distinct value is looked up, or as many as the caller allows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.building.columns import Advance, ignore_progress
from app.building.row_checks import (
    ActualValues,
    BloomFindings,
    Mismatch,
    find_mismatch,
    find_refused,
    measure,
)
from app.errors import CorruptIndexError, RequestError
from app.file_index import KINDS, FileIndex, KeyColumn, open_payload
from app.file_index.bloom_filter import BloomFilter
from app.file_index.container import ContainerEntry, HeadLayout
from app.types import Json

_SEED: Final = 0


@dataclass(frozen=True, slots=True)
class IndexProblem:
    """Reason why an index must not be used."""

    detail: str
    row: int | None = None  # 0-based row of the error; None if the problem is not in a row.
    value: Json = None
    lost: bool = False  # True if the index skips this row, so that queries miss it.


@dataclass(frozen=True, slots=True)
class CheckedEntry:
    """Verdict on one index of a container."""

    column: str
    kind: str
    size_bytes: int
    distinct: int | None = None  # Number of distinct values; None if the column could not be read.
    checked: int = 0  # Number of values looked up.
    problem: IndexProblem | None = None
    bloom: BloomFindings | None = None  # Findings about a bloom filter without a problem.


@dataclass(frozen=True, slots=True)
class Verification:
    """Verdict on a container. Unused bytes belong neither to its head nor to any index."""

    row_count: int
    size_bytes: int
    unused_bytes: int
    entries: tuple[CheckedEntry, ...]

    @property
    def passed(self) -> bool:
        """True if every index is right."""
        return all(entry.problem is None for entry in self.entries)


def verify(
    content: bytes,
    column_of: Callable[[str], KeyColumn],
    row_count: int,
    *,
    sample: int | None = None,
    advance: Advance = ignore_progress,
) -> Verification:
    """Verify a container against its data file.

    ``column_of``: reads a column, or the values of ``column[key]``. Called once per indexed column. Raises
    ``RequestError`` for a column that can have no index.
    ``sample``: limit of distinct values to look up in each index. None for all. The choice is reproducible.

    Raises CorruptIndexError if the container's head cannot be read.
    """
    index = FileIndex.read(content)
    checked: list[CheckedEntry] = []
    for column, entries in index.entries.items():
        actual = _actual_values(column_of, column)
        for entry in entries:
            checked.append(_check(index, entry, actual, row_count, sample))
            advance(1)
    return Verification(row_count, index.size, _unused_bytes(index, content), tuple(checked))


def _actual_values(column_of: Callable[[str], KeyColumn], column: str) -> ActualValues | IndexProblem:
    try:
        return ActualValues.of(column_of(column))
    except RequestError as error:
        return IndexProblem(str(error))


def _check(
    index: FileIndex,
    entry: ContainerEntry,
    actual: ActualValues | IndexProblem,
    row_count: int,
    sample: int | None,
) -> CheckedEntry:
    if isinstance(actual, IndexProblem):
        return CheckedEntry(entry.column, entry.kind, entry.length, problem=actual)
    random = np.random.default_rng(_SEED)
    ranks = np.arange(len(actual.keys))
    if sample is not None and sample < len(ranks):
        ranks = np.sort(random.choice(ranks, sample, replace=False))
    verdict: IndexProblem | BloomFindings | None
    try:
        verdict = _judge(index, entry, actual, row_count, ranks, random)
    except CorruptIndexError as error:
        verdict = IndexProblem(f"cannot be read: {error.expectation}")
    return CheckedEntry(
        entry.column,
        entry.kind,
        entry.length,
        len(actual.keys),
        len(ranks),
        problem=verdict if isinstance(verdict, IndexProblem) else None,
        bloom=verdict if isinstance(verdict, BloomFindings) else None,
    )


def _judge(
    index: FileIndex,
    entry: ContainerEntry,
    actual: ActualValues,
    row_count: int,
    ranks: NDArray[np.int64],
    random: np.random.Generator,
) -> IndexProblem | BloomFindings | None:
    if entry.is_empty:
        rows = actual.column.value_rows
        return (
            _problem(Mismatch(int(rows[0]), lost=True, question="IS NOT NULL"), actual) if len(rows) else None
        )
    kind = KINDS.get(entry.kind)
    if kind is None:
        return IndexProblem(f"there is no index type {entry.kind!r:.100}")
    stack = open_payload(kind, index.payload(entry), actual.column.data_type)
    opened = stack.of_file(0)
    if not kind.tells_rows:
        refused = find_refused(stack, actual, ranks, random)
        if refused is not None:
            return _problem(refused, actual)
        return measure(opened, actual, random) if isinstance(opened, BloomFilter) else None
    if opened.row_count != row_count:
        return IndexProblem(f"is about {opened.row_count} rows, the data file has {row_count}")
    wrong = find_mismatch(opened, actual, ranks, random)
    return None if wrong is None else _problem(wrong, actual)


def _problem(wrong: Mismatch, actual: ActualValues) -> IndexProblem:
    rank = int(actual.ranks[wrong.row])
    value, shown = (None, "NULL") if rank < 0 else (actual.value(rank), actual.shown(rank))
    verb = "leaves out" if wrong.lost else "names"
    detail = f"{wrong.question} {verb} row {wrong.row}, whose value is {shown}"
    return IndexProblem(detail, wrong.row, value, wrong.lost)


def _unused_bytes(index: FileIndex, content: bytes) -> int:
    used = unused = 0
    extents = sorted(
        (entry.start, entry.end)
        for entries in index.entries.values()
        for entry in entries
        if entry.lies_within(index.size)
    )
    for start, end in [(0, HeadLayout.read(memoryview(content)).length), *extents, (len(content),) * 2]:
        unused += max(0, start - used)
        used = max(used, end)
    return unused
