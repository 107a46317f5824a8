"""What a reader expects of an Avro file's records, held against the schema that the file was written with.

An Avro file names its own schema, and a decoder does what that says: a record that contains itself recurses
without reading a byte, an array of nulls yields as many items as it claims, and one byte that stands for an
absent record of a thousand numbers becomes a thousand numbers in columns. So the schema is judged before it
is used: every expected field must have the expected type (it may be absent if it is nullable, since older
writers omit what they did not know), and no part of it, expected or not, may refer to itself, take no bytes
or be a wide record that can be null.

Releases up to 0.8.2 write every record as a union with null, the outermost one too, and never write null. A
union is the number of its branch (a ``long``) and the value, so such a record is decoded as a record with one
more ``int`` in front, :data:`BRANCH`, which has to be the number of the branch that is not null.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import orjson

from app.errors import CorruptMetadataError
from app.table.records.columns import ArrayOf, Expected, Nullable, RecordOf

BRANCH: Final = "_BRANCH"
"""The field that is put in front of a record that is written as a union with null."""


@dataclass(frozen=True, slots=True)
class UnionRecord:
    """A required record that is written as a union with null.

    Attributes:
        path: names of the fields that lead to it; none for the outermost record.
        branch: number of the branch that is the record; the other one is null.
    """

    path: tuple[str, ...]
    branch: int


@dataclass(frozen=True, slots=True)
class ReadingSchema:
    """What the records of a file are decoded with."""

    text: bytes
    unions: tuple[UnionRecord, ...]


PRIMITIVES: Final = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string"})
"""Types without parts; each value takes a byte at least."""

_WIDENED = {"long": "int", "double": "float", "timestamp-millis": "long"}
_MAX_NODES = 2_000
MAX_DEPTH = 32
_MAX_TEXT_BYTES = 1 << 20
_MAX_ABSENT_COLUMNS = 8
"""Columns of a record that can be null, as a single byte says: a deletion vector range has four."""


def read_schema(text: bytes) -> Any:
    """The schema that a file names, not judged yet."""
    if len(text) > _MAX_TEXT_BYTES:
        raise CorruptMetadataError(f"an Avro schema of {len(text)} bytes")
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise CorruptMetadataError(f"the Avro schema is not JSON: {error}") from error


@lru_cache(maxsize=64)
def reading_schema(text: bytes, expected: RecordOf) -> ReadingSchema:
    """The schema to decode records with, once theirs is found harmless and as expected."""
    written = read_schema(text)
    fitter = _Fitter()
    fitted = fitter.fit(_Plainer().plain(written, 0), expected, ())
    _columns(fitted)
    return ReadingSchema(orjson.dumps(fitted), tuple(fitter.unions))


class _Plainer:
    """Rewrites a schema without what is not needed to decode: logical types, defaults, aliases, comments.

    A record that is named again is written out again, and counts again.
    """

    def __init__(self) -> None:
        self._nodes = 0
        self._records: dict[str, tuple[list[object], str]] = {}
        """Fields and namespace of the records that are complete, by their full names."""

    def plain(self, written: object, depth: int, namespace: str = "") -> Any:
        self._nodes += 1
        if self._nodes > _MAX_NODES or depth > MAX_DEPTH:
            raise CorruptMetadataError("the Avro schema is too large or nested too deeply")
        match written:
            case str() if written in PRIMITIVES:
                return written
            # A record that encloses the name is not complete.
            case str() if (known := self._records.get(_full_name(written, namespace))) is not None:
                return self._record(*known, depth)
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
        # Names of records matter to nobody here; fresh ones cannot clash.
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
    """How many columns a type has, arrays counted as one; refuses wide records that can be null."""
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
    """Holds a plain schema against what is expected of it."""

    def __init__(self) -> None:
        self.unions: list[UnionRecord] = []

    def fit(self, written: Any, expected: Expected, path: tuple[str, ...]) -> Any:
        """The schema with a :data:`BRANCH` in front of required records that are unions with null."""
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
