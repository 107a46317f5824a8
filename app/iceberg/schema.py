"""Schemas as Iceberg states them: ids, types, identifiers and partition fields.

==============================  ================  ====================================================
Paimon                          Iceberg           care
==============================  ================  ====================================================
BOOLEAN, FLOAT, DOUBLE, DATE    the same
TINYINT, SMALLINT, INT          int
BIGINT                          long
DECIMAL(p, s)                   decimal(p, s)
CHAR, VARCHAR                   string            CHAR is told as it is stored, padded or not
BINARY, VARBINARY               binary
TIMESTAMP(4..6)                 timestamp
TIMESTAMP_LTZ(4..6)             timestamptz
TIMESTAMP(0..3), likewise LTZ   the same          only to a client that says that it reads them, see below
TIMESTAMP(7..9), likewise LTZ                     stored in a form of which readers lose digits or years
ARRAY, MAP, ROW                 list, map, struct
TIME                                              stored in milliseconds, which Iceberg does not have
MULTISET, VARIANT, BLOB ...                       Iceberg has none, or stores another form
==============================  ================  ====================================================

The engine stores timestamps of up to three digits in milliseconds. Iceberg's Java readers (1.11) take such
numbers for microseconds: they show wrong values, and leave out row groups that a condition allows. PyIceberg
reads them right. Nothing in a request tells how its client reads, so that one has to say it.

Fields keep their ids. Elements, keys and values have none in a schema; the engine gives them, in Parquet
files, ids that follow from the column's id and the depth: :func:`inner_fields`.

A request names columns, and does not say of which schema. Whoever reads a snapshot by its number takes the
snapshot's schema, or the one that the table had when he loaded it: PyIceberg 0.12 takes either, for one scan.
A name means a column only where it is the same column, of the same type, in every schema that has the name.
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

ACCEPT: Final = "X-Paimon-Accept"
"""The header by which a client says what it reads right."""
MILLIS: Final = "timestamp-millis"
"""That of a client that reads timestamps in milliseconds."""

UNPARTITIONED: Final = 0
"""Number of the partition spec without fields, which files have whose partition has a NULL."""
PARTITIONED: Final = 1
"""Number of the partition spec of a table with partition fields."""

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
_PARTITIONS: Final = frozenset(_SAME) - {*FLOATING_ROOTS, TypeRoot.CHAR, TypeRoot.BINARY, TypeRoot.VARBINARY}
"""Types of partition columns that are partition fields: a value has one form, in JSON and in files."""

_INNER_IDS: Final = (1 << 31) // 4 - 1
_DEPTHS: Final = 1 << 10
_FIRST_PARTITION_FIELD: Final = 1000


def schema_json(schema: TableSchema, *, millis: bool) -> dict[str, Json]:
    """A schema; ValueError where Iceberg, or a client without ``millis``, lacks the type of a column."""
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
    """Whether clients see one type in two forms of a column."""
    try:
        return _type(one, millis=True) == _type(other, millis=True)
    except ValueError:
        return False


def last_column_id(schema: TableSchema) -> int:
    """The highest id of a field, element, key or value."""
    return max((number for number, _ in names_by_id(schema.fields)), default=0)


def partition_fields(schema: TableSchema) -> list[DataField]:
    """The partition columns that are partition fields, in their order."""
    return [field for field in schema.partition_fields if field.type.root in _PARTITIONS]


def partition_specs(schema: TableSchema) -> list[Json]:
    """The partition specs, that of the table last.

    The first one is for files whose partition has a NULL, which clients do not read in a list of values. It
    also makes clients apply conditions on partition columns to rows themselves.
    """
    fields: list[Json] = [
        {
            "source-id": field.id,
            "field-id": _FIRST_PARTITION_FIELD + at,
            "name": field.name,
            "transform": "identity",
        }
        for at, field in enumerate(partition_fields(schema))
    ]
    specs: list[Json] = [{"spec-id": UNPARTITIONED, "fields": []}]
    return [*specs, {"spec-id": PARTITIONED, "fields": fields}] if fields else specs


def last_partition_id(schema: TableSchema) -> int:
    """The highest id of a partition field; one less than the first one's where there is none."""
    return _FIRST_PARTITION_FIELD - 1 + len(partition_fields(schema))


def names_by_id(fields: Iterable[DataField], before: str = "") -> Iterator[tuple[int, str]]:
    """Every field, element, key and value with its full name, such as ``c.element.x``."""
    for field in fields:
        yield field.id, before + field.name
        yield from names_by_id(inner_fields(field), f"{before}{field.name}.")


def inner_fields(field: DataField) -> list[DataField]:
    """What is right within a field: of a struct its fields, else element, key and value with their ids.

    The inner fields of such a part are counted from the column that they are in: their ids follow from its id
    and the depth. So the part's own id is given on as that of the column, see :class:`_Part`.
    """
    column, depth = (field.column, field.depth) if isinstance(field, _Part) else (field.id, 0)
    parts: list[DataField] = [
        _Part(
            # As the engine counts them, from the id of the column and the depth.
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
    """An element, key or value; ``column`` is the id of the struct's field, or column, that it is in."""

    column: int
    depth: int


def _parts(data_type: DataType) -> Iterator[tuple[str, int, DataType]]:
    """Elements, keys and values: name, side of their ids, type."""
    match data_type.root:
        case TypeRoot.ARRAY:
            yield "element", 1, data_type.children[0]
        case TypeRoot.MAP:
            yield "key", -1, data_type.children[0]
            yield "value", 1, data_type.children[1]
        case _:
            pass


def _field(field: DataField, millis: bool) -> dict[str, Json]:  # noqa: FBT001 - as above
    written: dict[str, Json] = {
        "id": field.id,
        "name": field.name,
        "required": not field.type.nullable,
        "type": _type(field, millis),
    }
    if field.description is not None:
        written["doc"] = field.description
    return written


def _type(field: DataField, millis: bool) -> Json:  # noqa: FBT001 - as above
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
    raise ValueError(f"column {field.name!r} is {data_type}, which they have no type for as it is stored")


def _part(name: str, part: DataField, millis: bool) -> dict[str, Json]:  # noqa: FBT001 - as above
    return {f"{name}-id": part.id, name: _type(part, millis), f"{name}-required": not part.type.nullable}


_METADATA_COLUMNS: Final = frozenset(
    {"_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"}
)


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of one schema by full name, folded unless case matters, and id; None: lies within one."""

    by_name: Mapping[str, DataField | None]
    by_id: Mapping[int, DataField | None]
    alike: frozenset[str]
    case_sensitive: bool

    @classmethod
    def of(cls, schema: TableSchema, *, case_sensitive: bool) -> Columns:
        """Those of a schema."""
        fold: Callable[[str], str] = str if case_sensitive else str.lower
        within = dict(names_by_id(schema.fields))
        names: dict[str, DataField | None] = {fold(name): None for name in within.values()}
        # A column goes before what is within another one and has the same name.
        names |= {fold(field.name): field for field in schema.fields}
        counts = Counter(fold(field.name) for field in schema.fields)
        alike = frozenset(name for name, count in counts.items() if count > 1)
        return cls(names, {**dict.fromkeys(within), **schema.by_id}, alike, case_sensitive)

    def fold(self, name: str) -> str:
        """A name in the form in which names are compared."""
        return name if self.case_sensitive else name.lower()

    def named(self, name: str) -> DataField | None:
        """The column of a name; None for what lies within one, and for what is no column of the table.

        Raises FilterError: there is none, or more than one.
        """
        folded = self.fold(name)
        if folded in self.alike:
            raise FilterError(f"several columns are called {name!r:.200}: name one with case", column=name)
        if folded in self.by_name:
            return self.by_name[folded]
        if name in _METADATA_COLUMNS or self._is_within(folded):
            return None
        meant = hint(name, self.by_name, what="columns")
        raise FilterError(f"there is no column {name!r:.200}{meant}", column=name)

    def of_id(self, number: int) -> DataField | None:
        """The column of an id; None for what lies within one. FilterError: there is none."""
        if number not in self.by_id:
            raise FilterError(f"there is no field with the id {number}")
        return self.by_id[number]

    def _is_within(self, name: str) -> bool:
        """Whether a name leads into a nested column; Java leaves out ``element`` and ``value``."""
        whole = [field for field in self.by_name.values() if field is not None]
        return any(
            field.type.root in NESTED_ROOTS and name.startswith(f"{self.fold(field.name)}.")
            for field in whole
        )


@dataclass(frozen=True, slots=True)
class ReadColumns:
    """The columns of all schemas that a client may read by; ``planned`` is the first of ``every``."""

    planned: TableSchema
    every: Sequence[Columns]

    @classmethod
    def of(cls, schemas: Sequence[TableSchema], *, case_sensitive: bool) -> ReadColumns:
        """Those of some schemas; the first is the one that is planned in."""
        planned, *others = schemas
        every = [Columns.of(planned, case_sensitive=case_sensitive)]
        for schema in others:
            check_deadline()
            # Most schemas differ in options alone.
            if schema.fields != planned.fields:
                every.append(Columns.of(schema, case_sensitive=case_sensitive))
        return cls(planned, every)

    def named(self, name: str) -> DataField | None:
        """The column of a name; None where that is not one column to all, or what only lies within one.

        Raises FilterError: no schema has it.
        """
        return self._one_of(lambda columns: columns.named(name))

    def of_id(self, number: int) -> DataField | None:
        """The column of an id; None where that is not one column to all. FilterError: no schema has it."""
        return self._one_of(lambda columns: columns.of_id(number))

    def listed(self, names: Sequence[str]) -> list[DataField]:
        """The planned columns that some names mean to anybody; what lies within one, or is none, is left out.

        The loops are over columns: names may be many, come twice, or be of nothing.
        """
        wanted = set(map(self.every[0].fold, names))
        ids = {
            field.id
            for columns in self.every
            for name, field in columns.by_name.items()
            if field is not None and name in wanted
        }
        return [field for field in self.planned.fields if field.id in ids and self.of_id(field.id)]

    def _one_of(self, look_up: Callable[[Columns], DataField | None]) -> DataField | None:
        candidates: list[DataField | None] = []
        refusals: list[FilterError] = []
        for columns in self.every:
            try:
                candidates.append(look_up(columns))
            except FilterError as error:
                # Nobody who reads by this schema can have asked.
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
