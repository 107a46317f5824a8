"""Filters of golden documents, which are Spark's in a session in UTC, in the words of this service.

The meaning stays: a literal is read in its column's type, so casts, suffixes and the quotes of numbers go; a
FLOAT is written with all its digits; clocks of columns with local time zone get the offset of UTC; tests of
text become LIKE; and escapes of characters are written out.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, TypeVar

from app.types.values import to_float32

_Query = TypeVar("_Query")

_STRING: Final = r"'(?:[^'\\]|\\.|'')*'"
_NUMBER: Final = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_WORDS: Final = re.compile(
    rf"CAST\((?P<cast>{_STRING}|{_NUMBER}(?:BD|[LSYDF])?) AS \w+(?:\([^)]*\))?\)"
    rf"|TIMESTAMP_NTZ\s*(?P<clock>{_STRING})"
    rf"|TIMESTAMP(?:_LTZ)?\s*(?P<instant>{_STRING})"
    rf"|(?P<function>startswith|endswith|contains)\((?P<column>`[^`]*`|\w+), (?P<part>{_STRING})\)"
    rf"|(?P<string>{_STRING})"
    r"|(?P<name>`[^`]*`|[A-Za-z_]\w*)"
    rf"|(?P<number>{_NUMBER})(?P<suffix>BD|[LSYDF])?\b",
    re.DOTALL,
)
_HAS_OFFSET: Final = re.compile(r"(?:Z|[+-]\d\d:?\d\d)'$")
_ESCAPED: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-7]{3}))")
_SURROGATES: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_PATTERNS: Final = {"startswith": "{}%", "endswith": "%{}", "contains": "%{}%"}
_NUMERIC: Final = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")


_NO_NUMBERS: Final[Mapping[Decimal | float, str]] = {}


def as_text(condition: str, numbers: Mapping[Decimal | float, str] = _NO_NUMBERS) -> str:
    """Rewrite a condition of Spark SQL as a filter's text; ``numbers``, by value, may be in quotes there."""
    return _WORDS.sub(lambda match: _word(match, numbers), condition)


def _word(match: re.Match[str], numbers: Mapping[Decimal | float, str]) -> str:
    cast, clock, instant, number, text = match.group("cast", "clock", "instant", "number", "string")
    if cast is not None:
        return as_text(cast, numbers)
    if clock is not None:
        return f"TIMESTAMP {clock}"
    if instant is not None:
        return f"TIMESTAMP {instant if _HAS_OFFSET.search(instant) else f'{instant[:-1]}Z' + chr(39)}"
    if number is not None:
        if match["suffix"] == "F":
            return _all_digits(number)
        return _unquoted(number, numbers) or number
    if text is not None:
        is_number = re.fullmatch(_NUMBER, text[1:-1])
        return (is_number and _unquoted(text[1:-1], numbers)) or _written_out(text)
    if match["function"] is not None:
        part = re.sub(r"[%_]", r"\\\g<0>", _written_out(match["part"])[1:-1].replace("\\\\", "\\\\\\\\"))
        return f"{match['column']} LIKE '{_PATTERNS[match['function']].format(part)}'"
    return match[0]


def _written_out(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        return chr(int(match[3], 8) if match[3] else int(match[1] or match[2], 16))

    whole = _ESCAPED.sub(character, text)
    return _SURROGATES.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), whole)


def as_json(predicate: Any) -> Any:
    """Give clocks of columns with local time zone the offset of UTC, in a predicate's JSON."""
    match predicate:
        case {"kind": "COMPOUND", "children": children}:
            return {**predicate, "children": list(map(as_json, children))}
        case {"transform": {"fieldRef": {"type": str(written)}}, "literals": literals} if (
            "LOCAL TIME ZONE" in written
        ):
            return {**predicate, "literals": list(map(as_instant, literals))}
        case _:
            return predicate


def as_instant(literal: Any) -> Any:
    """Give a clock the offset of UTC."""
    is_clock = isinstance(literal, str) and not _HAS_OFFSET.search(f"{literal}'")
    return f"{literal}Z" if is_clock else literal


def _unquoted(number: str, numbers: Mapping[Decimal | float, str]) -> str | None:
    return numbers.get(Decimal(number)) or numbers.get(float(number))


def _all_digits(written: str) -> str:
    return str(Decimal(to_float32(float(written))))


def _numbers(predicate: Any) -> Iterator[tuple[Decimal | float, str]]:
    match predicate:
        case {"kind": "COMPOUND", "children": children}:
            for child in children:
                yield from _numbers(child)
        case {"transform": {"fieldRef": {"type": str(written)}}, "literals": literals} if written.startswith(
            _NUMERIC
        ):
            texts = [str(literal) for literal in literals if str(literal)[-1:].isdigit()]
            for text in texts:
                yield Decimal(text), _all_digits(text) if written.startswith("FLOAT") else text
                if written.startswith(("FLOAT", "DOUBLE")):
                    yield float(text), _all_digits(text) if written.startswith("FLOAT") else text


def in_our_words(questions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rewrite the filters of queries, or of the checks of an index file."""
    rewritten = []
    for question in questions:
        numbers = dict(_numbers(question.get("predicate")))
        words = {
            name: as_text(question[name], numbers) for name in ("filter_sql", "sql") if question.get(name)
        }
        rewritten.append({**question, "predicate": as_json(question.get("predicate")), **words})
    return rewritten


def some_of_each_kind(
    queries: Iterable[_Query], condition: Callable[[_Query], Mapping[str, Any]], one_in: int
) -> list[_Query]:
    """Return of each kind of condition the first query, and one in so many of the others of that kind.

    A kind has the same functions, joined in the same way, types of columns and numbers of literals.
    """
    found: list[_Query] = []
    seen = Counter[tuple[Any, ...]]()
    for query in queries:
        kind = _kind(condition(query))
        if seen[kind] % one_in == 0:
            found.append(query)
        seen[kind] += 1
    return found


def _kind(condition: Mapping[str, Any]) -> tuple[Any, ...]:
    if condition["kind"] == "COMPOUND":
        return (condition["function"], *map(_kind, condition["children"]))
    column = condition["transform"].get("fieldRef", {})
    return condition["function"], column.get("type"), len(condition.get("literals") or ())
