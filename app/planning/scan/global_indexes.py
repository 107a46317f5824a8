"""Asks global indexes which rows of a table with data evolution can match: files without any are left out.

Whatever rows no entry covers that is believed (:mod:`app.planning.scan.indexed_ranges`) can match: they are
kept. So are those of a range that has a file which cannot be read.

Of a filter, sets of row ids are made: rows that may satisfy it, and rows that must. Tests of columns without
an index may be satisfied by all rows, and must be by none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap, BitMap64

from app.errors import PaimonIndexError, UnsupportedFormatError
from app.file_index import condition_of
from app.file_index.answers import SKIP, Outcome, Rows, both
from app.global_index import is_met_by_others, searches
from app.planning.plan.explanation import MeasuredSteps
from app.planning.plan.file_plan import ExplainStep, KeepReason, SkipStep
from app.planning.plan.state import PlanState
from app.planning.scan.index_filter import IndexFilter
from app.planning.scan.indexed_ranges import IndexedColumn, IndexedRange
from app.planning.scan.row_id_groups import RowIdGroups
from app.planning.side_files.pieces import Asked, run_searches
from app.planning.version.version import Version
from app.predicates.model import BoundLeaf, BoundPredicate, Constant, Unknown, fold, leaves
from app.types import DataField
from app.types.row_ids import RowRanges, count_within, rows_from, rows_within

_NOTHING: Final = BitMap64()


@dataclass(frozen=True, slots=True)
class Found:
    """What indexes say of a test.

    Attributes:
        covered: rows that they speak of.
        missing: of these, those that do not satisfy it.
        certain: those that must.
        kinds: of the files, and how many bytes these have.
    """

    covered: RowRanges
    missing: BitMap64
    certain: BitMap64
    kinds: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class _Narrowed:
    """The newest files of groups whose rows are known: row ids that may match and that must."""

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
        found = self._find(list(tests))
        for code, predicate in predicates.items():
            of_filter = [found[part] for part in leaves(predicate) if part in found]
            if of_filter:
                covered = RowRanges.union(each.covered for each in of_filter)
                some = left[codes[left] == code]
                some = some[covered.count_within(groups.first_rows[some], groups.last_rows[some]) > 0]
                self._judge(state, groups, some, predicate, found)
        self._warn_of_others(groups, left, found)

    def find_rows(self, state: PlanState) -> None:
        """Notes the rows that can match, of files that are kept."""
        for narrowed in self._narrowed:
            kept = state.is_left(narrowed.files)
            files, first = narrowed.files[kept], narrowed.first_rows[kept]
            last = first + state.files.columns.row_counts[files] - 1
            exact = count_within(narrowed.may, first, last) == count_within(narrowed.must, first, last)
            rows = rows_within(narrowed.may, first, last)
            for file, positions, is_exact in zip(files.tolist(), rows, exact.tolist(), strict=True):
                if not state.raw_convertible[file]:
                    state.joined_rows[file] = positions
                    continue
                mine, other = Rows(positions, is_exact), state.answers.get(file)
                together = mine if other is None else both(other, mine)
                if isinstance(together, Rows):
                    state.answers[file] = together
                elif together is SKIP:
                    state.skip(np.array([file]), SkipStep.GLOBAL_INDEX, evidence="its indexes share no row")

    def keep_asked(self, state: PlanState, indexes: IndexFilter) -> None:
        """Notes of files that are left that an index was asked of them."""
        for files in self._asked:
            state.keep(files[state.is_left(files) & ~indexes.is_unreadable(files)], KeepReason.MATCHED)

    def _is_indexed(self, test: BoundLeaf) -> bool:
        column = self.version.schema.by_id.get(test.field.id)
        ids = self.version.contents().global_indexes
        return column is not None and column.name == test.field.name and column.id in ids

    def _find(self, tests: Sequence[BoundLeaf]) -> dict[BoundLeaf, Found]:
        asked: list[Asked] = []
        jobs: dict[BoundLeaf, list[tuple[IndexedRange, slice]]] = {}
        columns: dict[int, IndexedColumn] = {}
        for test in tests:
            column, condition = self.version.schema.by_id[test.field.id], condition_of(test)
            if column.id not in columns:
                columns[column.id] = IndexedColumn.of(self.version, column)
                for doubt in columns[column.id].doubts:
                    self._warn(self.lasting, column, doubt)
            if condition is None or not columns[column.id].ranges:
                continue
            jobs[test] = []
            for each in columns[column.id].ranges:
                of_range = searches(condition, each.parts)
                if of_range or columns[column.id].overlaps:
                    form = f"{column.type} {each.row_count}"
                    start = len(asked)
                    asked += [Asked(each.paths[at], form, search) for at, search in of_range]
                    jobs[test].append((each, slice(start, len(asked))))
        rows = run_searches(self.version.source, asked)
        return {
            test: self._together(test, columns[test.field.id], of_test, rows)
            for test, of_test in jobs.items()
        }

    def _together(
        self,
        test: BoundLeaf,
        indexed: IndexedColumn,
        jobs: Sequence[tuple[IndexedRange, slice]],
        rows: Sequence[BitMap | PaimonIndexError],
    ) -> Found:
        """What ranges say together of a test; where they overlap, rows that any of them has match."""
        condition = condition_of(test)
        is_rest = condition is not None and is_met_by_others(condition)
        covered, all_rows = indexed.covered, indexed.rows
        failed: set[IndexedRange] = set()
        told: list[tuple[IndexedRange, BitMap64]] = []
        for each, some in jobs:
            failures = [one for one in rows[some] if isinstance(one, PaimonIndexError)]
            if failures:
                is_lasting = isinstance(failures[0], UnsupportedFormatError)
                self._warn(self.lasting if is_lasting else self.passing, test.field, str(failures[0]))
                failed.add(each)
                continue
            within = BitMap.union(BitMap(), *(one for one in rows[some] if isinstance(one, BitMap)))
            told.append((each, rows_from(each.first, within)))
        if failed:
            covered = RowRanges.union(each.covered for each in indexed.ranges if each not in failed)
            all_rows = covered.bitmap()
        twice = BitMap64()
        if indexed.overlaps:
            seen, matching = BitMap64(), BitMap64()
            for each, some_rows in told:
                of_range = each.covered.bitmap()
                matching |= of_range - some_rows if is_rest else of_range & some_rows
                twice |= seen & of_range
                seen |= of_range
        else:
            listed = BitMap64.union(_NOTHING, *(some_rows for _, some_rows in told))
            matching = all_rows - listed if is_rest else all_rows & listed
        is_exact = condition is not None and condition.exact
        kinds = " and ".join(sorted({each.kind for each in indexed.ranges}))
        nbytes = sum(each.nbytes for each in indexed.ranges)
        return Found(covered, all_rows - matching, matching - twice if is_exact else _NOTHING, kinds, nbytes)

    def _judge(
        self,
        state: PlanState,
        groups: RowIdGroups,
        some: NDArray[np.int64],
        predicate: BoundPredicate,
        found: Mapping[BoundLeaf, Found],
    ) -> None:
        first, last = groups.first_rows[some], groups.last_rows[some]
        every = RowRanges.of(first, last).bitmap()

        def leaf(part: BoundLeaf | Constant | Unknown) -> tuple[BitMap64, BitMap64]:
            match part:
                case BoundLeaf() if part in found:
                    known = found[part]
                    return every - known.missing, every & known.certain
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
        files = groups.members[groups.starts[some]]
        # Blobs may hold rows beyond those of the data files.
        alike = last - first + 1 == state.files.columns.row_counts[files]
        self._narrowed.append(_Narrowed(files[alike], first[alike], may, must))

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
            of_index = known.covered.count_within(first, last)
            counts = of_index.tolist(), (of_index - count_within(known.missing, first, last)).tolist()
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
            covered = next(found[each].covered for each in found if each.field.name == name)
            missing = rows - int(covered.count_within(first, last).sum())
            if missing:
                self.lasting.append(
                    f"{missing:,} rows are kept that no usable global index of {name} covers: readers of "
                    "release 2 leave such rows out unless scalar-index.search-mode is full or detail"
                )
