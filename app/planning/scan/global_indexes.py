"""Asks global indexes which rows of a table with data evolution can match: files without any are left out.

A global index speaks of row ids, over many files. Its entries are believed only where what they say must be
true of the rows as they are:

* its column has had one type since the table was made, and its entries no other columns, nor sources;
* of the files of a row, a single one holds the column. Where a second one does, the column was updated, maybe
  behind the index's back. For a table whose option ``global-index.column-update-action`` is ``ignore``, no
  entry is believed: a compaction may have hidden the update;
* the row lies in the partition of the entry, and its entries count as many rows as the range has.

Whatever rows no entry that is believed covers can match: they are kept. So are those of a range that has an
entry whose file cannot be read.

Of a filter, sets of row ids are made: rows that may satisfy it, and rows that must. Tests of columns without
an index may be satisfied by all rows, and must be by none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap, BitMap64

from app.errors import CorruptIndexError, PaimonIndexError, SnapshotExpiredError, UnsupportedFormatError
from app.file_index.answers.result import SKIP, Outcome, Rows, both
from app.file_index.index_kinds import condition_of
from app.global_index.index_file import KeyBounds
from app.global_index.keys import same_keys, takes
from app.global_index.search import KINDS, Part, searches
from app.planning.plan.explanation import MeasuredSteps
from app.planning.plan.file_plan import ExplainStep, KeepReason, SkipStep
from app.planning.plan.state import PlanState
from app.planning.scan.row_id_groups import RowIdGroups
from app.planning.side_files.pieces import Asked, run_searches
from app.planning.version.version import Version
from app.predicates.model import BoundLeaf, BoundPredicate, Constant, Unknown, fold, leaves
from app.table.manifests.index_manifest import IndexEntry
from app.types import DataField
from app.types.row_ids import count_within, joined, rows_from, rows_within

_MOST_ROWS: Final = 1 << 32
_NOTHING: Final = BitMap64()


class Range(NamedTuple):
    """Entries of one kind, column and partition that together cover a range of row ids, ``last`` included."""

    kind: str
    first: int
    last: int
    partition: bytes
    entries: tuple[IndexEntry, ...]

    def __str__(self) -> str:
        return f"rows {self.first:,} to {self.last:,}"


@dataclass(frozen=True, slots=True)
class Found:
    """What indexes say of a test.

    Attributes:
        covered: rows that they speak of.
        matching: of these, those that may satisfy it.
        certain: those that must.
        kinds: of the files that were asked, and how many bytes these have.
    """

    covered: BitMap64
    matching: BitMap64
    certain: BitMap64
    kinds: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class _Narrowed:
    """Files whose rows are known: row ids that may match and that must."""

    files: NDArray[np.int64]
    first_rows: NDArray[np.int64]
    may: BitMap64
    must: BitMap64


@dataclass(slots=True)
class GlobalIndexes:
    """The global indexes of one version.

    ``lasting``: warnings that hold for every plan. ``passing``: those about a moment's trouble.
    """

    version: Version
    lasting: list[str]
    passing: list[str]
    _narrowed: list[_Narrowed] = field(default_factory=list)
    _asked: list[NDArray[np.int64]] = field(default_factory=list)

    def test(self, state: PlanState, groups: RowIdGroups) -> None:
        """Skips the files of groups in which no row can match, of those that are left."""
        leads = groups.members[groups.starts]
        left = np.flatnonzero(state.is_left(leads) & groups.same_rows)
        codes = state.predicate_codes[leads]
        predicates = {code: state.predicates[code] for code in np.unique(codes[left]).tolist()}
        tests = {
            part
            for predicate in predicates.values()
            for part in leaves(predicate)
            if isinstance(part, BoundLeaf) and self._is_indexed(part)
        }
        if not tests:
            return
        found = self._find(state, groups, left, sorted(tests, key=str))
        for code, predicate in predicates.items():
            of_filter = [found[part] for part in leaves(predicate) if part in found]
            if of_filter:
                covered = BitMap64.union(_NOTHING, *(each.covered for each in of_filter))
                some = left[codes[left] == code]
                some = some[count_within(covered, groups.first_rows[some], groups.last_rows[some]) > 0]
                self._judge(state, groups, some, predicate, found)
        self._warn_of_others(groups, left, found)

    def find_rows(self, state: PlanState) -> None:
        """Notes the rows that can match, of files that are kept and can be read straight."""
        for narrowed in self._narrowed:
            kept = state.is_left(narrowed.files) & state.raw_convertible[narrowed.files]
            files, first = narrowed.files[kept], narrowed.first_rows[kept]
            last = first + state.files.columns.row_counts[files] - 1
            exact = count_within(narrowed.may, first, last) == count_within(narrowed.must, first, last)
            rows = rows_within(narrowed.may, first, last)
            for file, positions, is_exact in zip(files.tolist(), rows, exact.tolist(), strict=True):
                mine, other = Rows(positions, is_exact), state.answers.get(file)
                together = mine if other is None else both(other, mine)
                if isinstance(together, Rows):
                    state.answers[file] = together
                elif together is SKIP:
                    state.skip(np.array([file]), SkipStep.GLOBAL_INDEX, evidence="its indexes share no row")

    def keep_asked(self, state: PlanState) -> None:
        """Notes of files that are left that an index was asked of them."""
        for files in self._asked:
            state.keep(files[state.is_left(files)], KeepReason.MATCHED)

    def _is_indexed(self, test: BoundLeaf) -> bool:
        column = self.version.schema.by_id.get(test.field.id)
        ids = self.version.contents().global_indexes
        return column is not None and column.name == test.field.name and column.id in ids

    def _find(
        self, state: PlanState, groups: RowIdGroups, left: NDArray[np.int64], tests: Sequence[BoundLeaf]
    ) -> dict[BoundLeaf, Found]:
        asked: list[Asked] = []
        jobs: list[tuple[BoundLeaf, Range, BitMap64, bool, slice]] = []
        for column_id in dict.fromkeys(test.field.id for test in tests):
            column = self.version.schema.by_id[column_id]
            of_column = [test for test in tests if test.field.id == column_id]
            for each, covered in self._believed(state, groups, left, column):
                try:
                    parts = [self._part(each, entry, column) for entry in each.entries]
                except CorruptIndexError as error:
                    self._distrust(column, f"{error} ({each})")
                    continue
                for test in of_column:
                    condition = condition_of(test)
                    if condition is None:
                        continue
                    is_rest, of_test = searches(condition, [part for _, part in parts])
                    start = len(asked)
                    form = f"{column.type} {each.last - each.first}"
                    asked += [Asked(parts[at][0], form, search) for at, search in of_test]
                    jobs.append((test, each, covered, is_rest, slice(start, len(asked))))
        rows = run_searches(self.version.source, asked)
        found: dict[BoundLeaf, list[tuple[Range, BitMap64, BitMap64]]] = defaultdict(list)
        for test, each, covered, is_rest, some in jobs:
            failures = [one for one in rows[some] if isinstance(one, PaimonIndexError)]
            for failure in failures[:1]:
                self._fail(test.field, failure)
            if failures:
                continue
            within = BitMap.union(BitMap(), *(one for one in rows[some] if isinstance(one, BitMap)))
            matching = rows_from(each.first, within)
            matching = covered - matching if is_rest else covered & matching
            found[test].append((each, covered, matching))
        return {test: _together(test, parts) for test, parts in found.items()}

    def _part(self, each: Range, entry: IndexEntry, column: DataField) -> tuple[str, Part]:
        path, covered = self.version.source.paths.global_index_file(entry), entry.file.global_index
        assert covered is not None  # noqa: S101 - entries of a range have one
        bounds = KeyBounds.read(covered.metadata, column.type)
        file = KINDS[each.kind](entry.file.file_size, each.last - each.first + 1, column.type)
        return path, Part(file, bounds)

    def _believed(
        self, state: PlanState, groups: RowIdGroups, left: NDArray[np.int64], column: DataField
    ) -> Iterator[tuple[Range, BitMap64]]:
        """Ranges of a column, each with the row ids in files that are left of which it is believed."""
        why = self._why_not(column)
        if why is not None:
            self._distrust(column, why)
            return
        order = np.argsort(groups.first_rows, kind="stable")
        first, last = groups.first_rows[order], groups.last_rows[order]
        ends = np.maximum.accumulate(last) if len(last) else last
        is_sole = groups.has_sole_holder(column.id)
        is_left = np.zeros(len(order), np.bool_)
        is_left[left] = True
        if not is_sole[left].all():
            self._distrust(
                column, "it was updated, in rows that are kept: a compaction brings the index back"
            )
        codes = {row: code for code, row in enumerate(state.files.columns.partitions)}
        partitions = state.files.columns.partition_codes[groups.members[groups.starts]]
        for each in self._ranges(column.id):
            near = order[np.searchsorted(ends, each.first) : np.searchsorted(first, each.last, "right")]
            near = near[partitions[near] == codes.get(each.partition, -1)]
            near = near[groups.last_rows[near] >= each.first]
            low = np.maximum(groups.first_rows[near], each.first)
            high = np.minimum(groups.last_rows[near], each.last)
            missing = int((high - low + 1).sum()) - sum(entry.file.row_count for entry in each.entries)
            if missing > 0:
                self._distrust(column, f"its files lack {missing:,} of {each}")
                continue
            counts = is_sole[near] & is_left[near]
            covered = joined(low[counts], high[counts])
            if covered:
                yield each, covered

    def _why_not(self, column: DataField) -> str | None:
        """Why no entry of a column is believed, if none is."""
        schema = self.version.schema
        if schema.options.global_index_ignores_updates:
            return "global-index.column-update-action=ignore lets it be wrong: build it anew without"
        if not takes(column.type):
            return f"values of type {column.type} are not read"
        try:
            schemas = [self.version.file_schema(number) for number in range(schema.id + 1)]
        except SnapshotExpiredError as error:
            return f"what type it had is not known: {error}"
        types = [each.by_id[column.id].type for each in schemas if column.id in each.by_id]
        if all(same_keys(each, column.type) for each in types):
            return None
        return f"the type of the column has changed to {column.type}: drop the index, and build it anew"

    def _ranges(self, column_id: int) -> list[Range]:
        ranges: dict[tuple[str, int, int, bytes], list[IndexEntry]] = defaultdict(list)
        for entry in self.version.contents().global_indexes[column_id]:
            covered = entry.file.global_index
            if covered is not None and 0 <= covered.last_row - covered.first_row < _MOST_ROWS:
                key = entry.file.index_type, covered.first_row, covered.last_row, entry.partition
                ranges[key].append(entry)
        return [Range(*key, tuple(entries)) for key, entries in ranges.items()]

    def _judge(
        self,
        state: PlanState,
        groups: RowIdGroups,
        some: NDArray[np.int64],
        predicate: BoundPredicate,
        found: Mapping[BoundLeaf, Found],
    ) -> None:
        first, last = groups.first_rows[some], groups.last_rows[some]
        order = np.argsort(first, kind="stable")
        every = joined(first[order], last[order])

        def leaf(part: BoundLeaf | Constant | Unknown) -> tuple[BitMap64, BitMap64]:
            match part:
                case BoundLeaf() if part in found:
                    known = found[part]
                    return every - (known.covered - known.matching), every & known.certain
                case Constant(value):
                    return (every, every) if value else (_NOTHING, _NOTHING)
                case _:
                    return every, _NOTHING

        def both_of(parts: Sequence[tuple[BitMap64, BitMap64]]) -> tuple[BitMap64, BitMap64]:
            may, must = zip(*parts, strict=True) if parts else ((every,), (every,))
            return BitMap64.intersection(every, *may), BitMap64.intersection(every, *must)

        def either_of(parts: Sequence[tuple[BitMap64, BitMap64]]) -> tuple[BitMap64, BitMap64]:
            may, must = zip(*parts, strict=True) if parts else ((), ())
            return BitMap64.union(_NOTHING, *may), BitMap64.union(_NOTHING, *must)

        may, must = fold(predicate, leaf, both_of, either_of)
        self._explain(state, groups, some, [part for part in leaves(predicate) if part in found], found)
        members = np.flatnonzero(np.isin(groups.numbers, some))
        self._asked.append(groups.members[members])
        none = some[count_within(may, first, last) == 0]
        gone = groups.members[np.isin(groups.numbers, none)]
        state.skip(gone, SkipStep.GLOBAL_INDEX, predicate=predicate)
        alone = some[groups.sizes[some] == 1]
        files = groups.members[groups.starts[alone]]
        self._narrowed.append(_Narrowed(files, groups.first_rows[alone], may, must))

    def _explain(
        self,
        state: PlanState,
        groups: RowIdGroups,
        some: NDArray[np.int64],
        tests: Sequence[BoundLeaf | Constant | Unknown],
        found: Mapping[BoundLeaf, Found],
    ) -> None:
        if state.explanation is None:
            return
        first, last = groups.first_rows[some], groups.last_rows[some]
        leads = groups.members[groups.starts[some]]
        for test in tests:
            if not isinstance(test, BoundLeaf):
                continue
            known = found[test]
            counts = [count_within(rows, first, last).tolist() for rows in (known.covered, known.matching)]
            steps = []
            for covered, rows, all_rows in zip(*counts, (last - first + 1).tolist(), strict=True):
                outcome: Outcome = "unknown"
                if covered:
                    outcome = "rows" if rows or covered < all_rows else "skip"
                evidence = None if covered == all_rows else f"it covers {covered:,} of {all_rows:,} rows"
                steps.append(
                    ExplainStep(
                        SkipStep.GLOBAL_INDEX,
                        outcome,
                        test.field.name,
                        known.kinds,
                        str(test),
                        rows + all_rows - covered,
                        evidence,
                        index_bytes=known.nbytes,
                    )
                )
            state.note_each(leads, MeasuredSteps.of(steps))

    def _distrust(self, column: DataField, why: str) -> None:
        self._warn(self.lasting, column, why)

    def _fail(self, column: DataField, error: PaimonIndexError) -> None:
        warnings = self.lasting if isinstance(error, UnsupportedFormatError) else self.passing
        self._warn(warnings, column, str(error))

    @staticmethod
    def _warn(warnings: list[str], column: DataField, why: str) -> None:
        warning = f"the global index of {column.name} is not used for all rows: {why}"
        if warning not in warnings:
            warnings.append(warning)

    def _warn_of_others(
        self, groups: RowIdGroups, left: NDArray[np.int64], found: Mapping[BoundLeaf, Found]
    ) -> None:
        """Warns of rows that no index covers, which readers may leave out by themselves."""
        if self.version.schema.options.global_index_search_mode != "fast":
            return
        first, last = groups.first_rows[left], groups.last_rows[left]
        rows = int((last - first + 1).sum())
        for name in sorted({test.field.name for test in found}):
            covered = BitMap64.union(
                _NOTHING, *(found[each].covered for each in found if each.field.name == name)
            )
            missing = rows - int(count_within(covered, first, last).sum())
            if missing:
                self.lasting.append(
                    f"{missing:,} rows are kept that no usable global index of {name} covers: readers of "
                    "release 2 leave such rows out unless scalar-index.search-mode is full or detail"
                )


def _together(test: BoundLeaf, parts: Sequence[tuple[Range, BitMap64, BitMap64]]) -> Found:
    """What ranges, which may overlap, say together."""
    condition = condition_of(test)
    covered, twice = BitMap64(), BitMap64()
    for _, some, _ in parts:
        twice |= covered & some
        covered |= some
    matching = BitMap64.union(_NOTHING, *(some for _, _, some in parts))
    is_exact = condition is not None and condition.exact
    kinds = sorted({each.kind for each, _, _ in parts})
    nbytes = sum(entry.file.file_size for each, _, _ in parts for entry in each.entries)
    return Found(covered, matching, matching - twice if is_exact else _NOTHING, " and ".join(kinds), nbytes)
