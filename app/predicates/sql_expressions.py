"""Judges conditions of Spark SQL that no index can use: functions, arithmetic, CASE, fields of structs.

They need not be understood, only be conditions at all; sqlglot parses them and names the columns they read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from app.errors import FilterError, LimitExceededError
from app.predicates.sql_tokens import FUNCTIONS_WITHOUT_PARENTHESES
from app.predicates.unbound import Column, Unknown, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_CHARACTERS: Final = 100_000
_MAX_NESTING: Final = 40
"""About so many levels of an expression fit the stack that sqlglot parses it on."""

_NO_CONDITIONS: Final = (
    exp.Literal,
    exp.Neg,
    exp.BitwiseNot,
    exp.Interval,
    exp.Tuple,
    exp.Star,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
    exp.IntDiv,
    exp.Mod,
    exp.BitwiseAnd,
    exp.BitwiseOr,
    exp.BitwiseXor,
    exp.DPipe,
    exp.Placeholder,
    exp.Parameter,
)
"""What SQL may write where a condition stands, but has a value of another type."""


def read_expression(text: str, start: int) -> Unknown:
    """Reads one condition as an unknown part.

    Args:
        text: the condition.
        start: where it starts in the filter's text.

    Raises:
        FilterError: it is no condition of Spark SQL.
        LimitExceededError: it is too long or nested too deeply.
    """
    root = _parse(text, start)
    if not isinstance(root, exp.Condition | exp.Subquery) or isinstance(root, _NO_CONDITIONS):
        raise FilterError(f"{shorten(text)} is not a condition", position=start)
    if root.find(exp.Placeholder, exp.Parameter) is not None:
        raise FilterError(f"{shorten(text)} has a parameter without a value", position=start)
    return Unknown(shorten(text), tuple(_columns(root, start)))


def _parse(text: str, start: int) -> exp.Expr | None:
    if len(text) > _MAX_CHARACTERS:
        raise LimitExceededError(
            f"a single condition has more than {_MAX_CHARACTERS} characters", limit=_MAX_CHARACTERS
        )
    try:
        parsed = sqlglot.parse(text, read="spark")
    except ParseError as error:
        raise FilterError(
            f"{shorten(text)} is not Spark SQL", position=start + _offset(error, text)
        ) from error
    except RecursionError as error:
        raise LimitExceededError("an expression is nested too deeply", limit=_MAX_NESTING) from error
    except (SqlglotError, ValueError, TypeError, AttributeError, LookupError) as error:
        raise FilterError(f"{shorten(text)} is not Spark SQL", position=start) from error
    if len(parsed) != 1:
        raise FilterError("a filter is a single condition", position=start)
    return parsed[0]


def _offset(error: ParseError, text: str) -> int:
    """Where the first fault stands in the text, as far as sqlglot tells."""
    fault = error.errors[0] if error.errors else {}
    match fault:
        case {"line": int(line), "col": int(column), "highlight": str(fragment)}:
            start_of_line = sum(len(each) for each in text.splitlines(keepends=True)[: line - 1])
            return min(max(start_of_line + column - len(fragment), 0), len(text))
        case _:
            return 0


def _columns(root: exp.Expr, start: int) -> Iterator[Column]:
    """The columns that an expression reads, those of other tables in sub-queries left out."""
    for node in root.find_all(exp.Column):
        first = node.parts[0]  # what follows a dot is a field of a struct
        if not isinstance(first, exp.Identifier) or node.find_ancestor(exp.Query) is not None:
            continue
        if first.quoted or first.name.upper() not in FUNCTIONS_WITHOUT_PARENTHESES:
            yield Column(first.name, position=start + first.meta.get("start", 0))
