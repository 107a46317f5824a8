"""Avro schemas of the metadata that the benchmark writes; the names are those of the engine."""

from __future__ import annotations

from typing import Any

_NAMESPACE = "org.apache.paimon.avro.generated"


def _optional(kind: Any) -> list[Any]:
    return ["null", kind]


def _record(suffix: str, fields: list[tuple[str, Any]]) -> dict[str, Any]:
    described = []
    for name, kind in fields:
        field = {"name": name, "type": kind}
        if isinstance(kind, list):
            field["default"] = None
        described.append(field)
    return {"type": "record", "name": f"{_NAMESPACE}.record{suffix}", "fields": described}


def _statistics(suffix: str) -> dict[str, Any]:
    counts = _optional({"type": "array", "items": ["null", "long"]})
    return _record(suffix, [("_MIN_VALUES", "bytes"), ("_MAX_VALUES", "bytes"), ("_NULL_COUNTS", counts)])


_STRINGS = {"type": "array", "items": "string"}

_DATA_FILE = _record(
    "__FILE",
    [
        ("_FILE_NAME", "string"),
        ("_FILE_SIZE", "long"),
        ("_ROW_COUNT", "long"),
        ("_MIN_KEY", "bytes"),
        ("_MAX_KEY", "bytes"),
        ("_KEY_STATS", _statistics("__FILE__KEY_STATS")),
        ("_VALUE_STATS", _statistics("__FILE__VALUE_STATS")),
        ("_MIN_SEQUENCE_NUMBER", "long"),
        ("_MAX_SEQUENCE_NUMBER", "long"),
        ("_SCHEMA_ID", "long"),
        ("_LEVEL", "int"),
        ("_EXTRA_FILES", _STRINGS),
        ("_CREATION_TIME", _optional({"type": "long", "logicalType": "timestamp-millis"})),
        ("_DELETE_ROW_COUNT", _optional("long")),
        ("_EMBEDDED_FILE_INDEX", _optional("bytes")),
        ("_FILE_SOURCE", _optional("int")),
        ("_VALUE_STATS_COLS", _optional(_STRINGS)),
        ("_EXTERNAL_PATH", _optional("string")),
        ("_FIRST_ROW_ID", _optional("long")),
        ("_WRITE_COLS", _optional(_STRINGS)),
    ],
)

MANIFEST = _record(
    "",
    [
        ("_VERSION", "int"),
        ("_KIND", "int"),
        ("_PARTITION", "bytes"),
        ("_BUCKET", "int"),
        ("_TOTAL_BUCKETS", "int"),
        ("_FILE", _DATA_FILE),
    ],
)

MANIFEST_LIST = _record(
    "",
    [
        ("_VERSION", "int"),
        ("_FILE_NAME", "string"),
        ("_FILE_SIZE", "long"),
        ("_NUM_ADDED_FILES", "long"),
        ("_NUM_DELETED_FILES", "long"),
        ("_PARTITION_STATS", _statistics("__PARTITION_STATS")),
        ("_SCHEMA_ID", "long"),
        ("_MIN_BUCKET", _optional("int")),
        ("_MAX_BUCKET", _optional("int")),
        ("_MIN_LEVEL", _optional("int")),
        ("_MAX_LEVEL", _optional("int")),
        ("_MIN_ROW_ID", _optional("long")),
        ("_MAX_ROW_ID", _optional("long")),
    ],
)

_DELETION_RANGE = _record(
    "__DELETIONS_VECTORS_RANGES",
    [("f0", "string"), ("f1", "int"), ("f2", "int"), ("_CARDINALITY", _optional("long"))],
)

INDEX_MANIFEST = _record(
    "",
    [
        ("_VERSION", "int"),
        ("_KIND", "int"),
        ("_PARTITION", "bytes"),
        ("_BUCKET", "int"),
        ("_INDEX_TYPE", "string"),
        ("_FILE_NAME", "string"),
        ("_FILE_SIZE", "long"),
        ("_ROW_COUNT", "long"),
        ("_DELETIONS_VECTORS_RANGES", _optional({"type": "array", "items": _optional(_DELETION_RANGE)})),
        ("_EXTERNAL_PATH", _optional("string")),
    ],
)
