"""Evaluating a predicate with the indexes of many files: which of them can hold a matching row.

Each step is that of :mod:`app.file_index.evaluation`, taken for all files that are still in question; AND
goes on with the files that are left, OR asks about all of them. Sets of rows are not at hand: where it takes
them to tell whether a file has a matching row, the file is kept, and the decision is not certain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard, assert_never

import numpy as np
from numpy.typing import NDArray

from app.errors import CorruptIndexError
from app.file_index.answers.conditions import SHORT_LIST, Condition, OutOfTime, never_out_of_time
from app.file_index.answers.file_answers import Answer, Answers, both, either, everywhere, where
from app.file_index.container import blamed
from app.file_index.index_kinds import (
    KINDS,
    IndexKind,
    bounded_on_both_sides,
    condition_of,
    cost,
    is_false_without_values,
)
from app.file_index.stacked.index import OpenedStack, StackedIndex
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


@dataclass(frozen=True, slots=True, eq=False)
class FileDecisions:
    """What the indexes say about k files.

    Attributes:
        answers: int8, shape (k,): a code of :class:`~app.file_index.answers.file_answers.Answer` for each.
        answered: bool, shape (k,): whether an index said something.
        unasked: bool, shape (k,): whether an index was not asked all of the filter, for want of time.
        errors: what is wrong with indexes that had to be asked, by position of the file; such files are kept.
        trace: what was asked, in order: kind of index, positions among the k files, and an answer for each.
    """

    answers: Answers
    answered: NDArray[np.bool_]
    unasked: NDArray[np.bool_]
    errors: Mapping[int, CorruptIndexError]
    trace: Sequence[tuple[str, NDArray[np.int64], Answers]] = ()

    @property
    def skip(self) -> NDArray[np.bool_]:
        """Which files have no matching row, shape (k,)."""
        return np.equal(self.answers, Answer.SKIP)

    @property
    def certain(self) -> NDArray[np.bool_]:
        """Which files the file's own indexes would skip only if they are skipped here, shape (k,)."""
        return np.not_equal(self.answers, Answer.DOUBT)

    def skipped_by(self) -> Iterator[tuple[str | None, NDArray[np.bool_]]]:
        """The files without a matching row, by the kind of index that ruled them out.

        Yields a kind, None where no index did, and which files, shape (k,). Where several kinds had a part in
        it, the last one that ruled a file out, or was asked at all, counts.
        """
        skip = self.skip
        kinds = list(dict.fromkeys(kind for kind, _, _ in self.trace))
        if len(kinds) <= 1:
            # Mostly so, and then nothing needs to be told of single files.
            yield (kinds[0] if kinds else None), skip
            return
        codes = {kind: code for code, kind in enumerate(kinds)}
        by = np.full(len(skip), -1, np.int32)
        for wanted in (False, True):
            for kind, at, answers in self.trace:
                by[at[answers == Answer.SKIP] if wanted else at] = codes[kind]
        yield None, skip & (by < 0)
        for kind, code in codes.items():
            yield kind, skip & (by == code)


UNKNOWN_ROW_COUNT = -1


def decide_files(
    predicate: BoundPredicate,
    index: StackedIndex,
    files: NDArray[np.int64],
    row_counts: NDArray[np.int64],
    out_of_time: OutOfTime = never_out_of_time,
) -> FileDecisions:
    """Decides which files can have rows that satisfy a predicate.

    Args:
        files: shape (k,): positions of the files in question, each once.
        row_counts: shape (k,): rows of these files, with which every index must agree; -1 if not known.
        out_of_time: is asked before long lists of values are, and before further tests of long filters.
    """
    failed, answered, unasked = np.zeros((3, len(files)), bool)
    evaluation = _Evaluation(
        index, files, row_counts, out_of_time, failed, answered, unasked, errors={}, trace=[]
    )
    if index.heads.broken:
        broken = np.isin(files, np.fromiter(index.heads.broken, np.int64))
        for file in files[broken].tolist():
            evaluation.errors[file] = index.heads.broken[file]
        failed[broken] = True
        readable = np.flatnonzero(~broken)
        decided = everywhere(Answer.KEEP, len(files))
        decided[readable] = evaluation.answer(predicate, readable)
    else:
        decided = evaluation.answer(predicate, np.arange(len(files)))
    decided[failed] = Answer.KEEP
    return FileDecisions(decided, answered, unasked, evaluation.errors, evaluation.trace)


@dataclass(frozen=True, slots=True, eq=False)
class _Evaluation:
    """What is found out on the way; ``at`` are positions in ``files`` throughout.

    ``failed``: bool, shape (k,): files that had to ask a broken index, and are not asked about any more.
    ``unasked``: bool, shape (k,): files that were not asked all, since time ran out.
    """

    index: StackedIndex
    files: NDArray[np.int64]
    row_counts: NDArray[np.int64]
    out_of_time: OutOfTime
    failed: NDArray[np.bool_]
    answered: NDArray[np.bool_]
    unasked: NDArray[np.bool_]
    errors: dict[int, CorruptIndexError]
    trace: list[tuple[str, NDArray[np.int64], Answers]]

    def answer(self, predicate: BoundPredicate, at: NDArray[np.int64]) -> Answers:
        match predicate:
            case BoundLeaf():
                return self._leaf(predicate, at)
            case BoundAnd() | Constant(value=True):
                return self._all_of(conjuncts(predicate), at)
            case BoundOr(children):
                return self._any_of(children, at)
            case Constant():
                return everywhere(Answer.SKIP, len(at))
            case Unknown():
                return everywhere(Answer.KEEP, len(at))
            case _:
                assert_never(predicate)

    def _all_of(self, parts: tuple[BoundPredicate, ...], at: NDArray[np.int64]) -> Answers:
        if not parts:
            counts = self.row_counts[at]
            answers = where(counts > 0, Answer.ROWS)
            answers[counts == UNKNOWN_ROW_COUNT] = Answer.KEEP
            return answers
        answers = everywhere(Answer.KEEP, len(at))
        without_null: dict[DataField, NDArray[np.bool_]] = {}
        for part in sorted(parts, key=_is_not_null):
            open_to = (answers != Answer.SKIP) & ~self.failed[at]
            if _is_not_null(part) and part.field in without_null:
                # Rows that passed another test of the column have a value.
                open_to &= ~without_null[part.field]
            left = np.flatnonzero(open_to)
            found = self.answer(part, at[left])
            answers[left] = both(answers[left], found)
            if isinstance(part, BoundLeaf) and part.operator is not Operator.IS_NULL:
                known = without_null.setdefault(part.field, np.zeros(len(at), bool))
                known[left[found == Answer.ROWS]] = True
        return answers

    def _any_of(self, parts: tuple[BoundPredicate, ...], at: NDArray[np.int64]) -> Answers:
        kept = np.zeros(len(at), bool)
        for column in bounded_on_both_sides(parts):
            for kind in self.index.heads.kinds(column):
                kept |= self.index.extents(column, kind).empty[self.files[at]]
        answers = where(kept, Answer.KEEP)
        for part in parts:
            left = np.flatnonzero(~kept & ~self.failed[at])
            answers[left] = either(answers[left], self.answer(part, at[left]))
        return answers

    def _leaf(self, leaf: BoundLeaf, at: NDArray[np.int64]) -> Answers:
        condition, column = condition_of(leaf), leaf.field.name
        answers = everywhere(Answer.KEEP, len(at))
        if len(self.trace) >= SHORT_LIST and self.out_of_time():
            self.unasked[at] = True
            return answers
        answered, left = np.zeros(len(at), bool), np.arange(len(at))
        kinds = sorted(self.index.heads.kinds(column), key=cost)
        for number, kind in enumerate(kinds, start=1):
            answering, found = self._ask(leaf, kind, condition, _some(at, left))
            places = _some(left, answering)
            # Where nothing was said before, every file is still kept.
            answers[places] = found if number == 1 else both(answers.take(places), found)
            answered[places] = True
            if len(places):
                self.trace.append((kind, _some(at, places), found))
            if number == len(kinds):
                break
            known = KINDS.get(kind)
            settled = found == Answer.SKIP
            if known is not None and condition is not None and known.settles(condition):
                settled |= found != Answer.KEEP
            goes_on = ~self.failed[at[left]]
            goes_on[answering[settled]] = False
            left = left[goes_on]
            if not len(left):
                break
        self.answered[at[answered]] = True
        return answers

    def _ask(
        self, leaf: BoundLeaf, kind: str, condition: Condition | None, at: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], Answers]:
        """Which files of ``at`` an index of this kind has an answer about, as positions in it; and these."""
        column = leaf.field.name
        extents, files = self.index.extents(column, kind), _some(self.files, at)
        answers = everywhere(Answer.KEEP, len(at))
        decided = extents.empty.take(files)
        if decided.any() and is_false_without_values(leaf):
            answers[decided] = Answer.SKIP
        known = KINDS.get(kind)
        if known is None or condition is None or not known.can_answer(condition):
            return np.flatnonzero(decided), answers[decided]
        opened = self.index.open(column, known, leaf.field.type)
        usable = self._usable(opened, leaf, known, at)
        if opened.stack is not None and 0 < len(usable) == len(at):
            return self._asked(usable, opened.stack.answers(condition, files, self.out_of_time), at)
        if opened.stack is not None and len(usable):
            found = opened.stack.answers(condition, _some(files, usable), self.out_of_time)
            asked, answers_of_asked = self._asked(usable, found, at)
            answers[asked] = answers_of_asked
            decided[asked] = True
        return np.flatnonzero(decided), answers[decided]

    def _asked(
        self, places: NDArray[np.int64], answers: Answers, at: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], Answers]:
        """The places in ``at`` that were asked, and the answers; takes note of those that were not."""
        if not (unasked := answers == Answer.UNASKED).any():
            return places, answers
        self.unasked[at[places[unasked]]] = True
        return places[~unasked], answers[~unasked]

    def _usable(
        self, opened: OpenedStack, leaf: BoundLeaf, kind: IndexKind, at: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Which files of ``at`` have an index that can be asked, as positions in it; takes note of errors."""
        files, counts = _some(self.files, at), _some(self.row_counts, at)
        row_counts = None if opened.stack is None else opened.stack.row_counts
        if row_counts is None and opened.is_whole:
            return np.arange(len(at))
        sound = opened.sound[files]
        for position in np.flatnonzero(opened.broken[files]).tolist():
            file = int(files[position])
            self._fail(int(at[position]), self.index.error(leaf.field.name, kind, leaf.field.type, file))
        if row_counts is None:
            return np.flatnonzero(sound)
        found = row_counts[files]
        differ = sound & (counts != UNKNOWN_ROW_COUNT) & (counts != found)
        for position in np.flatnonzero(differ).tolist():
            error = CorruptIndexError(
                f"expected the {counts[position]} rows of the data file, found {found[position]}"
            )
            entry = self.index.entry(leaf.field.name, kind, int(files[position]))
            self._fail(int(at[position]), blamed(entry, error))
        return np.flatnonzero(sound & ~differ)

    def _fail(self, at: int, error: CorruptIndexError) -> None:
        self.failed[at] = True
        self.errors[int(self.files[at])] = error


def _is_not_null(part: BoundPredicate) -> TypeGuard[BoundLeaf]:
    return isinstance(part, BoundLeaf) and part.operator is Operator.IS_NOT_NULL


def _some(values: NDArray[np.int64], at: NDArray[np.int64]) -> NDArray[np.int64]:
    return values if len(at) == len(values) else values.take(at)
