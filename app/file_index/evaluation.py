"""Evaluation of a predicate with the indexes of many files: the files that can match, or their rows.

For all files that are still undecided, each leaf evaluates the indexes of its column, cheapest first, until
one of them settles it. AND evaluates its next part for the files that remain, OR for all files. A leaf that
no index answers keeps every row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeGuard, assert_never

import numpy as np
from numpy.typing import NDArray

from app.errors import CorruptIndexError
from app.file_index.answers import (
    KEEP,
    SHORT_LIST,
    SKIP,
    Answer,
    Condition,
    OutOfTime,
    Result,
    Rows,
    Step,
    StepOutcome,
    never_out_of_time,
)
from app.file_index.container import ContainerEntry, blamed
from app.file_index.findings import (
    UNKNOWN_ROW_COUNT,
    AnswerArray,
    FileAnswers,
    FileDecisions,
    RowAnswers,
)
from app.file_index.index_kinds import (
    KINDS,
    IndexKind,
    bounded_on_both_sides,
    condition_of,
    cost,
    is_false_without_values,
)
from app.file_index.stacked_index import FileIndex, OpenedStack, StackedIndex
from app.predicates.model import (
    BoundAnd,
    BoundLeaf,
    BoundOr,
    BoundPredicate,
    Constant,
    Operator,
    Unknown,
    conjuncts,
)
from app.types import DataField


def decide_files(
    predicate: BoundPredicate,
    index: StackedIndex,
    files: NDArray[np.int64],
    row_counts: NDArray[np.int64],
    out_of_time: OutOfTime = never_out_of_time,
) -> FileDecisions:
    """Decide which files can have rows that satisfy a predicate.

    ``files``: shape (k,): positions of the files to decide, without repetition. ``row_counts``: shape (k,):
    rows of these files, with which every index must agree; -1 if unknown. ``out_of_time``: checked before
    long lists of values, and before further tests of long filters.
    """
    evaluation = _Evaluation.of(index, files, row_counts, FileAnswers(out_of_time))
    return evaluation.decisions(evaluation.answers(predicate), {})


def find_rows(
    predicate: BoundPredicate,
    index: StackedIndex,
    files: NDArray[np.int64],
    row_counts: NDArray[np.int64],
    out_of_time: OutOfTime = never_out_of_time,
    steps: Sequence[list[Step]] | None = None,
) -> FileDecisions:
    """Decide files and find their matching rows.

    ``steps``: a list for each file, which gets a step for every index evaluated.
    """
    evaluation = _Evaluation.of(index, files, row_counts, RowAnswers(out_of_time), steps)
    answers = evaluation.answers(predicate)
    rows = {at: answer for at, answer in enumerate(answers.tolist()) if isinstance(answer, Rows)}
    return evaluation.decisions(answers, rows)


def evaluate(
    predicate: BoundPredicate,
    index: FileIndex,
    *,
    row_count: int | None = None,
    trace: list[Step] | None = None,
) -> Result:
    """Find the rows of one file that can satisfy a predicate.

    ``row_count``: rows of the file, if known. Every index must agree with it. ``trace``: gets a step for
    every index evaluated. Raises CorruptIndexError if an index that had to be evaluated is broken. The caller
    must then keep the file.
    """
    files, counts = np.array([index.file]), np.array([UNKNOWN_ROW_COUNT if row_count is None else row_count])
    decided = find_rows(predicate, index.stacked, files, counts, steps=None if trace is None else [trace])
    for error in decided.errors.values():
        raise error
    return SKIP if decided.skip[0] else decided.rows.get(0, KEEP)


@dataclass(frozen=True, slots=True, eq=False)
class _Evaluation:
    """State of one evaluation. Parameters called ``at`` are positions in ``files``.

    ``failed``: bool, shape (k,): files with a broken index, whose evaluation stops. ``unevaluated``: bool,
    shape (k,): files for which time ran out.
    """

    index: StackedIndex
    files: NDArray[np.int64]
    row_counts: NDArray[np.int64]
    form: FileAnswers | RowAnswers
    failed: NDArray[np.bool_]
    answered: NDArray[np.bool_]
    unevaluated: NDArray[np.bool_]
    steps: Sequence[list[Step]] | None
    errors: dict[int, CorruptIndexError] = field(default_factory=dict)
    trace: list[tuple[str, NDArray[np.int64], AnswerArray]] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        index: StackedIndex,
        files: NDArray[np.int64],
        row_counts: NDArray[np.int64],
        form: FileAnswers | RowAnswers,
        steps: Sequence[list[Step]] | None = None,
    ) -> _Evaluation:
        failed, answered, unevaluated = np.zeros((3, len(files)), bool)
        return cls(index, files, row_counts, form, failed, answered, unevaluated, steps)

    def answers(self, predicate: BoundPredicate) -> AnswerArray:
        broken = self.index.heads.broken
        if not broken:
            decided = self.answer(predicate, np.arange(len(self.files)))
        else:
            self.failed[:] = np.isin(self.files, np.fromiter(broken, np.int64))
            self.errors.update((file, broken[file]) for file in self.files[self.failed].tolist())
            readable = np.flatnonzero(~self.failed)
            decided = self.form.everywhere(self.form.keep, len(self.files))
            decided[readable] = self.answer(predicate, readable)
        # A broken index must never skip a file.
        decided[self.failed] = self.form.keep
        return decided

    def decisions(self, overall: AnswerArray, rows: Mapping[int, Rows]) -> FileDecisions:
        codes = self.form.codes
        trace = [(kind, at, codes(answers)) for kind, at, answers in self.trace]
        return FileDecisions(codes(overall), self.answered, self.unevaluated, self.errors, trace, rows)

    def answer(self, predicate: BoundPredicate, at: NDArray[np.int64]) -> AnswerArray:
        match predicate:
            case BoundLeaf():
                return self._leaf(predicate, at)
            case BoundAnd() | Constant(value=True):
                return self._all_of(conjuncts(predicate), at)
            case BoundOr(children):
                return self._any_of(children, at)
            case Constant():
                return self.form.everywhere(self.form.skip, len(at))
            case Unknown(reason=reason):
                self._note(at, Step(None, None, str(predicate), "unknown", evidence=reason or _UNDECIDABLE))
                return self.form.everywhere(self.form.keep, len(at))
            case _:
                assert_never(predicate)

    def _all_of(self, parts: tuple[BoundPredicate, ...], at: NDArray[np.int64]) -> AnswerArray:
        form = self.form
        if not parts:
            return form.everything(self.row_counts[at])
        answers = form.everywhere(form.keep, len(at))
        without_null: dict[DataField, NDArray[np.bool_]] = {}
        # An explanation has a step for every part, in the order of the filter.
        is_explained = self.steps is not None
        for number, part in enumerate(parts if is_explained else sorted(parts, key=_is_not_null)):
            is_pending = (answers != form.skip) & ~self.failed[at]
            if _is_not_null(part) and part.field in without_null and not is_explained:
                # Rows that passed another test of the column have a value.
                is_pending &= ~without_null[part.field]
            pending = np.flatnonzero(is_pending)
            of_part = self.answer(part, at[pending])
            answers[pending] = together = form.both(answers[pending], of_part) if number else of_part
            if is_explained:
                emptied = at[pending[(together == form.skip) & (of_part != form.skip)]]
                self._note(emptied, Step(None, None, str(BoundAnd(parts)), "skip", 0, _NOTHING_IN_COMMON))
            if isinstance(part, BoundLeaf) and part.operator is not Operator.IS_NULL:
                has_value = without_null.setdefault(part.field, np.zeros(len(at), bool))
                has_value[pending[form.codes(of_part) == Answer.ROWS]] = True
        return answers

    def _any_of(self, parts: tuple[BoundPredicate, ...], at: NDArray[np.int64]) -> AnswerArray:
        form = self.form
        stays = np.zeros(len(at), bool)
        # The engine keeps files with an empty entry for NOT BETWEEN.
        for column in bounded_on_both_sides(parts):
            for kind in self.index.heads.kinds(column):
                stays |= self.index.extents(column, kind).empty[self.files[at]]
        answers = form.everywhere(form.skip, len(at))
        answers[stays] = form.keep
        for part in parts:
            pending = np.flatnonzero(~stays & ~self.failed[at])
            answers[pending] = form.either(answers[pending], self.answer(part, at[pending]))
        return answers

    def _leaf(self, leaf: BoundLeaf, at: NDArray[np.int64]) -> AnswerArray:
        condition, column, form = condition_of(leaf), leaf.field.name, self.form
        answers = form.everywhere(form.keep, len(at))
        # A filter of very many tests could otherwise outlast its budget without any long list.
        if len(self.trace) >= SHORT_LIST and form.out_of_time():
            self.unevaluated[at] = True
            return answers
        answered, pending = np.zeros(len(at), bool), np.arange(len(at))
        kinds = sorted(self.index.heads.kinds(column), key=cost)
        for kind in kinds:
            answering, of_kind = self._evaluate_kind(leaf, kind, condition, _take(at, pending))
            places = _take(pending, answering)
            answered[places] = True
            if len(places):
                self.trace.append((kind, _take(at, places), of_kind))
                self._note_answers(leaf, kind, _take(at, places), of_kind)
            if len(kinds) == 1:
                answers[places] = of_kind
                break
            settled = self._settles(kind, condition, of_kind)
            # An answer that settles the leaf replaces the answers of earlier kinds.
            answers[places] = np.where(settled, of_kind, form.both(answers.take(places), of_kind))
            is_pending = ~self.failed[at[pending]]
            is_pending[answering[settled]] = False
            pending = pending[is_pending]
            if not len(pending):
                break
        self.answered[at[answered]] = True
        if self.steps is not None:
            self._note_silence(leaf, at[~answered & ~self.failed[at] & ~self.unevaluated[at]])
        return answers

    def _settles(self, kind: str, condition: Condition | None, answers: AnswerArray) -> NDArray[np.bool_]:
        index_kind = KINDS.get(kind)
        settled: NDArray[np.bool_] = answers == self.form.skip
        if index_kind is not None and condition is not None and index_kind.settles(condition):
            settled |= answers != self.form.keep
        return settled

    def _evaluate_kind(
        self, leaf: BoundLeaf, kind: str, condition: Condition | None, at: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], AnswerArray]:
        """Evaluate one kind of index. Return positions in ``at`` that got an answer, and the answers."""
        column, form = leaf.field.name, self.form
        extents, files = self.index.extents(column, kind), _take(self.files, at)
        answers = form.everywhere(form.keep, len(at))
        decided = extents.empty.take(files)
        if decided.any() and is_false_without_values(leaf):
            answers[decided] = form.skip
        index_kind = KINDS.get(kind)
        if index_kind is None or condition is None or not index_kind.can_answer(condition):
            return np.flatnonzero(decided), answers[decided]
        opened = self.index.open(column, index_kind, leaf.field.type)
        usable = self._usable(opened, leaf, index_kind, at)
        if opened.stack is not None and len(usable):
            of_stack, errors = form.evaluate(opened.stack, index_kind, condition, _take(files, usable))
            for place, error in errors.items():
                file = int(usable[place])
                self._fail(int(at[file]), blamed(self.index.entry(column, kind, int(files[file])), error))
                of_stack[place] = form.unevaluated
            in_time, answers_in_time = self._without_unevaluated(usable, of_stack, at)
            if len(in_time) == len(at):
                return in_time, answers_in_time
            answers[in_time] = answers_in_time
            decided[in_time] = True
        return np.flatnonzero(decided), answers[decided]

    def _without_unevaluated(
        self, places: NDArray[np.int64], answers: AnswerArray, at: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], AnswerArray]:
        if not (unevaluated := answers == self.form.unevaluated).any():
            return places, answers
        silent = at[places[unevaluated]]
        self.unevaluated[silent] |= ~self.failed[silent]
        return places[~unevaluated], answers[~unevaluated]

    def _usable(
        self, opened: OpenedStack, leaf: BoundLeaf, kind: IndexKind, at: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return positions in ``at`` of files whose index can be evaluated.

        Mark files with a broken index as failed.
        """
        files, counts = _take(self.files, at), _take(self.row_counts, at)
        row_counts = None if opened.stack is None else opened.stack.row_counts
        if row_counts is None and opened.is_whole:
            return np.arange(len(at))
        sound = opened.sound[files]
        for position in np.flatnonzero(opened.broken[files]).tolist():
            file = int(files[position])
            error = self.index.error(leaf.field.name, kind, leaf.field.type, file)
            self._fail(int(at[position]), blamed(self.index.entry(leaf.field.name, kind, file), error))
        if row_counts is None:
            return np.flatnonzero(sound)
        indexed_counts = row_counts[files]
        differ = sound & (counts != UNKNOWN_ROW_COUNT) & (counts != indexed_counts)
        for position in np.flatnonzero(differ).tolist():
            error = CorruptIndexError(
                f"expected the {counts[position]} rows of the data file, found {indexed_counts[position]}"
            )
            entry = self.index.entry(leaf.field.name, kind, int(files[position]))
            self._fail(int(at[position]), blamed(entry, error))
        return np.flatnonzero(sound & ~differ)

    def _note(self, at: NDArray[np.int64], step: Step) -> None:
        if self.steps is not None:
            for file in at.tolist():
                self.steps[file].append(step)

    def _note_answers(self, leaf: BoundLeaf, kind: str, at: NDArray[np.int64], answers: AnswerArray) -> None:
        if self.steps is None:
            return
        for file, answer in zip(at.tolist(), answers.tolist(), strict=True):
            entry = self.index.entry(leaf.field.name, kind, int(self.files[file]))
            self.steps[file].append(self._step(leaf, entry, int(self.files[file]), answer))

    def _step(self, leaf: BoundLeaf, entry: ContainerEntry, file: int, answer: Result) -> Step:
        outcome: StepOutcome = "rows" if isinstance(answer, Rows) else "skip" if answer is SKIP else "keep"
        selected_rows = len(answer.positions) if isinstance(answer, Rows) else 0 if answer is SKIP else None
        evidence = fpp = None
        if entry.is_empty:
            evidence = "no row has a value"
        elif entry.kind in KINDS:
            kind = KINDS[entry.kind]
            fpp = kind.false_positive_rate(FileIndex(self.index, file).open(entry, kind, leaf.field.type))
        return Step(entry.column, entry.kind, str(leaf), outcome, selected_rows, evidence, fpp, entry.length)

    def _note_silence(self, leaf: BoundLeaf, at: NDArray[np.int64]) -> None:
        if self.steps is None:
            return
        column = leaf.field.name
        for file in at.tolist():
            entries = self.index.heads.entries(int(self.files[file])).get(column, ())
            kinds = " and ".join(sorted((entry.kind for entry in entries), key=cost))
            why = f"its {kinds} cannot decide" if kinds else "the file has no index of the column"
            self.steps[file].append(Step(column, None, str(leaf), "unknown", evidence=why))

    def _fail(self, at: int, error: CorruptIndexError) -> None:
        self.failed[at] = True
        self.errors[int(self.files[at])] = error


_UNDECIDABLE: Final = "no index can decide it"
_NOTHING_IN_COMMON: Final = "no row satisfies all of it"


def _is_not_null(part: BoundPredicate) -> TypeGuard[BoundLeaf]:
    return isinstance(part, BoundLeaf) and part.operator is Operator.IS_NOT_NULL


def _take(values: NDArray[np.int64], at: NDArray[np.int64]) -> NDArray[np.int64]:
    return values if len(at) == len(values) else values.take(at)
