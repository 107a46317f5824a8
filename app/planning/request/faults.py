"""Faults of a request's members, explained in the words of the contract instead of a library's."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from app.suggestions import SYNONYMS, alike, hint

_MOST_FAULTS: Final = 5
_MOST_CHARACTERS: Final = 50
# Expected form, by the first word of pydantic's name of a fault.
_EXPECTED: Final = {
    "bool": "true or false",
    "dict": "an object",
    "float": "a number",
    "int": "a whole number",
    "list": "a list",
    "model": "an object",
    "string": "a text",
}
_WRONG_FORM: Final = re.compile(
    r"(bool|dict|float|int|list|model|string)_(?:attributes_)?(?:type|parsing|parsing_size|from_float)"
)
# Members of earlier releases, and what to send now.
_GONE: Final = {
    "alias": ": columns are qualified by the table's own name, if at all",
    "time_zone": ": write instants with an offset, such as 2025-08-01T12:30:00Z or +05:30 at their end",
}
# Pydantic's names for the alternatives of a union.
_FORMS: Final = re.compile(r"str|int|float|bool|(?:dict|list)\[.*\]")
_NAMED: Final = re.compile(r"'([^']*)'")


def refuse_unknown(model: type[BaseModel], members: Mapping[str, object], label: str) -> None:
    """Raise for the first member that a model does not have, with a suggestion."""
    allowed = sorted(field.alias or name for name, field in model.model_fields.items())
    for name in members:
        if name not in allowed:
            suggestion = _GONE.get(name) or hint(name, allowed, plural=f"{label}s", also=SYNONYMS)
            raise PydanticCustomError(
                "unknown", "{text}", {"text": f"there is no {label} {name[:_MOST_CHARACTERS]!r}{suggestion}"}
            )


def explain_faults(faults: Sequence[Mapping[str, Any]], fields: Mapping[str, FieldInfo] | None = None) -> str:
    """Return one line that names each faulty member, the expected form, and the value found."""
    by_place: dict[str, list[Mapping[str, Any]]] = {}
    for fault in faults:
        place = ".".join(_places(fault["loc"]))
        by_place.setdefault(place, []).append(fault)
    sentences = [
        _explain(place, faults_of_place, fields or {}) for place, faults_of_place in by_place.items()
    ]
    return "; ".join(sentences[:_MOST_FAULTS])


def _places(loc: Sequence[object]) -> Iterator[str]:
    names = loc[1:] if loc and loc[0] in ("query", "path") else loc
    return (str(name) for name in names if not _FORMS.fullmatch(str(name)))


def _explain(place: str, faults: Sequence[Mapping[str, Any]], fields: Mapping[str, FieldInfo]) -> str:
    forms = [_WRONG_FORM.fullmatch(fault["type"]) for fault in faults]
    expected = dict.fromkeys(_EXPECTED[form[1]] for form in forms if form)
    if not all(forms):
        text = _other(faults[0])
    else:
        text = f"expected {' or '.join(expected)}, found {_actual(faults[0])}"
        name = place.partition(".")[0]
        examples = (field.examples for key, field in fields.items() if (field.alias or key) == name)
        example = next(examples, None)
        if example:
            text += f'; an example: "{name}": {json.dumps(example[0])}'
    return f"{place}: {text}" if place else text


def _other(fault: Mapping[str, Any]) -> str:
    context: Mapping[str, Any] = fault.get("ctx", {})
    match fault["type"]:
        case "missing":
            return "is missing"
        case "literal_error":
            names = _NAMED.findall(context["expected"])
            meant = alike(str(fault["input"]), names)
            suggestion = f": did you mean {meant[0]!r}?" if meant else ""
            return f"expected one of {', '.join(names)}, found {_actual(fault)}{suggestion}"
        case "greater_than_equal":
            return f"must be at least {context['ge']}, found {_actual(fault)}"
        case "less_than_equal":
            return f"must be at most {context['le']}, found {_actual(fault)}"
        case "less_than":
            return f"must be less than {context['lt']}, found {_actual(fault)}"
        case "string_too_short":
            return "must not be empty"
        case "too_short":
            return f"must have at least {context['min_length']} entry, found {context['actual_length']}"
        case _:
            return str(fault["msg"]).removeprefix("Value error, ")


def _actual(fault: Mapping[str, Any]) -> str:
    match fault["input"]:
        case dict():
            return "an object"
        case list() | tuple():
            return "a list"
        case value:
            text = json.dumps(value, default=str, ensure_ascii=False)
            return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."
