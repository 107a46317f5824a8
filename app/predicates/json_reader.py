"""Reads the JSON form of a Paimon ``Predicate``, which the engine's own serializer writes.

=======================  =====================================================================================
member                   meaning
=======================  =====================================================================================
``kind``                 ``"LEAF"`` or ``"COMPOUND"``
``function`` (leaf)      the test, see ``_LITERALS``; any other function is unknown
``transform`` (leaf)     ``{"name": "FIELD_REF", "fieldRef": {"index", "name", "type"}}``: the column, found
                         by name alone; any other transform makes the leaf unknown
``literals`` (leaf)      JSON values; may be absent where the function takes none
``function`` (compound)  ``"AND"`` or ``"OR"``; any other function is unknown
``children`` (compound)  one or more predicates
=======================  =====================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from app.errors import FilterError
from app.predicates.model import Operator
from app.predicates.unbound import (
    DEFAULT_LIMITS,
    And,
    ColumnName,
    FilterLimits,
    Leaf,
    Literal,
    LiteralCount,
    LiteralKind,
    Not,
    Or,
    Predicate,
    TruthValue,
    Undecidable,
    listed_literals,
    shorten,
)

NO_ARROW: Final = "lists of literals in Arrow ($arrow) are not read: send the values as a JSON list"
_ANY_NUMBER: Final = -1
_NOT_BETWEEN: Final = "NOT_BETWEEN"
_CONSTANTS: Final = {"TRUE": True, "FALSE": False}
# Number of literals of each test; NOT_BETWEEN takes those of BETWEEN, TRUE and FALSE ignore theirs.
_LITERALS: Final = {
    Operator.EQUAL: 1,
    Operator.NOT_EQUAL: 1,
    Operator.LESS_THAN: 1,
    Operator.LESS_OR_EQUAL: 1,
    Operator.GREATER_THAN: 1,
    Operator.GREATER_OR_EQUAL: 1,
    Operator.IN: _ANY_NUMBER,
    Operator.NOT_IN: _ANY_NUMBER,
    Operator.BETWEEN: 2,
    Operator.IS_NULL: 0,
    Operator.IS_NOT_NULL: 0,
    Operator.STARTS_WITH: 1,
    Operator.ENDS_WITH: 1,
    Operator.CONTAINS: 1,
    Operator.LIKE: 1,
}


def read_json_filter(written: object, limits: FilterLimits = DEFAULT_LIMITS) -> Predicate:
    """Read a predicate from parsed JSON.

    Raises FilterError if the JSON is not a predicate. Raises LimitExceededError if it is too long or deep, or
    has too many literals.
    """
    limits.check_size(written)
    return _predicate(written, 0, LiteralCount(limits))


def read_lists(lists: Mapping[str, object], limits: FilterLimits = DEFAULT_LIMITS) -> And:
    """Read lists of values by column. A row must match a value of each list.

    Raises FilterError if a list is no array of literals. Raises LimitExceededError if there are too many
    literals.
    """
    count = LiteralCount(limits)
    return And(tuple(_one_of(name, written, count) for name, written in lists.items()))


def _one_of(name: str, written: object, count: LiteralCount) -> Leaf:
    column = ColumnName((name,))
    literals = _literals(Operator.IN, written, count)
    return Leaf(Operator.IN, column, literals, shorten(f"{Operator.IN} of {column}"))


def _predicate(written: object, depth: int, count: LiteralCount) -> Predicate:
    match written:
        case {"kind": "LEAF", **members}:
            return _leaf(members, count)
        case {"kind": "COMPOUND", "function": str(function), "children": [_, *_] as children}:
            count.limits.check_depth(depth + 1)
            # map, not a comprehension, which would be one more Python frame for each level of nesting.
            read = tuple(map(partial(_predicate, depth=depth + 1, count=count), children))
            return _compound(function, read)
        case {"kind": "COMPOUND", **members}:
            raise FilterError(
                "a COMPOUND predicate has a function (AND or OR) and one or more children, "
                f"not {shorten(repr(members.get('function')))} over {type(members.get('children')).__name__}"
            )
        case _:
            raise FilterError(
                f"expected a predicate object of kind LEAF or COMPOUND, found {_sketch(written)}"
            )


def _compound(function: str, children: tuple[Predicate, ...]) -> Predicate:
    match function:
        case "AND":
            return And(children)
        case "OR":
            return Or(children)
        case _:
            text = f"{shorten(function)} of {len(children)} predicates"
            return Undecidable(text, reason="only AND and OR combine predicates")


def _leaf(written: Mapping[object, object], count: LiteralCount) -> Predicate:
    function = written.get("function")
    if not isinstance(function, str):
        raise FilterError("a LEAF predicate names its function, such as EQUAL")
    if function in _CONSTANTS:
        return TruthValue(_CONSTANTS[function])
    transform = written.get("transform")
    if not isinstance(transform, dict) or not isinstance(transform.get("name"), str):
        raise FilterError(
            'a LEAF predicate has a transform object, such as {"name": "FIELD_REF", "fieldRef": ...}'
        )
    literals = _literals(function, written.get("literals"), count)
    if transform["name"] != "FIELD_REF":
        columns = tuple(_referred(transform))
        arguments = f" of {transform['name']}({', '.join(map(str, columns))})" if columns else ""
        text = shorten(f"{function}{arguments}")
        return Undecidable(
            text, columns, reason="it is not a FIELD_REF: indexes hold the values of columns alone"
        )
    column = _column(transform.get("fieldRef"))
    text = shorten(f"{function} of {column}")
    if function == _NOT_BETWEEN:
        return Not(Leaf(Operator.BETWEEN, column, literals, text))
    if function not in _LITERALS:
        return Undecidable(text, (column,), reason=f"{shorten(function)} is not a supported function")
    return Leaf(Operator(function), column, literals, text)


def _literals(function: str, written: object, count: LiteralCount) -> Sequence[Literal]:
    if written is None:
        written = []
    match written:
        case list():
            count.add(len(written))
            read = listed_literals(LiteralKind.JSON, written)
        case {"$arrow": _}:
            raise FilterError(NO_ARROW)
        case _:
            raise FilterError(f"the literals of {shorten(function)} are an array, not {_sketch(written)}")
    count_expected = _LITERALS.get(Operator.BETWEEN if function == _NOT_BETWEEN else function, _ANY_NUMBER)  # type: ignore[call-overload]
    if count_expected not in (_ANY_NUMBER, len(read)):
        raise FilterError(f"{function} takes {count_expected} literals, found {len(read)}")
    return read


def _column(written: object) -> ColumnName:
    match written:
        case {"name": str(name)}:
            return ColumnName((name,))
        case _:
            raise FilterError('a FIELD_REF transform has a fieldRef object with the column\'s "name"')


def _referred(transform: Mapping[object, object]) -> Iterator[ColumnName]:
    """Yield columns that a transform other than FIELD_REF refers to, at any depth."""
    pending: list[object] = list(transform.values())
    while pending:
        match pending.pop():
            case {"index": int(), "name": str(name)}:
                yield ColumnName((name,))
            case dict(members):
                pending.extend(members.values())
            case list(elements):
                pending.extend(elements)
            case _:
                pass


def _sketch(written: object) -> str:
    return (
        f"an object of kind {shorten(repr(written.get('kind')))}"
        if isinstance(written, dict)
        else (f"a JSON {type(written).__name__}")
    )
