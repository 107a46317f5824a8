"""What a test of a CHAR(n) column is for Spark, written out plainly over texts: the referee of predicates.

Compared with real Spark in ``tests/spark/test_char_columns.py``.
"""

from dataclasses import dataclass
from typing import Final

from hypothesis import strategies as st

from app.types import Json
from tests.filters import matches_pattern

SYMBOLS: Final = {
    "EQUAL": "=",
    "NOT_EQUAL": "<>",
    "LESS_THAN": "<",
    "LESS_OR_EQUAL": "<=",
    "GREATER_THAN": ">",
    "GREATER_OR_EQUAL": ">=",
}
TEXT_TESTS: Final = {"STARTS_WITH": "{}%", "ENDS_WITH": "%{}", "CONTAINS": "%{}%"}
LISTS: Final = ("IN", "NOT_IN")
RANGES: Final = ("BETWEEN", "NOT_BETWEEN")
PATTERNS: Final = ("LIKE", "NOT_LIKE")
FUNCTIONS: Final = (*SYMBOLS, *LISTS, *RANGES, *PATTERNS, *TEXT_TESTS)

LETTERS: Final = "ab é😀\x01"


@dataclass(frozen=True)
class CharTest:
    __test__ = False

    function: str
    literals: tuple[str, ...]

    def text(self, column: str) -> str:
        shown = [_quoted(literal) for literal in self.literals]
        function = self.function.replace("_", " ")
        if self.function in LISTS:
            return f"{column} {function} ({', '.join(shown)})"
        if self.function in RANGES:
            return f"{column} {function} {shown[0]} AND {shown[1]}"
        if self.function in TEXT_TESTS:
            return f"{column} LIKE {_quoted(TEXT_TESTS[self.function].format(self.literals[0]))}"
        return f"{column} {SYMBOLS.get(self.function, function)} {shown[0]}"

    def json(self, column: str) -> Json:
        transform: Json = {"name": "FIELD_REF", "fieldRef": {"index": 0, "name": column, "type": "CHAR(4)"}}
        listed: list[Json] = list(self.literals)
        return {"kind": "LEAF", "transform": transform, "function": self.function, "literals": listed}

    def spark(self, stored: str, length: int) -> bool:
        """Return Spark 4.0's meaning: values are padded, literals too where Spark treats them as CHAR."""
        value = stored.ljust(length)
        if self.function not in (*SYMBOLS, *LISTS):
            return self._holds(value, self.literals)
        # Spark's rpad cuts what is longer.
        width = max(length, *map(len, self.literals))
        if width > length:
            value = value[:width].ljust(width)
        return self._holds(value, tuple(literal.ljust(width) for literal in self.literals))

    def spark_3(self, stored: str, length: int) -> bool:
        """Return what it is for Spark 3, which pads the literals of BETWEEN one by one."""
        if self.function not in RANGES:
            return self.spark(stored, length)
        low, high = self.literals
        above = CharTest("GREATER_OR_EQUAL", (low,)).spark(stored, length)
        inside = above and CharTest("LESS_OR_EQUAL", (high,)).spark(stored, length)
        return inside is (self.function == "BETWEEN")

    def of_map_key(self, stored: str, length: int) -> bool:
        """Return what it is for Spark on a key of a map to CHAR: values are padded, literals are not."""
        return self._holds(stored.ljust(length), self.literals)

    def as_stored(self, stored: str) -> bool:
        """Return what it is for the engine, which pads nothing."""
        return self._holds(stored, self.literals)

    def _holds(self, value: str, literals: tuple[str, ...]) -> bool:  # noqa: C901 - a decision table
        first = literals[0]
        match self.function:
            case "EQUAL" | "IN":
                return value in literals
            case "NOT_EQUAL" | "NOT_IN":
                return value not in literals
            case "LESS_THAN":
                return value < first
            case "LESS_OR_EQUAL":
                return value <= first
            case "GREATER_THAN":
                return value > first
            case "GREATER_OR_EQUAL":
                return value >= first
            case "BETWEEN" | "NOT_BETWEEN":
                return (first <= value <= literals[1]) is (self.function == "BETWEEN")
            case "LIKE" | "NOT_LIKE":
                return matches_pattern(value, first) is (self.function == "LIKE")
            case "STARTS_WITH":
                return value.startswith(first)
            case "ENDS_WITH":
                return value.endswith(first)
            case _:
                return first in value


def texts(most: int = 6) -> st.SearchStrategy[str]:
    return st.text(LETTERS, max_size=most) | st.builds(
        lambda stem, blanks: (stem + " " * blanks)[:most],
        st.sampled_from(["", "a", "é", "ab"]),
        st.integers(0, most),
    )


@st.composite
def char_tests(draw: st.DrawFn) -> CharTest:
    function = draw(st.sampled_from(FUNCTIONS))
    if function in PATTERNS:
        units = st.sampled_from(["%", "_", "a", "é", " ", " "])
        return CharTest(function, ("".join(draw(st.lists(units, max_size=6))),))
    size = (1, 4) if function in LISTS else (2, 2) if function in RANGES else (1, 1)
    return CharTest(function, tuple(draw(st.lists(texts(), min_size=size[0], max_size=size[1]))))


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
