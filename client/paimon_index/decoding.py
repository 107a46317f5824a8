"""Conversion of JSON objects to dataclasses. Unknown members, of later releases, are ignored."""

from __future__ import annotations

import types
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from paimon_index.errors import IncompleteAnswerError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def decode(kind: type[T], written: object) -> T:
    """Convert a JSON object to a dataclass, and ignore members that the class lacks.

    Raises IncompleteAnswerError if a member is missing, or the value is not an object.
    """
    if not isinstance(written, dict):
        raise IncompleteAnswerError(f"expected an object of {kind.__name__}, not {type(written).__name__}")
    members = {}
    for name, convert, is_needed in _members(kind):  # type: ignore[arg-type] # it is hashable
        if name in written:
            members[name] = convert(written[name])
        elif is_needed:
            raise IncompleteAnswerError(f"the answer has no member {name}, which {kind.__name__} needs")
    return kind(**members)


@cache
def _members(kind: Any) -> tuple[tuple[str, Callable[[Any], Any], bool], ...]:
    hints = get_type_hints(kind)
    return tuple(
        (field.name, _converter(hints[field.name]), field.default is MISSING) for field in fields(kind)
    )


def _converter(hint: Any) -> Callable[[Any], Any]:
    if is_dataclass(hint):
        return partial(decode, hint)  # type: ignore[arg-type]
    if get_origin(hint) in (Union, types.UnionType) and type(None) in get_args(hint):
        inner = [_converter(part) for part in get_args(hint) if part is not type(None)]
        # Other unions hold plain JSON.
        only = inner[0] if len(inner) == 1 else _as_is
        return lambda value: None if value is None else only(value)
    if get_origin(hint) is tuple:
        element = _converter(get_args(hint)[0])
        return lambda value: tuple(map(element, value))
    if get_origin(hint) is dict:
        element = _converter(get_args(hint)[1])
        return lambda value: {key: element(each) for key, each in value.items()}
    return _as_is


def _as_is(value: Any) -> Any:
    return value
