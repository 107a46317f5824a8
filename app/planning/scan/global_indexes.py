"""Skips files of tables with data evolution in which global indexes find no matching row.

Each test of the filter becomes two sets of row ids: rows that may satisfy it, and rows that certainly do. AND
and OR join these sets. A test of a column without an index may be satisfied by all rows, and is certainly
satisfied by none. Rows that no entry covers (:mod:`app.planning.scan.indexed_ranges`) may match, and so may
rows of a range whose files cannot be read: the data files of such rows are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap, BitMap64

from app.errors import PaimonIndexError, UnsupportedFormatError
from app.file_index import condition_of
from app.file_index.answers import SKIP, Rows, StepOutcome, both
from app.global_index import searches
from app.planning.plan.answers import PlanWarnings
from app.planning.plan.explanation import MeasuredSteps
from app.planning.plan.file_plan import ExplainStep, KeepReason, SkipStep
from app.planning.plan.state import PlanState
from app.planning.scan.index_filter import IndexFilter, bytes_of_rows, claim_rows
from app.planning.scan.indexed_ranges import IndexedColumn, IndexedRange
from app.planning.scan.row_id_groups import RowIdGroups
from app.planning.side_files.pieces import FileSearch, SearchResult, run_searches
from app.planning.version.version import Version
from app.predicates.model import BoundLeaf, BoundPredicate, Constant, Unknown, fold, leaves
from app.types import DataField
from app.types.row_ids import RowRanges, count_within, rows_from, rows_within
from app.work import LEDGER

_NOTHING: Final = BitMap64()


@dataclass(frozen=True, slots=True)
class Matches:
    """Rows that satisfy a test according to the indexes of its column.

    Attributes:
        covered: rows covered by indexes whose search did not fail, as ranges.
        rows: the covered rows as a bitmap.
        possible: covered rows that may satisfy the test.
        certain: covered rows that certainly satisfy it.
        kinds: kinds of the index files, in words.
        nbytes: total size of the index files.
        evidence: how many files, pieces and bytes the searches requested, in words.
    """

    covered: RowRanges
    rows: BitMap64
    possible: BitMap64
    certain: BitMap64
    kinds: str
    nbytes: int
    evidence: str


@dataclass(frozen=True, slots=True)
class _Judged:
    """Result of a filter on groups of files.

    Attributes:
        files: the newest data file of each group whose other files hold no further rows.
        first_rows: id of the first row of each of these files.
        may: ids of the rows that may match, in all groups.
        must: ids of the rows that certainly match, in all groups.
    """

    files: NDArray[np.int64]
    first_rows: NDArray[np.int64]
    may: BitMap64
    must: BitMap64


class _Job(NamedTuple):
    """The searches of one range for a test.

    ``results``: their places among all results. ``is_complement``: they find the rows that do not match.
    """

    of_range: IndexedRange
    results: slice
    is_complement: bool


@dataclass(slots=True)
class GlobalIndexes:
    """The global indexes of one version."""

    version: Version
    warnings: PlanWarnings
    _judged: list[_Judged] = field(default_factory=list)
    _covered: list[NDArray[np.int64]] = field(default_factory=list)
    """Files with rows that an index covers."""
    _usable: dict[str, RowRanges] = field(default_factory=dict)
    """Rows that usable indexes cover, by name of the column, even if a search of them fails."""

    def test(self, state: PlanState, groups: RowIdGroups) -> None:
        """Skip the files of kept groups in which no row can match."""
        kept = np.flatnonzero(state.is_left(groups.leads) & groups.same_rows)
        codes = state.predicate_codes[groups.leads[kept]]
        predicates = {code: state.predicates[code] for code in np.unique(codes).tolist()}
        tests = {
            part
            for predicate in predicates.values()
            for part in leaves(predicate)
            if isinstance(part, BoundLeaf) and self._is_indexed(part)
        }
        if not tests:
            return
        matches = self._search(list(tests))
        for code, predicate in predicates.items():
            of_filter = [matches[part] for part in leaves(predicate) if part in matches]
            if of_filter:
                covered = RowRanges.union(each.covered for each in of_filter)
                judged = kept if len(predicates) == 1 else kept[codes == code]
                rows = covered.count_within(groups.first_rows[judged], groups.last_rows[judged])
                self._judge(state, groups, judged[rows > 0], predicate, matches)
        self._warn_of_uncovered_rows(groups, kept, matches)

    def find_rows(self, state: PlanState, claim: Callable[[int], None]) -> None:
        """Record the rows of kept files that can match. ``claim`` claims their memory."""
        for judged in self._judged:
            kept = state.is_left(judged.files)
            files, first = judged.files[kept], judged.first_rows[kept]
            last = first + state.files.columns.row_counts[files] - 1
            exact = count_within(judged.may, first, last) == count_within(judged.must, first, last)
            rows = rows_within(judged.may, first, last)
            for file, positions, is_exact in zip(files.tolist(), rows, exact.tolist(), strict=True):
                state.answer_bytes += bytes_of_rows(positions)
                claim_rows(state, claim)
                if not state.raw_convertible[file]:
                    state.joined_rows[file] = positions
                    continue
                rows_of_file, before = Rows(positions, is_exact), state.answers.get(file)
                together = rows_of_file if before is None else both(before, rows_of_file)
                if isinstance(together, Rows):
                    state.answers[file] = together
                elif together is SKIP:
                    state.skip(np.array([file]), SkipStep.GLOBAL_INDEX, evidence="its indexes share no row")

    def keep_covered(self, state: PlanState, indexes: IndexFilter) -> None:
        """Record kept files as matched if an index covers rows of theirs and no index is unreadable."""
        for files in self._covered:
            state.keep(files[state.is_left(files) & ~indexes.is_unreadable(files)], KeepReason.MATCHED)

    def _is_indexed(self, test: BoundLeaf) -> bool:
        column = self.version.schema.by_id.get(test.field.id)
        ids = self.version.contents().global_indexes
        return column is not None and column.name == test.field.name and column.id in ids

    def _search(self, tests: Sequence[BoundLeaf]) -> dict[BoundLeaf, Matches]:
        columns: dict[BoundLeaf, IndexedColumn] = {}
        for test in tests:
            column = self.version.schema.by_id[test.field.id]
            columns[test] = indexed = IndexedColumn.of(self.version, column)
            self._usable[column.name] = indexed.covered
            for doubt in indexed.doubts:
                self._warn(self.warnings.lasting, column, doubt)
        jobs: dict[BoundLeaf, list[_Job]] = {
            test: [] for test in tests if condition_of(test) is not None and columns[test].ranges
        }
        source = self.version.source
        with LEDGER.claim("loads", path="global indexes", line=source.warehouse.name) as claim:
            results = run_searches(source, _searches(columns, jobs), claim)
            return {
                test: self._together(test, columns[test], of_test, results) for test, of_test in jobs.items()
            }

    def _together(
        self,
        test: BoundLeaf,
        indexed: IndexedColumn,
        jobs: Sequence[_Job],
        results: Sequence[SearchResult],
    ) -> Matches:
        """Join the results of a test. Where ranges overlap, a row may match if any range finds it."""
        condition = condition_of(test)
        searched: list[SearchResult] = []
        failed: set[IndexedRange] = set()
        listed: list[tuple[_Job, BitMap64]] = []
        for job in jobs:
            of_job = results[job.results]
            searched += of_job
            failures = [each.rows for each in of_job if isinstance(each.rows, PaimonIndexError)]
            if failures:
                is_lasting = isinstance(failures[0], UnsupportedFormatError)
                warnings = self.warnings.lasting if is_lasting else self.warnings.passing
                self._warn(warnings, test.field, str(failures[0]))
                failed.add(job.of_range)
                continue
            rows = BitMap.union(BitMap(), *(each.rows for each in of_job if isinstance(each.rows, BitMap)))
            listed.append((job, rows_from(job.of_range.first, rows)))
        covered, all_rows = indexed.covered, indexed.rows
        if failed:
            covered = RowRanges.union(each.covered for each in indexed.ranges if each not in failed)
            all_rows = covered.bitmap()
        repeated = BitMap64()
        if indexed.overlaps:
            seen, matching = BitMap64(), BitMap64()
            for job, found in listed:
                of_range = job.of_range.covered.bitmap()
                matching |= of_range - found if job.is_complement else of_range & found
                repeated |= seen & of_range
                seen |= of_range
        else:
            matching, others = (
                BitMap64.union(_NOTHING, *(found for job, found in listed if job.is_complement is negated))
                for negated in (False, True)
            )
            within = RowRanges.union(job.of_range.covered for job, _ in listed if job.is_complement)
            matching = matching & all_rows | within.bitmap() - others
        certain = matching - repeated if condition is not None and condition.exact else _NOTHING
        kinds = " and ".join(sorted({each.kind for each in indexed.ranges}))
        nbytes = sum(each.nbytes for each in indexed.ranges)
        return Matches(covered, all_rows, matching, certain, kinds, nbytes, _describe(searched))

    def _judge(
        self,
        state: PlanState,
        groups: RowIdGroups,
        judged: NDArray[np.int64],
        predicate: BoundPredicate,
        matches: Mapping[BoundLeaf, Matches],
    ) -> None:
        first, last = groups.first_rows[judged], groups.last_rows[judged]
        every = RowRanges.of(first, last).bitmap()

        def leaf(part: BoundLeaf | Constant | Unknown) -> tuple[BitMap64, BitMap64]:
            match part:
                case BoundLeaf() if part in matches:
                    of_test = matches[part]
                    return every - of_test.rows | every & of_test.possible, every & of_test.certain
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
        self._explain(state, groups, judged, [part for part in leaves(predicate) if part in matches], matches)
        self._covered.append(groups.members_of(judged))
        gone = judged[count_within(may, first, last) == 0]
        state.skip(groups.members_of(gone), SkipStep.GLOBAL_INDEX, predicate=predicate)
        files = groups.leads[judged]
        # Blobs may hold rows beyond those of the data files.
        alike = last - first + 1 == state.files.columns.row_counts[files]
        self._judged.append(_Judged(files[alike], first[alike], may, must))

    def _explain(
        self,
        state: PlanState,
        groups: RowIdGroups,
        judged: NDArray[np.int64],
        tests: Sequence[BoundLeaf | Constant | Unknown],
        matches: Mapping[BoundLeaf, Matches],
    ) -> None:
        if state.explanation is None:
            return
        first, last = groups.first_rows[judged], groups.last_rows[judged]
        leads = groups.leads[judged]
        for test in tests:
            if not isinstance(test, BoundLeaf):
                continue
            of_test = matches[test]
            of_index = of_test.covered.count_within(first, last)
            counts = of_index.tolist(), count_within(of_test.possible, first, last).tolist()
            steps = []
            for covered, rows, all_rows in zip(*counts, (last - first + 1).tolist(), strict=True):
                outcome: StepOutcome = "unknown"
                if covered:
                    outcome = "rows" if rows or covered < all_rows else "skip"
                evidence = of_test.evidence
                if covered < all_rows:
                    evidence = f"it covers {covered:,} of {all_rows:,} rows; {evidence}"
                steps.append(
                    ExplainStep(
                        SkipStep.GLOBAL_INDEX,
                        outcome,
                        test.field.name,
                        of_test.kinds,
                        str(test),
                        rows + all_rows - covered,
                        evidence,
                        index_bytes=of_test.nbytes,
                    )
                )
            state.note_each(leads, MeasuredSteps.of(steps))

    @staticmethod
    def _warn(warnings: list[str], column: DataField, why: str) -> None:
        warning = f"the global index of {column.name} is not used for all rows: {why}"
        if warning not in warnings:
            warnings.append(warning)

    def _warn_of_uncovered_rows(
        self, groups: RowIdGroups, kept: NDArray[np.int64], matches: Mapping[BoundLeaf, Matches]
    ) -> None:
        """Warn of rows that no usable index covers, since some readers skip them."""
        if self.version.schema.options.global_index_search_mode != "fast":
            return
        first, last = groups.first_rows[kept], groups.last_rows[kept]
        rows = int((last - first + 1).sum())
        for name in sorted({test.field.name for test in matches}):
            missing = rows - int(self._usable[name].count_within(first, last).sum())
            if missing:
                self.warnings.lasting.append(
                    f"{missing:,} rows are kept that no usable global index of {name} covers: readers of "
                    "release 2 leave such rows out unless scalar-index.search-mode is full or detail"
                )


def _searches(
    columns: Mapping[BoundLeaf, IndexedColumn], jobs: Mapping[BoundLeaf, list[_Job]]
) -> Iterator[FileSearch]:
    """Yield the searches of all tests, and record in ``jobs`` the searches of each range."""
    count = 0
    for test, of_test in jobs.items():
        condition = condition_of(test)
        assert condition is not None  # noqa: S101 - no job is made without one
        indexed = columns[test]
        for each in indexed.ranges:
            start, chosen = count, searches(condition, each.parts)
            form = f"{each.parts[0].file.data_type} {each.row_count}"
            for at, begin in chosen.searches:
                yield FileSearch(each.paths[at], form, begin)
                count += 1
            if count > start or chosen.is_complement or indexed.overlaps:
                of_test.append(_Job(each, slice(start, count), chosen.is_complement))


def _describe(searched: Sequence[SearchResult]) -> str:
    pieces, nbytes = sum(each.pieces for each in searched), sum(each.nbytes for each in searched)
    return f"index files searched: {len(searched):,}, pieces: {pieces:,}, bytes: {nbytes:,}"
