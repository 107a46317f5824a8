"""Random filters that are written both as text and as JSON, and what they mean by SQL's three-valued logic.

The meaning is spelled out here a second time, on purpose: value by value, without pushing NOT down, joining
lists or fitting literals.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st

from app.types import DataField, DataType, Json, TypeRoot, Value, sql_key, to_json
from app.types.data_types import INTEGER_BITS
from app.types.values import integer_range, to_float32
from tests.tables import columns_of

FIELDS: Final = columns_of(
    """
    flag: BOOLEAN; tiny: TINYINT; Count: INT; big: BIGINT NOT NULL; price: DECIMAL(9, 2); ratio: FLOAT;
    score: DOUBLE; name: STRING; a `quoted` name: VARCHAR(20); raw: BYTES; day: DATE; at: TIMESTAMP(6);
    instant: TIMESTAMP(3) WITH LOCAL TIME ZONE
    """,
    3,
)
Row: TypeAlias = "Mapping[int, Value | None]"
ActualValues: TypeAlias = "bool | None"
"""True, False or (None) SQL's NULL."""

_SYMBOLS: Final = {
    "EQUAL": "=",
    "NOT_EQUAL": "<>",
    "LESS_THAN": "<",
    "LESS_OR_EQUAL": "<=",
    "GREATER_THAN": ">",
    "GREATER_OR_EQUAL": ">=",
}
_PATTERNS: Final = {"STARTS_WITH": "{}%", "ENDS_WITH": "%{}", "CONTAINS": "%{}%"}


def values(data_type: DataType) -> st.SearchStrategy[Value]:
    """Values of a type: mostly a few that lie close to each other, then the extremes."""
    match data_type.root:
        case TypeRoot.BOOLEAN:
            return st.booleans()
        case TypeRoot.DECIMAL:
            return st.integers(-3, 3) | st.sampled_from([10**9 - 1, 1 - 10**9])
        case TypeRoot.FLOAT:
            return st.sampled_from([math.nan, math.inf, -0.0, 0.0, 1.5, to_float32(0.1), -2.0])
        case TypeRoot.DOUBLE:
            return st.sampled_from([math.nan, -math.inf, -0.0, 0.0, 1.5, 0.1, 1e300])
        case TypeRoot.VARCHAR:
            return st.text("a%_\\'\"é😀\n", max_size=3).map(str.encode)
        case TypeRoot.VARBINARY:
            return st.binary(max_size=2)
        case TypeRoot.DATE:
            return st.integers(-3, 3) | st.sampled_from([-(1 << 31), -719_529, 2_932_897, (1 << 31) - 1])
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ as root:
            micros = 1 if root is TypeRoot.TIMESTAMP else 1_000
            end = (1 << 63) // micros - 1
            steps = st.integers(-3, 3) | st.sampled_from([-end, end])
            return steps.map(lambda each: each * micros * 1_000)
        case root if root in INTEGER_BITS:
            return st.integers(-3, 3) | st.sampled_from(integer_range(data_type))
        case _:
            return st.integers(-3, 3)


def rows() -> st.SearchStrategy[Row]:
    return st.fixed_dictionaries({field.id: st.none() | values(field.type) for field in FIELDS})


@dataclass(frozen=True)
class Test:
    __test__ = False

    function: str
    field: DataField
    literals: tuple[Value | None, ...]

    def json(self) -> Json:
        return {
            "kind": "LEAF",
            "transform": {
                "name": "FIELD_REF",
                "fieldRef": {"index": 0, "name": self.field.name, "type": "INT"},
            },
            "function": self.function,
            "literals": [to_json(literal, self.field.type) for literal in self.literals],
        }

    def text(self) -> str:
        column = f"`{self.field.name.replace('`', '``')}`"
        literals = [_sql(literal, self.field.type) for literal in self.literals]
        match self.function:
            case "IS_NULL" | "IS_NOT_NULL" | "IN" | "NOT_IN":
                listed = f" ({', '.join(literals)})" if literals else ""
                return f"{column} {self.function.replace('_', ' ')}{listed}"
            case "BETWEEN" | "NOT_BETWEEN":
                return f"{column} {self.function.replace('_', ' ')} {literals[0]} AND {literals[1]}"
            case "LIKE":
                return f"{column} LIKE {literals[0]}"
            case "STARTS_WITH" | "ENDS_WITH" | "CONTAINS":
                if self.literals[0] is None:
                    return f"{column} = NULL"
                plain = re.sub(r"([\\%_])", r"\\\1", bytes(self.literals[0]).decode())  # type: ignore[arg-type] # text
                return f"{column} LIKE {_quoted(_PATTERNS[self.function].format(plain))}"
            case _:
                return f"{column} {_SYMBOLS[self.function]} {literals[0]}"

    def truth(self, row: Row) -> ActualValues:
        value = row[self.field.id]
        if self.function in ("IS_NULL", "IS_NOT_NULL"):
            return (value is None) is (self.function == "IS_NULL")
        if value is None:
            return None
        return self._compared(value)

    def _compared(self, value: Value) -> ActualValues:
        literals = self.literals
        match self.function:
            case "EQUAL":
                return self._ordered("=", value, literals[0])
            case "NOT_EQUAL":
                return _not(self._ordered("=", value, literals[0]))
            case "LESS_THAN":
                return self._ordered("<", value, literals[0])
            case "LESS_OR_EQUAL":
                return _not(self._ordered(">", value, literals[0]))
            case "GREATER_THAN":
                return self._ordered(">", value, literals[0])
            case "GREATER_OR_EQUAL":
                return _not(self._ordered("<", value, literals[0]))
            case "IN" | "NOT_IN":
                found = _any([self._ordered("=", value, literal) for literal in literals])
                return found if self.function == "IN" else _not(found)
            case "BETWEEN" | "NOT_BETWEEN":
                below, above = self._ordered("<", value, literals[0]), self._ordered(">", value, literals[1])
                outside = _any([below, above])
                return _not(outside) if self.function == "BETWEEN" else outside
            case _:
                return None if literals[0] is None else self._text(bytes(value), bytes(literals[0]))  # type: ignore[arg-type]

    def _ordered(self, symbol: str, value: Value, literal: Value | None) -> ActualValues:
        if literal is None:
            return None
        key = sql_key(self.field.type)
        left: Any = key(value)
        right: Any = key(literal)
        return bool(left == right if symbol == "=" else left < right if symbol == "<" else left > right)

    def _text(self, value: bytes, needle: bytes) -> bool:
        match self.function:
            case "STARTS_WITH":
                return value.startswith(needle)
            case "ENDS_WITH":
                return value.endswith(needle)
            case "CONTAINS":
                return needle in value
            case _:
                return matches_pattern(value.decode(), needle.decode())


@dataclass(frozen=True)
class Joined:
    function: str
    children: tuple[Filter, ...]

    def json(self) -> Json:
        return {
            "kind": "COMPOUND",
            "function": self.function,
            "children": [each.json() for each in self.children],
        }

    def text(self) -> str:
        return f" {self.function} ".join(f"({child.text()})" for child in self.children)

    def truth(self, row: Row) -> ActualValues:
        truths = [child.truth(row) for child in self.children]
        return _any(truths) if self.function == "OR" else _not(_any([_not(truth) for truth in truths]))


Filter: TypeAlias = Test | Joined


def _not(truth: ActualValues) -> ActualValues:
    return None if truth is None else not truth


def _any(truths: list[ActualValues]) -> ActualValues:
    return True if True in truths else None if None in truths else False


def matches_pattern(value: str, pattern: str) -> bool:
    """LIKE by its definition: peel one character off either side."""
    if not pattern:
        return not value
    head, tail = pattern[0], pattern[1:]
    if head == "%":
        return any(matches_pattern(value[skipped:], tail) for skipped in range(len(value) + 1))
    if head == "\\":
        head, tail = tail[0], tail[1:]
    elif head == "_":
        return bool(value) and matches_pattern(value[1:], tail)
    return value[:1] == head and matches_pattern(value[1:], tail)


def patterns() -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(["%", "_", "a", "é", "😀", "\\%", "\\_", "\\\\", "'"]), max_size=5).map(
        "".join
    )


@st.composite
def tests(draw: st.DrawFn) -> Test:
    field = draw(st.sampled_from(FIELDS))
    literal = values(field.type) | st.none()
    functions = [*_SYMBOLS, "IS_NULL", "IS_NOT_NULL", "IN", "NOT_IN", "BETWEEN", "NOT_BETWEEN"]
    if field.type.root is TypeRoot.VARCHAR:
        functions += [*_PATTERNS, "LIKE"]
    function = draw(st.sampled_from(functions))
    match function:
        case "IS_NULL" | "IS_NOT_NULL":
            return Test(function, field, ())
        case "IN" | "NOT_IN":
            return Test(function, field, tuple(draw(st.lists(literal, min_size=1, max_size=4))))
        case "BETWEEN" | "NOT_BETWEEN":
            return Test(function, field, (draw(literal), draw(literal)))
        case "LIKE":
            return Test(function, field, (draw(patterns()).encode(),))
        case _:
            return Test(function, field, (draw(literal),))


def filters() -> st.SearchStrategy[Filter]:
    return st.recursive(
        tests(),
        lambda inner: st.builds(
            Joined, st.sampled_from(["AND", "OR"]), st.lists(inner, min_size=1, max_size=3).map(tuple)
        ),
        max_leaves=6,
    )


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n")
    return f"'{escaped}'"


def _sql(value: Value | None, data_type: DataType) -> str:
    written = to_json(value, data_type)
    match data_type.root:
        case _ if value is None:
            return "NULL"
        case TypeRoot.BOOLEAN:
            return str(value).upper()
        case TypeRoot.DECIMAL:
            return str(written)
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return str(Decimal(float(value))) if math.isfinite(float(value)) else f"'{written}'"
        case TypeRoot.VARCHAR:
            return _quoted(str(written))
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return f"X'{bytes(value).hex()}'"  # type: ignore[arg-type] # bytes by its type
        case TypeRoot.DATE:
            return f"DATE '{written}'"
        case TypeRoot.TIMESTAMP:
            return f"TIMESTAMP '{str(written).replace('T', ' ')}'"
        case TypeRoot.TIMESTAMP_LTZ:
            return f"TIMESTAMP '{written}'"
        case _:
            return str(value)
