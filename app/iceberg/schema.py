"""Schemas in Iceberg's form: ids, types, identifiers and partition fields.

==============================  ================  ====================================================
Paimon                          Iceberg           remark
==============================  ================  ====================================================
BOOLEAN, FLOAT, DOUBLE, DATE    equal names
TINYINT, SMALLINT, INT          int
BIGINT                          long
DECIMAL(p, s)                   decimal(p, s)
CHAR, VARCHAR                   string            CHAR as it is stored, padded or not
BINARY, VARBINARY               binary
TIMESTAMP(4..6)                 timestamp
TIMESTAMP_LTZ(4..6)             timestamptz
TIMESTAMP[_LTZ](0..3)           timestamp[tz]     only for clients that announce it, see below
TIMESTAMP[_LTZ](7..9)                             stored in a form of which readers lose digits or years
ARRAY, MAP, ROW                 list, map, struct
TIME                                              stored in milliseconds, which Iceberg does not have
MULTISET, VARIANT, BLOB ...                       Iceberg has none, or stores another form
==============================  ================  ====================================================

The engine stores timestamps of up to three digits in milliseconds. Iceberg's Java readers (1.11) take them
for microseconds: they show wrong values, and skip row groups that match. PyIceberg reads them correctly. A
request does not reveal its client, so the client has to announce it.

Fields keep their ids. A schema has no ids for elements, keys and values. In Parquet files the engine derives
them from the column's id and the depth (:func:`inner_fields`).

A request names columns, but not their schema. A client that reads a snapshot by number uses the snapshot's
schema, or the table's when it loaded it. PyIceberg 0.12 uses both in one scan. A name therefore means a
column only if it is one column, of one type, in every schema that has the name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from app.errors import FilterError
from app.suggestions import hint
from app.table import TableSchema
from app.types import FLOATING_ROOTS, NESTED_ROOTS, DataField, DataType, Json, TypeRoot
from app.work import check_deadline

# Header by which a client announces what it reads correctly.
ACCEPT: Final = "X-Paimon-Accept"
# Value for timestamps in milliseconds.
MILLIS: Final = "timestamp-millis"

# Spec without fields, for files whose partition has a NULL.
UNPARTITIONED: Final = 0
# Spec of a table with partition fields.
PARTITIONED: Final = 1

_SAME: Final = {
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.TINYINT: "int",
    TypeRoot.SMALLINT: "int",
    TypeRoot.INT: "int",
    TypeRoot.BIGINT: "long",
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
    TypeRoot.CHAR: "string",
    TypeRoot.VARCHAR: "string",
    TypeRoot.BINARY: "binary",
    TypeRoot.VARBINARY: "binary",
    TypeRoot.DATE: "date",
}
_TIMESTAMPS: Final = {TypeRoot.TIMESTAMP: "timestamp", TypeRoot.TIMESTAMP_LTZ: "timestamptz"}
_MICRO_DIGITS: Final = range(4, 7)
_MILLI_DIGITS: Final = range(4)
# Types of partition fields: a value has one form, in JSON and in files.
_PARTITIONS: Final = frozenset(_SAME) - {*FLOATING_ROOTS, TypeRoot.CHAR, TypeRoot.BINARY, TypeRoot.VARBINARY}

_INNER_IDS: Final = (1 << 31) // 4 - 1
_DEPTHS: Final = 1 << 10
_FIRST_PARTITION_FIELD: Final = 1000


def schema_json(schema: TableSchema, *, millis: bool) -> dict[str, Json]:
    """Format a schema.

    Raises ValueError if Iceberg, or a client without ``millis``, lacks the type of a column.
    """
    written: dict[str, Json] = {
        "type": "struct",
        "schema-id": schema.id,
        "fields": [_field(field, millis) for field in schema.fields],
    }
    keys = [schema.by_name[name] for name in schema.primary_keys]
    if keys and all(key.type.root not in FLOATING_ROOTS and not key.type.nullable for key in keys):
        written["identifier-field-ids"] = [key.id for key in keys]
    return written


def same_type(one: DataField, other: DataField) -> bool:
    """Return True if clients see one type in two forms of a column."""
    try:
        return _type(one, millis=True) == _type(other, millis=True)
    except ValueError:
        return False


def last_column_id(schema: TableSchema) -> int:
    """Return the highest id of a field, element, key or value."""
    return max((number for number, _ in names_by_id(schema.fields)), default=0)


def partition_fields(schema: TableSchema) -> list[DataField]:
    """List the partition columns that are partition fields, in order."""
    return [field for field in schema.partition_fields if field.type.root in _PARTITIONS]


def partition_specs(schema: TableSchema) -> list[Json]:
    """List the partition specs, the table's last."""
    fields: list[Json] = [
        {
            "source-id": field.id,
            "field-id": _FIRST_PARTITION_FIELD + at,
            "name": field.name,
            "transform": "identity",
        }
        for at, field in enumerate(partition_fields(schema))
    ]
    # The first spec is for files whose partition has a NULL, which clients cannot read in a list of values.
    # It also makes clients apply conditions on partition columns to rows.
    specs: list[Json] = [{"spec-id": UNPARTITIONED, "fields": []}]
    return [*specs, {"spec-id": PARTITIONED, "fields": fields}] if fields else specs


def last_partition_id(schema: TableSchema) -> int:
    """Return the highest id of a partition field, or one less than the first id."""
    return _FIRST_PARTITION_FIELD - 1 + len(partition_fields(schema))


def names_by_id(fields: Iterable[DataField], before: str = "") -> Iterator[tuple[int, str]]:
    """Yield every field, element, key and value with its full name, such as ``c.element.x``."""
    for field in fields:
        yield field.id, before + field.name
        yield from names_by_id(inner_fields(field), f"{before}{field.name}.")


def inner_fields(field: DataField) -> list[DataField]:
    """List the direct parts of a field: fields of a struct, or element, key and value with their ids."""
    # Ids of nested parts derive from the enclosing column, so each part passes that column's id on.
    column, depth = (field.column, field.depth) if isinstance(field, _Part) else (field.id, 0)
    parts: list[DataField] = [
        _Part(
            # The engine's numbering: from the column's id and the depth.
            _INNER_IDS + sign * (column * _DEPTHS + depth + 1),
            name,
            inner,
            column=column,
            depth=depth + 1,
        )
        for name, sign, inner in _parts(field.type)
    ]
    return [*parts, *field.type.fields]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part(DataField):
    """Element, key or value. ``column`` is the id of the enclosing struct field or column."""

    column: int
    depth: int


def _parts(data_type: DataType) -> Iterator[tuple[str, int, DataType]]:
    """Yield elements, keys and values: name, sign of their ids, type."""
    match data_type.root:
        case TypeRoot.ARRAY:
            yield "element", 1, data_type.children[0]
        case TypeRoot.MAP:
            yield "key", -1, data_type.children[0]
            yield "value", 1, data_type.children[1]
        case _:
            pass


def _field(field: DataField, millis: bool) -> dict[str, Json]:  # noqa: FBT001 - passed on
    written: dict[str, Json] = {
        "id": field.id,
        "name": field.name,
        "required": not field.type.nullable,
        "type": _type(field, millis),
    }
    if field.description is not None:
        written["doc"] = field.description
    return written


def _type(field: DataField, millis: bool) -> Json:  # noqa: FBT001 - passed on
    data_type = field.type
    root = data_type.root
    if root in _SAME:
        return _SAME[root]
    if root is TypeRoot.DECIMAL:
        return f"decimal({data_type.precision},{data_type.scale})"
    if root in _TIMESTAMPS and data_type.precision in _MICRO_DIGITS:
        return _TIMESTAMPS[root]
    if root in _TIMESTAMPS and data_type.precision in _MILLI_DIGITS:
        if millis:
            return _TIMESTAMPS[root]
        raise ValueError(
            f"column {field.name!r} is {data_type}, stored in milliseconds, which Java readers take for "
            f"microseconds; a client that reads them right, as PyIceberg does, sends the header "
            f"{ACCEPT}: {MILLIS}"
        )
    match root, inner_fields(field):
        case TypeRoot.ROW, [_, *_] as fields:
            return {"type": "struct", "fields": [_field(inner, millis) for inner in fields]}
        case TypeRoot.ARRAY, [element]:
            return {"type": "list", **_part("element", element, millis)}
        case TypeRoot.MAP, [key, value]:
            return {
                "type": "map",
                "key-id": key.id,
                "key": _type(key, millis),
                **_part("value", value, millis),
            }
    raise ValueError(f"column {field.name!r} is {data_type}, for which they have no type as it is stored")


def _part(name: str, part: DataField, millis: bool) -> dict[str, Json]:  # noqa: FBT001 - passed on
    return {f"{name}-id": part.id, name: _type(part, millis), f"{name}-required": not part.type.nullable}


_METADATA_COLUMNS: Final = frozenset(
    {"_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"}
)


@dataclass(frozen=True, slots=True)
class ColumnLookup:
    """Columns of one schema by full name, folded unless case matters, and by id. None for nested ones."""

    by_name: Mapping[str, DataField | None]
    by_id: Mapping[int, DataField | None]
    alike: frozenset[str]
    case_sensitive: bool

    @classmethod
    def of(cls, schema: TableSchema, *, case_sensitive: bool) -> ColumnLookup:
        """Index a schema."""
        fold: Callable[[str], str] = str if case_sensitive else str.lower
        within = dict(names_by_id(schema.fields))
        names: dict[str, DataField | None] = {fold(name): None for name in within.values()}
        # A column takes precedence over a nested field of that full name.
        names |= {fold(field.name): field for field in schema.fields}
        counts = Counter(fold(field.name) for field in schema.fields)
        alike = frozenset(name for name, count in counts.items() if count > 1)
        return cls(names, {**dict.fromkeys(within), **schema.by_id}, alike, case_sensitive)

    def fold(self, name: str) -> str:
        """Normalize a name for comparison."""
        return name if self.case_sensitive else name.lower()

    def named(self, name: str) -> DataField | None:
        """Resolve a name. Return None for a nested field or a metadata column.

        Raises FilterError if there is none, or more than one.
        """
        folded = self.fold(name)
        if folded in self.alike:
            raise FilterError(f"several columns are called {name!r:.200}: name one with case", column=name)
        if folded in self.by_name:
            return self.by_name[folded]
        if name in _METADATA_COLUMNS or self._is_within(folded):
            return None
        suggestion = hint(name, self.by_name, plural="columns")
        raise FilterError(f"there is no column {name!r:.200}{suggestion}", column=name)

    def of_id(self, number: int) -> DataField | None:
        """Resolve an id. Return None for a nested field. Raises FilterError if there is none."""
        if number not in self.by_id:
            raise FilterError(f"there is no field with the id {number}")
        return self.by_id[number]

    def _is_within(self, name: str) -> bool:
        """Return True if a name leads into a nested column. Java omits ``element`` and ``value``."""
        whole = [field for field in self.by_name.values() if field is not None]
        return any(
            field.type.root in NESTED_ROOTS and name.startswith(f"{self.fold(field.name)}.")
            for field in whole
        )


@dataclass(frozen=True, slots=True)
class ReadColumns:
    """Columns of all schemas that a client may use. ``planned`` is the first of ``every``."""

    planned: TableSchema
    every: Sequence[ColumnLookup]

    @classmethod
    def of(cls, schemas: Sequence[TableSchema], *, case_sensitive: bool) -> ReadColumns:
        """Index schemas. The first is that of the plan."""
        planned, *further = schemas
        every = [ColumnLookup.of(planned, case_sensitive=case_sensitive)]
        for schema in further:
            check_deadline()
            # Most schemas differ only in options.
            if schema.fields != planned.fields:
                every.append(ColumnLookup.of(schema, case_sensitive=case_sensitive))
        return cls(planned, every)

    def named(self, name: str) -> DataField | None:
        """Resolve a name. Return None unless it is one column in all schemas.

        Raises FilterError if no schema has it.
        """
        return self._one_of(lambda columns: columns.named(name))

    def of_id(self, number: int) -> DataField | None:
        """Resolve an id. Return None unless it is one column in all schemas.

        Raises FilterError if no schema has it.
        """
        return self._one_of(lambda columns: columns.of_id(number))

    def listed(self, names: Sequence[str]) -> list[DataField]:
        """List the planned columns that ``names`` resolve to. Nested and unknown names are omitted."""
        # Loops run over columns, since names may be many, repeated or unknown.
        folded_names = set(map(self.every[0].fold, names))
        ids = {
            field.id
            for columns in self.every
            for name, field in columns.by_name.items()
            if field is not None and name in folded_names
        }
        return [field for field in self.planned.fields if field.id in ids and self.of_id(field.id)]

    def _one_of(self, look_up: Callable[[ColumnLookup], DataField | None]) -> DataField | None:
        candidates: list[DataField | None] = []
        refusals: list[FilterError] = []
        for columns in self.every:
            try:
                candidates.append(look_up(columns))
            except FilterError as error:
                # No client that uses this schema can have sent the name.
                refusals.append(error)
        if not candidates:
            raise refusals[0]
        first = candidates[0]
        present = None if first is None else self.planned.by_id.get(first.id)
        if present is None or not all(
            field is not None and field.id == present.id and same_type(field, present) for field in candidates
        ):
            return None
        return present
