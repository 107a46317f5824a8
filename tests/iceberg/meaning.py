"""What an expression means to each kind of client, row by row."""

import math
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any, Final

Row = Mapping[str, Any]

NEGATED: Final = {
    "eq": "not-eq",
    "lt": "gt-eq",
    "gt": "lt-eq",
    "in": "not-in",
    "starts-with": "not-starts-with",
    "is-null": "not-null",
    "is-nan": "not-nan",
}
NEGATIONS: Final = NEGATED | {other: one for one, other in NEGATED.items()}
_NULL_TESTS: Final = ("is-null", "not-null")


class Client(Enum):
    JAVA = auto()
    """Iceberg's own evaluation: what excludes is met by NULL, -0.0 is below 0.0, NaN above everything."""
    ARROW = auto()
    """PyIceberg: NULL is no row, numbers compare as IEEE says."""
    IEEE = auto()
    """Likewise, and turns the result of a test over under NOT, not the test: NaN meets ``NOT x >= 1``."""
    SQL = auto()
    """Spark: NULL is no row, zeros are equal, NaN equals itself and is above everything."""


def takes(client: Client, expression: Any, row: Row) -> bool:
    """Whether a client takes a row by an expression that :mod:`tests.iceberg.strategies` makes."""
    return _takes(client, expression, row, negated=False)


def _takes(client: Client, expression: Any, row: Row, *, negated: bool) -> bool:
    if isinstance(expression, bool):
        return expression is not negated
    match expression["type"]:
        case "not":
            return _takes(client, expression["child"], row, negated=not negated)
        case "and" | "or" as name:
            sides = (_takes(client, expression[side], row, negated=negated) for side in ("left", "right"))
            return all(sides) if (name == "and") is not negated else any(sides)
        case name if negated and client is Client.IEEE and name not in _NULL_TESTS:
            return row[expression["column"]] is not None and not _test(client, name, expression, row)
        case name:
            return _test(client, NEGATIONS[name] if negated else name, expression, row)


def _test(client: Client, name: str, expression: Any, row: Row) -> bool:
    value = row[expression["column"]]
    if name in ("is-null", "not-null"):
        return (value is None) is (name == "is-null")
    if name in ("is-nan", "not-nan"):
        is_nan = isinstance(value, float) and math.isnan(value)
        if value is None:
            return name == "not-nan" and client is Client.JAVA
        return is_nan is (name == "is-nan")
    if value is None:
        return client is Client.JAVA and name in ("not-eq", "not-in", "not-starts-with")
    key = _KEYS[client]
    literals = [key(each) for each in expression["literals"]]
    held = key(value)
    match name:
        case "starts-with" | "not-starts-with":
            return str(value).startswith(expression["literals"][0]) is (name == "starts-with")
        case "in" | "not-in":
            return any(held == each for each in literals) is (name == "in")
        case "eq" | "not-eq":
            return (held == literals[0]) is (name == "eq")
        case _:
            return bool(_ORDERS[name](held, literals[0]))


def _java(value: Any) -> Any:
    if isinstance(value, float):
        return (
            (2, 0.0, 0.0) if math.isnan(value) else (1, value, math.copysign(1, value) if value == 0 else 0)
        )
    return value


def _sql(value: Any) -> Any:
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value


def _arrow(value: Any) -> Any:
    return value


_KEYS: Final[Mapping[Client, Callable[[Any], Any]]] = {
    Client.JAVA: _java,
    Client.SQL: _sql,
    Client.ARROW: _arrow,
    Client.IEEE: _arrow,
}
_ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "lt": lambda one, other: one < other,
    "lt-eq": lambda one, other: one <= other,
    "gt": lambda one, other: one > other,
    "gt-eq": lambda one, other: one >= other,
}
