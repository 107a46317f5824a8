"""Asks file indexes whether any row of a file can match, and which.

*Whether* is asked of the indexes of many files at once (:mod:`app.file_index.stacked`). *Which* is asked of
one file's indexes, and only where it matters: for the rows of files that are kept, if they are wanted, and
for files where only rows can tell, as under an AND of two indexes that know rows. An index that is damaged
or cannot be read keeps its file, and the plan warns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Final

import numpy as np

from app.errors import CorruptIndexError, PaimonIndexError, StorageError, UnsupportedFormatError
from app.file_index.answers.file_answers import Answer
from app.file_index.answers.result import SKIP, Rows
from app.file_index.evaluation import evaluate
from app.file_index.index_choice import wanted_indexes
from app.file_index.index_kinds import KINDS
from app.file_index.range_bitmap.kind import RANGE_BITMAP
from app.file_index.stacked.evaluation import decide_files
from app.file_index.stacked.joined import JoinedIndexes
from app.file_index.stacked.rows import select_rows
from app.observation import FileFormat, observer
from app.planning.plan.file_plan import ExplainStep, KeepReason, SkipStep
from app.planning.request.effort import ManifestEffort
from app.planning.scan.schema_evolution import in_file_schema
from app.storage import check_deadline
from app.types.grouping import group_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from app.file_index.answers.trace import Step
    from app.file_index.container import FileIndex
    from app.file_index.index_choice import WantedIndexes
    from app.planning.plan.state import PlanState
    from app.planning.request.effort import Effort
    from app.planning.side_files.file_indexes import FileIndexes, Stacked
    from app.planning.version.version import Version
    from app.predicates.model import BoundPredicate

_FILES_AT_ONCE: Final = 1024
"""Files whose rows are selected between two looks at the deadline."""

_UNUSABLE: Final = (CorruptIndexError, UnsupportedFormatError, StorageError)


@dataclass(slots=True)
class IndexFilter:
    """The file indexes of one version.

    Attributes:
        version: the version that is planned.
        indexes: loads them.
        warnings: where indexes that could not be used are reported.
        effort: what may be asked of long lists.
    """

    version: Version
    indexes: FileIndexes
    warnings: list[str]
    effort: Effort
    _narrowing: list[tuple[BoundPredicate, NDArray[np.int64]]] = field(default_factory=list)
    """Files whose indexes know matching rows, with the filter in the columns of their schema."""
    _unreadable: set[int] = field(default_factory=set)

    def test(self, state: PlanState, files: NDArray[np.int64]) -> None:
        """Skips files without a matching row.

        Args:
            state: the plan.
            files: those that statistics leave undecided, ascending.
        """
        for predicate, members in state.by_predicate(files):
            reason = KeepReason.NO_INDEX if wanted_indexes(predicate) else KeepReason.NOT_DECIDABLE
            state.keep(members, reason)
        if not self.version.schema.options.file_index_read:
            return
        indexed = files[self.indexes.has_index(files)]
        for predicate, members in state.by_predicate(indexed):
            self._test(state, members, predicate)

    def without_match(
        self, state: PlanState, files: NDArray[np.int64], predicate: BoundPredicate
    ) -> NDArray[np.bool_]:
        """Which files have no row that satisfies a part of the filter; none of them is skipped for that.

        Args:
            state: the plan.
            files: files that are left, ascending.
            predicate: reads only columns whose values are in these files.
        """
        if not self.version.schema.options.file_index_read:
            return np.zeros(len(files), np.bool_)
        self._test(state, files[self.indexes.has_index(files)], predicate)
        none = ~state.is_left(files)
        state.take_back(files)
        return none

    def is_unreadable(self, files: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which files have an index that was asked and could not be used."""
        return np.isin(files, list(self._unreadable))

    @property
    def are_all_asked(self) -> bool:
        """Whether every index was asked all that it can be asked, so that another plan knows no more."""
        return self.indexes.are_complete and not self.warnings and not self.effort.is_exhausted

    def find_rows(self, state: PlanState) -> None:
        """Notes the rows that can match, of files that are kept and can be read straight."""
        narrowing, self._narrowing = self._narrowing, []
        for predicate, together in groupby(narrowing, key=lambda each: each[0]):
            files = np.sort(np.concatenate([some for _, some in together]))
            kept = files[state.is_left(files) & state.raw_convertible[files]]
            for at, index in self._joined(kept, wanted_indexes(predicate)):
                self._select_rows(state, kept[at], index, predicate)
                # Or the next indexes would be loaded beside these.
                del index
            self._report_failures(state, kept)

    def open_ordered(
        self, state: PlanState, files: NDArray[np.int64], column: str
    ) -> Iterator[tuple[int, FileIndex]]:
        """Of those files that have a range-bitmap on a column, their indexes."""
        if not self.version.schema.options.file_index_read:
            return
        indexed = files[self.indexes.has_index(files)]
        for file, index in self.indexes.open(indexed, frozenset([(column, RANGE_BITMAP)])):
            if isinstance(index, CorruptIndexError):
                self.unreadable(state, file, index)
            else:
                yield file, index
        self._report_failures(state, indexed)

    def unreadable(self, state: PlanState, file: int, error: PaimonIndexError) -> None:
        """Keeps a file although its index cannot be used, and says so."""
        at = np.array([file])
        state.keep(at, KeepReason.INDEX_UNREADABLE)
        if file in self._unreadable:
            return
        self._unreadable.add(file)
        if not isinstance(error, StorageError):
            observer().undecodable(FileFormat.FILE_INDEX)
        shown = error.at(self.indexes.path(file)) if isinstance(error, CorruptIndexError) else error
        self.warnings.append(f"the index of {state.files.name(file)} is not used: {shown}")
        state.note(at, ExplainStep(SkipStep.FILE_INDEX, "unknown", predicate=str(error)))

    def _test(self, state: PlanState, files: NDArray[np.int64], predicate: BoundPredicate) -> None:
        """Skips files, all of which have an index, without a row that satisfies the predicate."""
        schema_ids = state.files.columns.schema_ids
        for group in group_rows(schema_ids[files]):
            some = files[group]
            file_schema = self.version.file_schema(int(schema_ids[some[0]]))
            rebound = in_file_schema(predicate, self.version.schema, file_schema)
            if state.steps is None:
                self._ask_files(state, some, rebound)
            else:
                # An explanation tells of every index how many rows it leaves.
                self._ask_rows(state, some, rebound)
            self._report_failures(state, some)

    def _ask_files(self, state: PlanState, files: NDArray[np.int64], predicate: BoundPredicate) -> None:
        """Asks all files at once, and single ones only where that leaves a doubt."""
        row_counts = state.files.columns.row_counts
        for stacked in self.indexes.stacks(files, wanted_indexes(predicate)):
            some = files[stacked.at]
            heads = stacked.index.heads
            probed = any(
                not KINDS[kind].tells_rows
                for column in heads.columns
                for kind in heads.kinds(column)
                if kind in KINDS
            )
            affordable = self.effort.of_files(
                predicate, stacked.manifest, len(some), with_bloom_filters=probed
            )
            allowance = ManifestEffort(self.effort, stacked.manifest)
            found = decide_files(
                affordable, stacked.index, stacked.places, row_counts[some], allowance=allowance
            )
            state.keep(some[found.answered], KeepReason.MATCHED)
            if affordable is not predicate:
                state.keep(some, KeepReason.NOT_ASKED)
            if found.unasked.any():
                state.keep(some[found.unasked], KeepReason.NOT_ASKED)
                self.effort.leave_out(int(found.unasked.sum()))
            for kind, skipped in found.skipped_by():
                state.skip(some[skipped], SkipStep.FILE_INDEX, kind=kind)
            by_place = dict(zip(stacked.places.tolist(), some.tolist(), strict=True)) if found.errors else {}
            for place, error in found.errors.items():
                self.unreadable(state, by_place[place], error)
            doubtful = np.flatnonzero(found.answers == Answer.DOUBT)
            in_doubt = JoinedIndexes(((stacked.index, stacked.places[doubtful]),))
            self._select_rows(state, some[doubtful], in_doubt, affordable)
            self._narrowing.append((affordable, some[found.answers == Answer.ROWS]))
            # Or the next indexes would be loaded beside these.
            del stacked, in_doubt

    def _joined(
        self, files: NDArray[np.int64], wanted: WantedIndexes
    ) -> Iterator[tuple[NDArray[np.int64], JoinedIndexes]]:
        """The indexes of some files, as many together as are selected at once.

        Yields:
            Positions in ``files``, and the indexes of these files in this order.
        """
        # What the caches do not keep stays in memory only as long as it is asked.
        enough = _FILES_AT_ONCE if self.indexes.stay else 1
        waiting: list[Stacked] = []
        for stacked in self.indexes.stacks(files, wanted):
            waiting.append(stacked)
            del stacked
            if sum(len(each.at) for each in waiting) >= enough:
                yield _join(waiting)
                waiting = []
        if waiting:
            yield _join(waiting)

    def _select_rows(
        self, state: PlanState, files: NDArray[np.int64], index: JoinedIndexes, predicate: BoundPredicate
    ) -> None:
        """Notes the rows of files that can match, and skips files where there are none."""
        row_counts = state.files.columns.row_counts
        for start in range(0, len(files), _FILES_AT_ONCE):
            check_deadline()
            some = files[start : start + _FILES_AT_ONCE]
            asked, without = self.effort.of_rows_of_files(predicate, len(some))
            places = np.arange(start, start + len(some))
            found = select_rows(predicate, index, places[:asked], row_counts[some[:asked]])
            found += select_rows(without, index, places[asked:], row_counts[some[asked:]])
            reasons = np.array([each.kind is not None for each in found], bool)
            state.keep(some[reasons], KeepReason.MATCHED)
            state.keep(some[asked:][~reasons[asked:]], KeepReason.NOT_ASKED)
            for file, each in zip(some.tolist(), found, strict=True):
                if each.error is not None:
                    self.unreadable(state, file, each.error)
                elif isinstance(each.result, Rows):
                    state.answers[file] = each.result
                elif each.result is SKIP:
                    state.skip(np.array([file]), SkipStep.FILE_INDEX, kind=each.kind, predicate=predicate)

    def _ask_rows(self, state: PlanState, files: NDArray[np.int64], predicate: BoundPredicate) -> None:
        """Asks single files for their rows."""
        for file, index in self.indexes.open(files, wanted_indexes(predicate)):
            if isinstance(index, CorruptIndexError):
                self.unreadable(state, file, index)
            else:
                self._evaluate(state, file, index, predicate)

    def _evaluate(self, state: PlanState, file: int, index: FileIndex, predicate: BoundPredicate) -> None:
        """Notes the rows of a file that can match, or skips it if there are none."""
        at = np.array([file])
        trace: list[Step] = []
        affordable = self.effort.of_rows(predicate)
        try:
            row_count = int(state.files.columns.row_counts[file])
            answer = evaluate(affordable, index, row_count=row_count, trace=trace)
        except _UNUSABLE as error:
            self.unreadable(state, file, error)
            return
        if any(step.index is not None for step in trace):
            state.keep(at, KeepReason.MATCHED)
        elif affordable is not predicate:
            state.keep(at, KeepReason.NOT_ASKED)
        for step in trace:
            state.note(at, ExplainStep.of(step))
        if isinstance(answer, Rows):
            state.answers[file] = answer
        elif answer is SKIP:
            # An AND of sets of rows that have none in common is the doing of the last index asked.
            kinds = [step.index for step in trace if step.index is not None]
            state.skip(at, SkipStep.FILE_INDEX, kind=kinds[-1] if kinds else None, predicate=predicate)

    def _report_failures(self, state: PlanState, files: NDArray[np.int64]) -> None:
        state.keep(self.indexes.not_loaded(files), KeepReason.NOT_LOADED)
        for file, error in self.indexes.failures(files):
            if not isinstance(error, _UNUSABLE):
                raise error
            self.unreadable(state, file, error)


def _join(several: list[Stacked]) -> tuple[NDArray[np.int64], JoinedIndexes]:
    parts = tuple((each.index, each.places) for each in several)
    return np.concatenate([each.at for each in several]), JoinedIndexes(parts)
