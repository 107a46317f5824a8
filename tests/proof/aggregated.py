"""Aggregates of random tables, and counts by one column: those of the rows, or bounds that hold them.

Values are as Spark reads them: CHAR padded, timestamps cut to microseconds, however they were written.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from app.aggregates.aggregation import aggregate
from app.aggregates.answers import (
    AggregateAnswer,
    AggregateFunction,
    AggregateGroup,
    AggregateRequest,
    AggregateValue,
    Function,
)
from app.planning.request.limits import Limits
from app.types import DataType, TypeRoot, Value, parse_json, sql_key
from app.types.data_types import TIMESTAMP_ROOTS
from tests.proof.columns import NULL, Column
from tests.proof.referee import WrongPlanError

if TYPE_CHECKING:
    from tests.proof.conditions import Condition
    from tests.proof.pairs import Subject
    from tests.proof.referee import Kept

Group: TypeAlias = tuple[Any, ...]
"""What the values of a group compare by."""

_FUNCTIONS: Final = (Function.COUNT, Function.MIN, Function.MAX)
_NANOS_PER_MICRO: Final = 1000


def aggregated(rng: Random, subject: Subject, condition: Condition | None, _: Kept) -> None:
    """Raise WrongPlanError where an aggregate is not that of the rows."""
    table, referee = subject.referee.table, subject.referee
    if table.joins_rows or (condition is not None and condition.pads and not condition.has_sql):
        return
    columns = table.present
    at = rng.choice([rng.randrange(len(columns)), *table.partitioned_by])
    places = [rng.randrange(len(columns))] if rng.random() < 0.5 else []
    name = columns[at].field.name
    asked = [
        AggregateFunction(function=Function.COUNT),
        *(AggregateFunction(function=each, column=name) for each in _FUNCTIONS if not places),
    ]
    grouped = [columns[each].field for each in places]
    written = subject.request(condition).filter
    assert written is None or isinstance(written, str | Mapping)
    request = AggregateRequest(
        filter=written,
        aggregates=asked,
        group_by=[each.name for each in grouped],
    )
    answer = aggregate(subject.version, request, Limits())
    rows = referee.all_rows[referee.matching(condition, referee.all_rows)]
    keys = [_keys(column) for column in columns]
    truth: dict[Group, list[Any]] = {} if places else {(): []}
    for row in rows.tolist():
        truth.setdefault(tuple(keys[each][row[each]] for each in places), []).append(keys[at][row[at]])
    told = {
        tuple(_told(group.key[each.name], each.type) for each in grouped): group for group in answer.groups
    }
    _check_groups(answer, told, truth)
    for key, group in told.items():
        values = truth.get(key, [])
        if group.rows > len(values):
            raise WrongPlanError(f"{group.rows} rows of {key}, expected {len(values)}")
        for found, expected in zip(group.values, _expected(values)[: len(asked)], strict=True):
            _check(found, expected, columns[at].field.type)


def _check_groups(
    answer: AggregateAnswer, told: Mapping[Group, AggregateGroup], truth: Mapping[Group, list[Any]]
) -> None:
    if len(told) < len(answer.groups):
        raise WrongPlanError(f"groups that are one: {[group.key for group in answer.groups]}")
    if answer.exact and told.keys() != truth.keys():
        raise WrongPlanError(f"groups {sorted(map(str, told))}, expected {sorted(map(str, truth))}")
    missing = sum(len(truth[key]) for key in truth.keys() - told.keys())
    if missing > answer.open_rows:
        raise WrongPlanError(f"{missing} rows of groups that are not told, {answer.open_rows} are open")


def _expected(values: list[Any]) -> list[Any]:
    present = sorted(value for value in values if value is not None)
    ends = (present[0], present[-1]) if present else (None, None)
    return [len(values), len(present), *ends]


def _check(found: AggregateValue, expected: Any, data_type: DataType) -> None:
    ends = found.function in (Function.MIN, Function.MAX)
    value, lower, upper = (
        _told(each, data_type) if ends else each for each in (found.value, found.lower, found.upper)
    )
    if found.exact and value != expected:
        raise WrongPlanError(f"{found}, expected {expected}")
    if expected is None:
        return
    if (lower is not None and lower > expected) or (upper is not None and upper < expected):
        raise WrongPlanError(f"{found} does not hold {expected}")


def _keys(column: Column) -> list[Any]:
    """Return what the value of each code compares by."""
    data_type = column.field.type
    key = sql_key(data_type)
    return [
        None if code == NULL or value is None else key(_read(value, data_type))
        for code, value in enumerate(column.read)
    ]


def _read(value: Value, data_type: DataType) -> Value:
    if data_type.root is TypeRoot.CHAR:
        return bytes(value).decode().ljust(data_type.precision).encode()  # type: ignore[arg-type] # text
    if data_type.root in TIMESTAMP_ROOTS and data_type.precision > 6:
        return int(value) // _NANOS_PER_MICRO * _NANOS_PER_MICRO
    return value


def _told(written: Any, data_type: DataType) -> Any:
    """Return what a value of an answer compares by."""
    value = parse_json(written, data_type)
    return None if value is None else sql_key(data_type)(value)
