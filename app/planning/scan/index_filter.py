"""File indexes of a plan: they decide which files may have a matching row, and find these rows.

Every candidate file is decided (:mod:`app.file_index.evaluation`). Rows are found in kept files if the
request needs them, in files that only rows can decide (an AND of two indexes that find rows), and for
explanations. An index that is damaged or cannot be read keeps its file, and the plan warns.

A file's indexes have the names and types of *its* schema. Columns are matched by id: a column that was
dropped and added again has a new id. If a column's type changed and every old value survives the change,
literals are fitted to the old type, so that ``wide = 4294967296`` is false in a file whose ``wide`` was an
INT. Other changes make the column unknown to the index.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import groupby, zip_longest
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from app.errors import CorruptIndexError, PaimonIndexError, StorageError, UnsupportedFormatError
from app.file_index import FileDecisions, FileIndex, StackedIndex, decide_files, find_rows, wanted_indexes
from app.file_index.answers import Answer, Step
from app.file_index.range_bitmap import RANGE_BITMAP
from app.observation import FileFormat, observer
from app.planning.plan.explanation import MeasuredSteps
from app.planning.plan.file_plan import ExplainStep, KeepReason, SkipStep
from app.planning.plan.planned_files import FILE_BYTES
from app.planning.plan.state import PlanState
from app.planning.request.budget import Budget, needs_budget
from app.planning.side_files.file_indexes import FileIndexes
from app.planning.side_files.segments import Stacked
from app.planning.version.version import Version
from app.predicates import ROW_ID, bind_test
from app.predicates.model import (
    ALWAYS_FALSE,
    ALWAYS_TRUE,
    NULL_TESTS,
    BoundLeaf,
    BoundPredicate,
    Constant,
    Operator,
    Unknown,
)
from app.predicates.simplify import with_leaves
from app.predicates.unbound import ColumnName, Leaf, Literal, LiteralKind
from app.table import TableSchema
from app.table.statistics import bounds_cast
from app.types import FLOATING_ROOTS, INTEGER_BITS, DataField, DataType, TypeRoot, Value
from app.types.roaring import bitmap_bytes
from app.types.values import group_rows

_EXPLAINED_AT_ONCE: Final = 4_096
_LEAST_CLAIM_BYTES: Final = 1 << 20
# Sets of up to this many rows take about ``FILE_BYTES``.
_FEW_ROWS: Final = 32
_UNUSABLE: Final = (CorruptIndexError, UnsupportedFormatError, StorageError)


@dataclass(slots=True)
class IndexFilter:
    """The file indexes of one version. ``claim`` claims the total bytes of the rows found so far."""

    version: Version
    indexes: FileIndexes
    warnings: list[str]
    budget: Budget
    claim: Callable[[int], None]
    # Files whose indexes find matching rows, with the filter in the columns of their schema.
    _narrowing: list[tuple[BoundPredicate, NDArray[np.int64]]] = field(default_factory=list)
    _unreadable: set[int] = field(default_factory=set)
    # Files whose indexes were not searched for every value of long lists.
    _unevaluated: set[int] = field(default_factory=set)

    def test(self, state: PlanState, files: NDArray[np.int64]) -> None:
        """Skip files without a matching row. ``files``: ascending, undecided by statistics."""
        for predicate, members in state.by_predicate(files):
            reason = KeepReason.NO_INDEX if wanted_indexes(predicate) else KeepReason.NOT_DECIDABLE
            state.keep(members, reason)
        if not self.version.schema.options.file_index_read:
            state.note(files, _unknown("the table's option file-index.read.enabled is false"))
            return
        has_index = self.indexes.has_index(files)
        state.note(files[~has_index], _unknown("the file has no index"))
        indexed = files[has_index]
        for predicate, members in state.by_predicate(indexed):
            self._test(state, members, predicate)

    def without_match(
        self, state: PlanState, files: NDArray[np.int64], predicate: BoundPredicate
    ) -> NDArray[np.bool_]:
        """Return True for ascending files in which no row satisfies an operand of the filter. Skip none."""
        if not self.version.schema.options.file_index_read:
            return np.zeros(len(files), np.bool_)
        # Indexes record their decisions as skips. These are read, and then undone.
        self._test(state, files[self.indexes.has_index(files)], predicate)
        none = ~state.is_left(files)
        state.undo_skips(files)
        return none

    def is_unreadable(self, files: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return True for files whose index was evaluated and could not be used."""
        if not self._unreadable:
            return np.zeros(len(files), np.bool_)
        return np.isin(files, list(self._unreadable))

    @property
    def are_evaluated_in_full(self) -> bool:
        """True if every index was evaluated in full, so that another plan would decide nothing more."""
        return self.indexes.are_complete and not self.warnings and not self._unevaluated

    @property
    def unevaluated_files(self) -> int:
        """Number of files whose indexes were not searched for every value of long lists, for lack of time."""
        return len(self._unevaluated)

    def find_rows(self, state: PlanState) -> None:
        """Record the rows that can match in raw convertible files that are kept."""
        narrowing, self._narrowing = self._narrowing, []
        for predicate, pairs in groupby(narrowing, key=lambda pair: pair[0]):
            files = np.sort(np.concatenate([members for _, members in pairs]))
            kept = files[state.is_left(files) & state.raw_convertible[files]]
            select = partial(self._select_stacked, state, kept, predicate)
            _each(select, self.indexes.stacks(kept, wanted_indexes(predicate)))
            self._report_failures(state, kept)

    def open_ordered(
        self, state: PlanState, files: NDArray[np.int64], column: str
    ) -> Iterator[tuple[int, FileIndex]]:
        """Yield files that have a range bitmap on a column, each with its index."""
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
        """Keep a file whose index cannot be used, and warn once."""
        at = np.array([file])
        state.keep(at, KeepReason.INDEX_UNREADABLE)
        if file in self._unreadable:
            return
        self._unreadable.add(file)
        if not isinstance(error, StorageError):
            observer().undecodable(FileFormat.FILE_INDEX)
        shown = error.at(self.indexes.path(file)) if isinstance(error, CorruptIndexError) else error
        self.warnings.append(f"the index of {state.files.name(file)} is not used: {shown}")
        state.note(at, ExplainStep(SkipStep.FILE_INDEX, "unknown", evidence=str(error)))

    def _test(self, state: PlanState, files: NDArray[np.int64], predicate: BoundPredicate) -> None:
        schema_ids = state.files.columns.schema_ids
        for group in group_rows(schema_ids[files]):
            of_schema = files[group]
            schema = self.version.schema
            file_schema = self.version.file_schema(int(schema_ids[of_schema[0]]))
            # A filter on row ids is rewritten even if the schemas are equal: no index has that column.
            is_same = file_schema is schema and not schema.options.row_tracking
            rebound = predicate if is_same else in_file_schema(predicate, schema, file_schema)
            self._evaluate(state, of_schema, rebound)
            self._report_failures(state, of_schema)

    def _evaluate(self, state: PlanState, files: NDArray[np.int64], predicate: BoundPredicate) -> None:
        decide = partial(self._decide_stacked, state, files, predicate)
        _each(decide, self.indexes.stacks(files, wanted_indexes(predicate)))

    def _decide_stacked(
        self, state: PlanState, files: NDArray[np.int64], predicate: BoundPredicate, stacked: Stacked
    ) -> None:
        of_stack, row_counts = files[stacked.at], state.files.columns.row_counts
        if state.explanation is not None:
            self._explain(state, of_stack, stacked, predicate)
        decisions = decide_files(
            predicate, stacked.index, stacked.places, row_counts[of_stack], self.budget.out_of_time
        )
        self._apply(state, of_stack, stacked.places, decisions, predicate)
        doubtful = decisions.answers == Answer.DOUBT
        if doubtful.any():
            places = stacked.places[doubtful]
            self._select_rows(state, of_stack[doubtful], stacked.index, places, predicate)
        self._narrowing.append((predicate, of_stack[decisions.answers == Answer.ROWS]))

    def _select_stacked(
        self, state: PlanState, files: NDArray[np.int64], predicate: BoundPredicate, stacked: Stacked
    ) -> None:
        self._select_rows(state, files[stacked.at], stacked.index, stacked.places, predicate)

    def _select_rows(
        self,
        state: PlanState,
        files: NDArray[np.int64],
        index: StackedIndex,
        places: NDArray[np.int64],
        predicate: BoundPredicate,
    ) -> None:
        row_counts = state.files.columns.row_counts[files]
        decisions = find_rows(predicate, index, places, row_counts, self.budget.out_of_time)
        self._apply(state, files, places, decisions, predicate)
        for at, rows in decisions.rows.items():
            state.answers[int(files[at])] = rows
            state.answer_bytes += bytes_of_rows(rows.positions)
        claim_rows(state, self.claim)

    def _apply(
        self,
        state: PlanState,
        files: NDArray[np.int64],
        places: NDArray[np.int64],
        decisions: FileDecisions,
        predicate: BoundPredicate,
    ) -> None:
        state.keep(files[decisions.answered], KeepReason.MATCHED)
        if decisions.unevaluated.any():
            state.keep(files[decisions.unevaluated], KeepReason.NOT_ASKED)
            self._unevaluated.update(files[decisions.unevaluated].tolist())
        for kind, skipped in decisions.skipped_by():
            state.skip(files[skipped], SkipStep.FILE_INDEX, kind=kind, predicate=predicate)
        for place, error in decisions.errors.items():
            self.unreadable(state, int(files[places == place][0]), error)

    def _explain(
        self,
        state: PlanState,
        files: NDArray[np.int64],
        stacked: Stacked,
        predicate: BoundPredicate,
    ) -> None:
        """Record each index's answer in the explanation. Decide nothing."""
        if self.budget.out_of_time() and needs_budget(predicate):
            return
        row_counts, out_of_time = state.files.columns.row_counts, self.budget.out_of_time
        for start in range(0, len(files), _EXPLAINED_AT_ONCE):
            part = slice(start, start + _EXPLAINED_AT_ONCE)
            batch, places = files[part], stacked.places[part]
            traces: list[list[Step]] = [[] for _ in batch]
            explained = find_rows(predicate, stacked.index, places, row_counts[batch], out_of_time, traces)
            # The decision runs into these errors as well, and records them.
            decodable = np.flatnonzero(~np.isin(places, [*explained.errors]))
            for steps in zip_longest(*(traces[at] for at in decodable.tolist())):
                present = [at for at, step in enumerate(steps) if step is not None]
                steps_of_files = MeasuredSteps.of(
                    [ExplainStep.of(step) for step in steps if step is not None]
                )
                state.note_each(batch[decodable[present]], steps_of_files)

    def _report_failures(self, state: PlanState, files: NDArray[np.int64]) -> None:
        state.keep(self.indexes.not_loaded(files), KeepReason.NOT_LOADED)
        for file, error in self.indexes.failures(files):
            if not isinstance(error, _UNUSABLE):
                raise error
            self.unreadable(state, file, error)


def _each(apply: Callable[[Stacked], None], stacks: Iterator[Stacked]) -> None:
    """Apply a function to every stack, holding none while the next one is loaded."""
    deque(map(apply, stacks), 0)


def claim_rows(state: PlanState, claim: Callable[[int], None]) -> None:
    """Claim the rows found so far. A plan of few files should not wait for memory."""
    if state.answer_bytes >= _LEAST_CLAIM_BYTES:
        claim(state.answer_bytes)


def bytes_of_rows(rows: BitMap) -> int:
    """Estimate the bytes of memory that the rows of a file take."""
    return FILE_BYTES if len(rows) <= _FEW_ROWS else FILE_BYTES + bitmap_bytes(rows)


def _unknown(why: str) -> ExplainStep:
    return ExplainStep(SkipStep.FILE_INDEX, "unknown", evidence=why)


_NUMERIC: Final = frozenset({TypeRoot.DECIMAL, *INTEGER_BITS, *FLOATING_ROOTS})


def in_file_schema(
    predicate: BoundPredicate, schema: TableSchema, file_schema: TableSchema
) -> BoundPredicate:
    """Rewrite a filter in the file's columns. Unknown stands for parts that do not carry over."""

    def leaf(part: BoundLeaf | Constant | Unknown) -> BoundPredicate:
        return _leaf(part, schema, file_schema) if isinstance(part, BoundLeaf) else part

    return with_leaves(predicate, leaf)


def _leaf(leaf: BoundLeaf, schema: TableSchema, file_schema: TableSchema) -> BoundPredicate:
    if leaf.field == ROW_ID:
        return Unknown(str(leaf))
    field, column = leaf.field, schema.by_id[leaf.field.id]
    written = file_schema.by_id.get(field.id)
    if written is None:
        # The column was added later: it reads as NULL in every row of the file.
        return ALWAYS_TRUE if leaf.operator is Operator.IS_NULL else ALWAYS_FALSE
    unknown = Unknown(str(leaf))
    if field.name != column.name:
        # A map key's index belongs to the map column; its values have the type of the map's values.
        if not written.type.same_kind(column.type):
            return unknown
        return BoundLeaf(
            leaf.operator,
            DataField(field.id, written.name + field.name[len(column.name) :], field.type),
            leaf.literals,
        )
    if written.type.same_kind(field.type):
        return BoundLeaf(leaf.operator, written, leaf.literals)
    if bounds_cast(written.type, field.type) is None:
        return unknown
    if leaf.operator in NULL_TESTS or (
        written.type.root not in _NUMERIC and _same_form(written.type, field.type)
    ):
        return BoundLeaf(leaf.operator, written, leaf.literals)
    if field.type.root not in _NUMERIC:
        return unknown
    literals = [_literal(value, field.type, written.type) for value in leaf.literals]
    exact = [literal for literal in literals if literal is not None]
    if len(exact) < len(literals):
        return unknown
    leaf_now = Leaf(leaf.operator, ColumnName((field.name,)), tuple(exact), str(leaf))
    return bind_test(leaf_now, written)


def _same_form(written: DataType, present: DataType) -> bool:
    """Return True if both types store a value in one form. DATE and TIMESTAMP do not."""
    return (written.root is TypeRoot.DATE) == (present.root is TypeRoot.DATE)


def _literal(value: Value, data_type: DataType, written: DataType) -> Literal | None:
    """Convert a value of a column's present type to a literal for its written type. Return None if none fits.

    :func:`bounds_cast` has a cast between the types, so that no value is rounded.
    """
    if written.root is TypeRoot.FLOAT:
        return Literal(LiteralKind.NUMBER, Decimal(float(value)))
    if data_type.root in FLOATING_ROOTS:
        number = float(value)
        return Literal(LiteralKind.JSON, Fraction(number)) if math.isfinite(number) else None
    scale = data_type.scale if data_type.root is TypeRoot.DECIMAL else 0
    return Literal(LiteralKind.JSON, Fraction(int(value), 10**scale))
