"""Avro schemas as releases before 0.9 wrote them: every record is a union with null."""

from __future__ import annotations

from typing import Any


def with_unions(schema: Any, *, null_first: bool = True) -> Any:
    """The schema with each of its records, the outermost too, in a union with null."""
    match schema:
        case {"type": "record", "fields": fields}:
            record = {**schema, "fields": [_field(each, null_first=null_first) for each in fields]}
            return ["null", record] if null_first else [record, "null"]
        case {"type": "array", "items": items}:
            return {"type": "array", "items": with_unions(items, null_first=null_first)}
        case ["null", {"type": "record"} as inner]:
            return with_unions(inner)
        case ["null", inner]:
            return ["null", with_unions(inner, null_first=null_first)]
        case _:
            return schema


def _field(field: dict[str, Any], *, null_first: bool) -> dict[str, Any]:
    kept = {name: value for name, value in field.items() if name != "default"}
    return {**kept, "type": with_unions(field["type"], null_first=null_first)}


def without_fields(schema: Any, names: set[str]) -> Any:
    """The schema before fields of these names came into any of its records."""
    match schema:
        case {"type": "record", "fields": fields}:
            kept = [each for each in fields if each["name"] not in names]
            return {
                **schema,
                "fields": [{**each, "type": without_fields(each["type"], names)} for each in kept],
            }
        case {"type": "array", "items": items}:
            return {"type": "array", "items": without_fields(items, names)}
        case [*branches]:
            return [without_fields(each, names) for each in branches]
        case _:
            return schema
