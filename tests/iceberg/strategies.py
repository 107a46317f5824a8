"""Random expressions over the columns of a table, and how each spelling writes them."""

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock
_COMPARISONS = ("eq", "not-eq", "lt", "lt-eq", "gt", "gt-eq")
_NULLS = ("is-null", "not-null")


def expressions(values: Mapping[str, Sequence[Any]]) -> st.SearchStrategy[Any]:
    """Expressions whose tests have a ``column`` and Python values as ``literals``."""
    tests = st.sampled_from(sorted(values)).flatmap(lambda column: _tests(column, values[column]))
    leaves = tests | st.booleans()
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(lambda child: {"type": "not", "child": child}, inner)
            | st.builds(
                lambda name, left, right: {"type": name, "left": left, "right": right},
                st.sampled_from(["and", "or"]),
                inner,
                inner,
            )
        ),
        max_leaves=6,
    )


def _tests(column: str, values: Sequence[Any]) -> st.SearchStrategy[Any]:
    literal = st.sampled_from(values)
    names = [*_COMPARISONS, "in", "not-in", *_NULLS]
    if isinstance(values[0], str):
        names += ["starts-with", "not-starts-with"]
        literal = literal | st.sampled_from(values).map(lambda text: text[:2])
    if isinstance(values[0], float):
        names += ["is-nan", "not-nan"]

    def test(name: str, literals: list[Any]) -> Any:
        count = {"in": len(literals), "not-in": len(literals), "is-null": 0, "not-null": 0}.get(name, 1)
        return {"type": name, "column": column, "literals": literals[: 0 if name.endswith("nan") else count]}

    return st.builds(test, st.sampled_from(names), st.lists(literal, min_size=1, max_size=4))


def written(expression: Any, draw: st.DrawFn, ids: Mapping[str, int]) -> Any:
    """Return an expression in a random mixture of the spellings that there are."""
    if isinstance(expression, bool):
        name = "true" if expression else "false"
        return draw(st.sampled_from([expression, {"type": name}, {"type": "literal", "value": expression}]))
    match expression:
        case {"type": "not", "child": child}:
            return {"type": "not", "child": written(child, draw, ids)}
        case {"type": "and" | "or" as name, "left": left, "right": right}:
            return {"type": name, "left": written(left, draw, ids), "right": written(right, draw, ids)}
    name, column = expression["type"], expression["column"]
    literals = [_literal(each, draw) for each in expression["literals"]]
    if draw(st.booleans()):
        old: dict[str, Any] = {"type": name, "term": column}
        if name in ("in", "not-in"):
            return {**old, "values": literals}
        return {**old, "value": literals[0]} if literals else old
    reference = {"type": "reference"} | draw(st.sampled_from([{"name": column}, {"id": ids[column]}]))
    if name in ("in", "not-in"):
        return {"type": name, "child": reference, "values": literals}
    if not literals:
        return {"type": name, "child": reference}
    flipped = {"lt": "gt", "gt": "lt", "lt-eq": "gt-eq", "gt-eq": "lt-eq", "eq": "eq", "not-eq": "not-eq"}
    if name in flipped and draw(st.booleans()):
        return {"type": flipped[name], "left": literals[0], "right": reference}
    return {"type": name, "left": reference, "right": literals[0]}


def _literal(value: Any, draw: st.DrawFn) -> Any:
    forms: list[Any]
    match value:
        case bool() | str():
            forms = [value]
        case int() | float():
            forms = [value, str(value)]
        case Decimal():
            forms = [str(value)]
        case dt.datetime():
            zone = "" if value.tzinfo is None else "+00:00"
            clock = value.replace(tzinfo=None)
            forms = [(clock - _EPOCH) // dt.timedelta(microseconds=1), clock.isoformat() + zone]
        case dt.date():
            forms = [(value - _EPOCH.date()).days, value.isoformat()]
        case bytes():
            forms = [value.hex().upper()]
        case _:
            raise TypeError(value)
    form = draw(st.sampled_from(forms))
    return draw(st.sampled_from([form, {"type": "literal", "value": form}]))
