"""Asks file indexes whether any row of a file can match, and which.

*Whether* is asked of the indexes of many files at once (:mod:`app.file_index.stacked`). *Which* is asked of
one file's indexes, and only where it matters: for the rows of files that are kept, if they are wanted, for
files where only rows can tell, as under an AND of two indexes that know rows, and to explain what each index
said. An index that is damaged or cannot be read keeps its file, and the plan warns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.errors import CorruptIndexError, PaimonIndexError, StorageError, UnsupportedFormatError
from app.file_index.answers.file_answers import Answer
from app.file_index.answers.result import SKIP, Rows
from app.file_index.answers.trace import Step
from app.file_index.container import FileIndex
from app.file_index.evaluation import evaluate
from app.file_index.index_choice import wanted_indexes
from app.file_index.index_kinds import KINDS
from app.file_index.range_bitmap.kind import RANGE_BITMAP
from app.file_index.stacked.evaluation import decide_files
from app.observation import FileFormat, observer
from app.planning.plan.file_plan import ExplainStep, KeepReason, SkipStep
from app.planning.plan.state import PlanState
from app.planning.request.effort import Effort
from app.planning.scan.schema_evolution import in_file_schema
from app.planning.side_files.file_indexes import FileIndexes, Stacked
from app.planning.version.version import Version
from app.predicates.model import BoundPredicate
from app.storage import check_deadline
from app.types.grouping import group_rows

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
    _explained: Effort = field(default_factory=Effort)
    """What an explanation may ask, beside what the plan does."""

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
            for file, index in self.indexes.open(kept, wanted_indexes(predicate)):
                if isinstance(index, CorruptIndexError):
                    self.unreadable(state, file, index)
                else:
                    self._select_rows(state, file, index, predicate)
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
            self._ask_files(state, some, rebound)
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
            if state.steps is not None:
                self._explain(state, some, stacked, affordable)
            found = decide_files(
                affordable, stacked.index, stacked.places, row_counts[some], allowance=self.effort
            )
            state.keep(some[found.answered], KeepReason.MATCHED)
            if affordable is not predicate:
                state.keep(some, KeepReason.NOT_ASKED)
            if found.unasked.any():
                state.keep(some[found.unasked], KeepReason.NOT_ASKED)
                self.effort.leave_out(int(found.unasked.sum()))
            for kind, skipped in found.skipped_by():
                state.skip(some[skipped], SkipStep.FILE_INDEX, kind=kind, predicate=predicate)
            by_place = dict(zip(stacked.places.tolist(), some.tolist(), strict=True)) if found.errors else {}
            for place, error in found.errors.items():
                self.unreadable(state, by_place[place], error)
            for at in np.flatnonzero(found.answers == Answer.DOUBT).tolist():
                check_deadline()
                index = stacked.index.file_index(int(stacked.places[at]))
                self._select_rows(state, int(some[at]), index, affordable)
                del index
            self._narrowing.append((affordable, some[found.answers == Answer.ROWS]))
            # Or the next indexes would be loaded beside these.
            del stacked

    def _select_rows(self, state: PlanState, file: int, index: FileIndex, predicate: BoundPredicate) -> None:
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
        kinds = [step.index for step in trace if step.index is not None]
        if kinds:
            state.keep(at, KeepReason.MATCHED)
        elif affordable is not predicate:
            state.keep(at, KeepReason.NOT_ASKED)
        if isinstance(answer, Rows):
            state.answers[file] = answer
        elif answer is SKIP:
            # An AND of sets of rows that have none in common is the doing of the last index asked.
            state.skip(at, SkipStep.FILE_INDEX, kind=kinds[-1] if kinds else None, predicate=predicate)

    def _explain(
        self, state: PlanState, files: NDArray[np.int64], stacked: Stacked, predicate: BoundPredicate
    ) -> None:
        """Notes what each index of files says, which decides nothing."""
        for file, place in zip(files.tolist(), stacked.places.tolist(), strict=True):
            check_deadline()
            trace: list[Step] = []
            row_count = int(state.files.columns.row_counts[file])
            try:
                evaluate(
                    self._explained.of_rows(predicate),
                    stacked.index.file_index(place),
                    row_count=row_count,
                    trace=trace,
                )
            except _UNUSABLE:
                # The decision meets it as well, and tells of it.
                continue
            for step in trace:
                state.note(np.array([file]), ExplainStep.of(step))

    def _report_failures(self, state: PlanState, files: NDArray[np.int64]) -> None:
        state.keep(self.indexes.not_loaded(files), KeepReason.NOT_LOADED)
        for file, error in self.indexes.failures(files):
            if not isinstance(error, _UNUSABLE):
                raise error
            self.unreadable(state, file, error)
