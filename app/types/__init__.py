"""Paimon's data types, the values they hold, and the order those stand in."""

from app.types.data_types import DataField, DataType, TypeRoot, parse_type
from app.types.json_answers import Json, to_json, type_json
from app.types.json_values import parse_json
from app.types.values import Value, sql_key

__all__ = [
    "DataField",
    "DataType",
    "Json",
    "TypeRoot",
    "Value",
    "parse_json",
    "parse_type",
    "sql_key",
    "to_json",
    "type_json",
]
