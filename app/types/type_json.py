"""Types as Paimon's schema files write them: simple ones as text, nested ones as JSON objects.

::

    "DECIMAL(9, 2) NOT NULL"
    {"type": "ARRAY", "element": T}, {"type": "MULTISET", "element": T}
    {"type": "MAP NOT NULL", "key": T, "value": T}
    {"type": "ROW", "fields": [{"id": 4, "name": "city", "type": T, "description": "..."}]}
"""

from __future__ import annotations

from app.types.data_types import DataField, DataType, TypeRoot
from app.types.json_answers import Json


def type_json(data_type: DataType) -> str | dict[str, Json]:
    """A type in this form; one that has no inner types, or does not tell them, is text."""
    name = data_type.root.value + ("" if data_type.nullable else " NOT NULL")
    match data_type.root:
        case TypeRoot.ARRAY | TypeRoot.MULTISET:
            return {"type": name, "element": type_json(data_type.children[0])}
        case TypeRoot.MAP:
            key, value = data_type.children
            return {"type": name, "key": type_json(key), "value": type_json(value)}
        case TypeRoot.ROW if data_type.fields:
            return {"type": name, "fields": [_field_json(field) for field in data_type.fields]}
        case _:
            return str(data_type)


def _field_json(field: DataField) -> Json:
    written: dict[str, Json] = {"id": field.id, "name": field.name, "type": type_json(field.type)}
    if field.description is not None:
        written["description"] = field.description
    return written
