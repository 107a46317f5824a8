"""Evaluating a predicate with the indexes of one file.

Each leaf asks the indexes of its column, cheapest first, until one of them settles it; what they say is
combined as in :mod:`app.file_index.answers.result`. A leaf that no index answers keeps every row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from app.errors import CorruptIndexError
from app.file_index.answers.conditions import Condition
from app.file_index.answers.result import KEEP, SKIP, Outcome, Result, Rows, Step, both, either, rows
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
            case Unknown(reason=reason):
                self._note(None, predicate, "unknown", reason or "no index can decide it")
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
            found = self.answer(part)
            result = both(result, found)
            if result is SKIP and found is not SKIP:
                self._note(None, BoundAnd(parts), "skip", "no row satisfies all of it", rows=0)
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
        entries = sorted(self.index.entries.get(leaf.field.name, ()), key=lambda entry: cost(entry.kind))
        result: Result = KEEP
        answers = 0
        for entry in entries:
            found = self._ask(entry, leaf, condition)
            if found is None:
                continue
            answers += 1
            if self.trace is not None:
                self.trace.append(self._answered(entry, leaf, found))
            if found is SKIP or (isinstance(found, Rows) and found.exact):
                return found
            result = both(result, found)
        if not answers and self.trace is not None:
            kinds = " and ".join(entry.kind for entry in entries)
            why = f"its {kinds} cannot tell" if entries else "the file has no index of the column"
            self._note(leaf.field.name, leaf, "unknown", why)
        return result

    def _ask(self, entry: Entry, leaf: BoundLeaf, condition: Condition | None) -> Result | None:
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

    def _answered(self, entry: Entry, leaf: BoundLeaf, found: Result) -> Step:
        outcome: Outcome = "rows" if isinstance(found, Rows) else "skip" if found is SKIP else "keep"
        left = len(found.positions) if isinstance(found, Rows) else 0 if found is SKIP else None
        evidence = fpp = None
        if entry.is_empty:
            evidence = "no row has a value"
        elif entry.kind in KINDS:
            kind = KINDS[entry.kind]
            fpp = kind.false_positive_rate(self.index.open(entry, kind, leaf.field.type))
        return Step(entry.column, entry.kind, str(leaf), outcome, left, evidence, fpp, entry.length)

    def _note(
        self,
        column: str | None,
        part: BoundPredicate,
        outcome: Outcome,
        evidence: str,
        *,
        rows: int | None = None,
    ) -> None:
        if self.trace is not None:
            self.trace.append(Step(column, None, str(part), outcome, rows, evidence))
