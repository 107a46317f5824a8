"""Holds a plan against the rows of its table, looked at one by one: none may be lost, none may come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.planning.plan.answers import Plan
from app.planning.request.requests import SelectionForm, SortKey
from app.types import DataType, TypeRoot, Value, sql_key
from tests.proof.conditions import TRUE, Condition
from tests.proof.making import name_of
from tests.proof.tables import Codes, RandomTable


class WrongPlanError(AssertionError):
    """A plan that a reader must not go by."""


@dataclass(frozen=True, eq=False)
class Kept:
    """What a plan keeps, in the numbers of the random table.

    Attributes:
        files: which are kept.
        rows: of files that are read straight, the rows that are left; shape (rows of the table,).
        joined: kept files that are read together with others, or whose rows merge.
    """

    files: frozenset[int]
    rows: NDArray[np.bool_]
    joined: frozenset[int]


class Referee:
    """Of one table."""

    def __init__(self, table: RandomTable) -> None:
        self.table = table
        self.numbers = {name_of(number, file): number for number, file in enumerate(table.files)}
        self.all_rows = table.all_rows()

    def matching(self, condition: Condition | None, codes: Codes) -> NDArray[np.bool_]:
        """Which of some rows satisfy a condition."""
        if condition is None:
            return np.ones(len(codes), np.bool_)
        return np.equal(condition.truths(codes), TRUE)

    def check(
        self, plan: Plan, condition: Condition | None, form: SelectionForm, *, exact: bool = True
    ) -> Kept:
        """Return what a plan keeps, which has all that matches.

        ``plan``: of this condition alone, without LIMIT and order.
        ``condition``: what was asked.
        ``form``: of selections.
        ``exact``: whether rows that are told to match have to.

        Raises WrongPlanError if it has not.
        """
        kept = self.kept(plan, form)
        table = self.table
        if table.merges:
            self._check_merged(kept, condition)
        else:
            wanted = self.matching(condition, table.codes) & table.live
            lost = np.flatnonzero(wanted & ~kept.rows)
            if len(lost):
                raise WrongPlanError(f"lost {self._shown(lost)}")
        matches = self.matching(condition, table.codes)
        for at, number in enumerate(self._numbers(plan)):
            start, stop = int(table.starts[number]), int(table.starts[number + 1])
            if bool(plan.files.array("residual")[at]) or number in kept.joined or not exact:
                continue
            if form in (SelectionForm.NONE, SelectionForm.COUNT):
                found = int(np.count_nonzero((matches & table.live)[start:stop]))
                stated = int(plan.files.array("selected_rows")[at])
                if form is SelectionForm.COUNT and stated != found:
                    raise WrongPlanError(f"{stated} rows of file {number}, expected {found}")
                continue
            wrong = np.flatnonzero(kept.rows[start:stop] & ~matches[start:stop]) + start
            if len(wrong):
                raise WrongPlanError(f"said to match, and does not: {self._shown(wrong)}")
        return kept

    def kept(self, plan: Plan, form: SelectionForm) -> Kept:
        table = self.table
        rows = np.zeros(len(table.codes), np.bool_)
        joined = set()
        numbers = self._numbers(plan)
        files = plan.files
        counts = files.array("selected_rows")
        for at, number in enumerate(numbers):
            start, stop = int(table.starts[number]), int(table.starts[number + 1])
            if not files.array("raw_convertible")[at]:
                joined.add(number)
                continue
            selection = files.selections.get(at)
            if selection is None:
                tells = form not in (SelectionForm.NONE, SelectionForm.COUNT)
                rows[start:stop] = tells | table.live[start:stop]
            else:
                rows[[start + position for position in selection]] = True
                if int(counts[at]) != len(selection):
                    raise WrongPlanError(f"{counts[at]} rows of file {number}, found {len(selection)}")
        back = np.flatnonzero(rows & ~table.live)
        if len(back):
            raise WrongPlanError(f"deleted rows come back: {self._shown(back)}")
        if len(set(numbers)) != len(numbers):
            raise WrongPlanError("a file is named twice")
        return Kept(frozenset(numbers), rows, frozenset(joined))

    def read(self, kept: Kept) -> Codes:
        straight = self.table.codes[kept.rows]
        return np.concatenate([straight, self.table.merged(kept.joined)]) if kept.joined else straight

    def check_first(
        self, plan: Plan, condition: Condition | None, limit: int, order: Sequence[tuple[int, SortKey]]
    ) -> None:
        """Raise WrongPlanError unless the first rows of what matches, in any or some order, are there."""
        kept = self.kept(plan, SelectionForm.POSITIONS)
        read = self.read(kept)
        found = read[self.matching(condition, read)]
        every = self.all_rows[self.matching(condition, self.all_rows)]
        if not order:
            if len(found) < min(limit, len(every)):
                raise WrongPlanError(f"{len(found)} of {min(limit, len(every))} rows of a limit")
            return
        keys = [self._keys(found, order), self._keys(every, order)]
        if keys[0][:limit] != keys[1][:limit]:
            raise WrongPlanError(f"the first {limit} rows: {keys[0][:limit]}, expected {keys[1][:limit]}")

    def _keys(self, codes: Codes, order: Sequence[tuple[int, SortKey]]) -> list[list[int]]:
        """Rows in the order of a query, by the ranks of their values."""
        columns = []
        for at, key in order:
            column = self.table.columns[at]
            ranked = _ranks(column.read[1:], column.field.type)
            ranks = np.array([0, *ranked], np.int64)
            if key.descending:
                ranks = -ranks
            ranks[0] = -(1 << 20) if key.nulls_first else 1 << 20
            columns.append(ranks[codes[:, at]])
        if not columns:
            return []
        return sorted(np.stack(columns, axis=1).tolist())

    def _check_merged(self, kept: Kept, condition: Condition | None) -> None:
        read = self.read(kept)
        found = read[self.matching(condition, read)]
        wanted = self.all_rows[self.matching(condition, self.all_rows)]
        if not np.array_equal(_sorted(found), _sorted(wanted)):
            raise WrongPlanError(f"read {_sorted(found).tolist()}, expected {_sorted(wanted).tolist()}")

    def _numbers(self, plan: Plan) -> list[int]:
        return [self.numbers[name.decode()] for name in plan.files.array("file_name").tolist()]

    def _shown(self, rows: NDArray[np.int64]) -> str:
        row = int(rows[0])
        number = int(np.searchsorted(self.table.starts, row, side="right")) - 1
        values = {
            column.field.name: column.read[code]
            for column, code in zip(self.table.present, self.table.codes[row].tolist(), strict=False)
        }
        file = self.table.files[number]
        return (
            f"{len(rows)} rows, the first at {row - int(self.table.starts[number])} of "
            f"{name_of(number, file)} (schema {file.schema}, bucket {file.bucket}): {values}"
        )


def _ranks(values: Sequence[Value | None], data_type: DataType) -> list[int]:
    """Return the place of each value in the order of a query; 0 for NULL."""
    key: Any = sql_key(data_type)
    if data_type.root is TypeRoot.CHAR:
        key = partial(_padded, length=data_type.precision)
    keys = [None if value is None else key(value) for value in values]
    places = {key: at for at, key in enumerate(sorted({each for each in keys if each is not None}))}
    return [0 if each is None else places[each] for each in keys]


def _padded(value: bytes, length: int) -> str:
    return value.decode().ljust(length)


def _sorted(codes: Codes) -> Codes:
    return codes[np.lexsort(codes.T[::-1])] if len(codes) else codes
