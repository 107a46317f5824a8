"""Checks the schema of an Avro file against the records that a reader expects.

An Avro file brings its own schema, and a decoder obeys it: a record that contains itself recurses without
reading a byte, an array of nulls yields as many items as it claims, and one byte for an absent record of a
thousand numbers becomes a thousand numbers in columns. So every expected field must have the expected type (a
nullable one may be absent, since older writers lack it), and no part of the schema may refer to itself, take
no bytes, or be a wide nullable record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import orjson

from app.errors import CorruptMetadataError
from app.table.records.columns import ArrayOf, Expected, Nullable, RecordOf

# Releases up to 0.8.2 write every record as a union with null, also the outermost one, and never write null.
# A union is a branch number (long) and the value, so it is decoded as a record with this field in front, an
# int that must be the branch that is not null.
BRANCH: Final = "_BRANCH"

# Types without parts; each value takes at least one byte.
PRIMITIVES: Final = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string"})

_WIDENED = {"long": "int", "double": "float", "timestamp-millis": "long"}
_MAX_NODES = 2_000
MAX_DEPTH = 32
_MAX_TEXT_BYTES = 1 << 20
# Columns that a single byte can make null; a deletion vector range has four.
_MAX_ABSENT_COLUMNS = 8


@dataclass(frozen=True, slots=True)
class UnionRecord:
    """Required record that is written as a union with null."""

    # Names of the fields that lead to it; empty for the outermost record.
    path: tuple[str, ...]
    # Number of the branch with the record; the other one is null.
    branch: int


@dataclass(frozen=True, slots=True)
class ReadingSchema:
    """Schema to decode the records of a file with."""

    text: bytes
    unions: tuple[UnionRecord, ...]


def read_schema(text: bytes) -> Any:
    """Parse the schema text of a file, without judging it."""
    if len(text) > _MAX_TEXT_BYTES:
        raise CorruptMetadataError(
            f"expected an Avro schema of at most {_MAX_TEXT_BYTES} bytes, found {len(text)}"
        )
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise CorruptMetadataError(f"the Avro schema is not JSON: {error}") from error


@lru_cache(maxsize=64)
def reading_schema(text: bytes, expected: RecordOf) -> ReadingSchema:
    """Return the schema to decode with, once the file's own is found harmless and as expected."""
    written = read_schema(text)
    fitter = _Fitter()
    fitted = fitter.fit(_Plainer().plain(written, 0), expected, ())
    _columns(fitted)
    return ReadingSchema(orjson.dumps(fitted), tuple(fitter.unions))


class _Plainer:
    """Rewrites a schema without logical types, defaults, aliases and comments, which decoding does not need.

    A record that is referred to by name is written out again, and counts again.
    """

    def __init__(self) -> None:
        self._nodes = 0
        self._records: dict[str, tuple[list[object], str]] = {}

    def plain(self, written: object, depth: int, namespace: str = "") -> Any:
        self._nodes += 1
        if self._nodes > _MAX_NODES or depth > MAX_DEPTH:
            raise CorruptMetadataError("the Avro schema is too large or nested too deeply")
        match written:
            case str() if written in PRIMITIVES:
                return written
            # A record that encloses the name is not complete.
            case str() if (
                fields_and_namespace := self._records.get(_full_name(written, namespace))
            ) is not None:
                return self._record(*fields_and_namespace, depth)
            case ["null", branch]:
                return ["null", self.plain(branch, depth + 1, namespace)]
            case [branch, "null"]:
                return [self.plain(branch, depth + 1, namespace), "null"]
            case {"type": "record", "fields": [_, *_] as fields, **named}:
                return self._defined(named, fields, depth, namespace)
            case {"type": "array", "items": items}:
                return {"type": "array", "items": self.plain(items, depth + 1, namespace)}
            case {"type": inner} if inner not in ("enum", "fixed", "map"):
                return self.plain(inner, depth + 1, namespace)
            case _:
                raise CorruptMetadataError(f"the Avro schema has an unexpected type {written!r:.100}")

    def _defined(
        self, named: Mapping[Any, object], fields: list[object], depth: int, namespace: str
    ) -> dict[str, Any]:
        within = named.get("namespace", namespace)
        name = _full_name(str(named.get("name", "")), within if isinstance(within, str) else namespace)
        namespace = name.rpartition(".")[0]
        record = self._record(fields, namespace, depth)
        self._records[name] = fields, namespace
        return record

    def _record(self, fields: list[object], namespace: str, depth: int) -> dict[str, Any]:
        # Names of records do not matter here; fresh ones cannot clash.
        record = {"type": "record", "name": f"record_{self._nodes}"}
        plain_fields = [self._field(field, depth, namespace) for field in fields]
        names = {field["name"] for field in plain_fields}
        if len(names) < len(plain_fields):
            raise CorruptMetadataError("the Avro schema has a record with two fields of one name")
        return {**record, "fields": plain_fields}

    def _field(self, field: object, depth: int, namespace: str) -> dict[str, Any]:
        match field:
            case {"name": str(name), "type": written}:
                return {"name": name, "type": self.plain(written, depth + 1, namespace)}
            case _:
                raise CorruptMetadataError(
                    f"the Avro schema has a field without name or type: {field!r:.100}"
                )


def _full_name(name: str, namespace: str) -> str:
    return f"{namespace}.{name}" if namespace and "." not in name else name


def _columns(plain: object) -> int:
    """Count the columns of a type, arrays as one. Refuse wide nullable records."""
    match plain:
        case {"type": "record", "fields": [*fields]}:
            return sum(_columns(field["type"]) for field in fields)
        case {"type": "array", "items": items}:
            _columns(items)
        case ["null", branch] | [branch, "null"]:
            columns = _columns(branch)
            if columns > _MAX_ABSENT_COLUMNS:
                raise CorruptMetadataError(
                    f"the Avro schema has a record of {columns} columns that can be null"
                )
    return 1


class _Fitter:
    def __init__(self) -> None:
        self.unions: list[UnionRecord] = []

    def fit(self, written: Any, expected: Expected, path: tuple[str, ...]) -> Any:
        """Return the schema with :data:`BRANCH` in front of required records that are unions with null."""
        match expected, written:
            case Nullable(inner), list():
                return [branch if branch == "null" else self.fit(branch, inner, path) for branch in written]
            case Nullable(inner), _:
                return self.fit(written, inner, path)
            case ArrayOf(expected_items), {"type": "array", "items": items}:
                return {"type": "array", "items": self.fit(items, expected_items, (*path, "[]"))}
            case RecordOf(), ["null", record] | [record, "null"] if "[]" not in path:
                self.unions.append(UnionRecord(path, written.index(record)))
                return _with_branch(self.fit(record, expected, path))
            case RecordOf(expected_fields), {"type": "record", "fields": [*fields]}:
                return {**written, "fields": self._fit_fields(fields, expected_fields, path)}
            case str(), _ if written in (expected, _WIDENED.get(expected)):
                return written
            case _:
                raise CorruptMetadataError(
                    f"expected {_dotted(path)} to be {expected}, found {written!r:.100}"
                )

    def _fit_fields(
        self, fields: list[Any], expected: Mapping[str, Expected], path: tuple[str, ...]
    ) -> list[Any]:
        written = {field["name"] for field in fields}
        for name, field_type in expected.items():
            if name not in written and not isinstance(field_type, Nullable):
                raise CorruptMetadataError(f"expected a field {_dotted((*path, name))}, found none")
        return [
            {"name": name, "type": self.fit(field["type"], expected[name], (*path, name))}
            if (name := field["name"]) in expected
            else field
            for field in fields
        ]


def _with_branch(record: dict[str, Any]) -> dict[str, Any]:
    fields = record["fields"]
    if any(field["name"] == BRANCH for field in fields):
        raise CorruptMetadataError(f"the Avro schema has a field {BRANCH} that no writer writes")
    return {**record, "fields": [{"name": BRANCH, "type": "int"}, *fields]}


def _dotted(path: tuple[str, ...]) -> str:
    return ".".join(("record", *path)).replace(".[]", "[]")
