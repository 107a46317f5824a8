"""Evaluating a predicate with the indexes of one file.

Each leaf asks the indexes of its column, cheapest first, until one of them settles it; what they say is
combined as in :mod:`app.file_index.answers.result`. A leaf that no index answers keeps every row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from app.errors import CorruptIndexError
from app.file_index.answers.conditions import Condition
from app.file_index.answers.result import (
    KEEP,
    SKIP,
    Result,
    Rows,
    Step,
    answered,
    both,
    either,
    rows,
    unanswered,
)
from app.file_index.answers.row_index import all_rows
from app.file_index.container import Entry, FileIndex, blame
from app.file_index.index_kinds import (
    KINDS,
    bounded_on_both_sides,
    condition_of,
    cost,
    is_false_without_values,
)
from app.predicates.model import BoundAnd, BoundLeaf, BoundOr, BoundPredicate, Constant, Unknown, conjuncts


def evaluate(
    predicate: BoundPredicate,
    index: FileIndex,
    *,
    row_count: int | None = None,
    trace: list[Step] | None = None,
) -> Result:
    """The rows of a file that can satisfy a predicate.

    Args:
        predicate: bound to the schema that the file was written with.
        index: the file's indexes.
        row_count: rows of the file, where they are known; every index must agree with it.
        trace: if given, a step for every question asked is added.

    Raises:
        CorruptIndexError: an index that had to be asked is broken; the file has to be kept.
    """
    return _Evaluation(index, row_count, trace).answer(predicate)


@dataclass(frozen=True, slots=True)
class _Evaluation:
    index: FileIndex
    row_count: int | None
    trace: list[Step] | None

    def answer(self, predicate: BoundPredicate) -> Result:
        match predicate:
            case BoundLeaf():
                return self._leaf(predicate)
            case BoundAnd() | Constant(value=True):
                return self._all_of(conjuncts(predicate))
            case BoundOr(children):
                return self._any_of(children)
            case Constant():
                return SKIP
            case Unknown():
                self._note_unanswered(None, predicate)
                return KEEP
            case _:
                assert_never(predicate)

    def _all_of(self, parts: tuple[BoundPredicate, ...]) -> Result:
        if not parts:
            return KEEP if self.row_count is None else rows(all_rows(self.row_count), exact=True)
        result = self.answer(parts[0])
        for part in parts[1:]:
            if result is SKIP:
                break
            result = both(result, self.answer(part))
        return result

    def _any_of(self, parts: tuple[BoundPredicate, ...]) -> Result:
        columns = bounded_on_both_sides(parts)
        if any(entry.is_empty for column in columns for entry in self.index.entries.get(column, ())):
            return KEEP
        result: Result = SKIP
        for part in parts:
            result = either(result, self.answer(part))
        return result

    def _leaf(self, leaf: BoundLeaf) -> Result:
        condition = condition_of(leaf)
        result: Result = KEEP
        answers = 0
        for entry in sorted(self.index.entries.get(leaf.field.name, ()), key=lambda entry: cost(entry.kind)):
            found = self._ask(entry, leaf, condition)
            if found is None:
                continue
            answers += 1
            if self.trace is not None:
                self.trace.append(answered(entry.column, entry.kind, str(leaf), found))
            if found is SKIP or (isinstance(found, Rows) and found.exact):
                return found
            result = both(result, found)
        if not answers:
            self._note_unanswered(leaf.field.name, leaf)
        return result

    def _ask(self, entry: Entry, leaf: BoundLeaf, condition: Condition | None) -> Result | None:
        """What one index says; None where it cannot be asked."""
        if entry.is_empty:
            return SKIP if is_false_without_values(leaf) else KEEP
        kind = KINDS.get(entry.kind)
        if kind is None or condition is None or not kind.can_answer(condition):
            return None
        with blame(entry):
            opened = self.index.open(entry, kind, leaf.field.type)
            row_count = kind.row_count(opened)
            if None not in (row_count, self.row_count) and row_count != self.row_count:
                raise CorruptIndexError(
                    f"expected the {self.row_count} rows of the data file, found {row_count}"
                )
            return kind.select(opened, condition)

    def _note_unanswered(self, column: str | None, part: BoundPredicate) -> None:
        if self.trace is not None:
            self.trace.append(unanswered(column, str(part)))
