"""Schemas: ``schema/schema-<id>``, one JSON document per change of columns or options.

================  ==============================================================================
member            meaning
================  ==============================================================================
version           1 (or absent), 2 or 3; older ones had other defaults, see below
id                number of the schema, from 0
fields            columns: ``id`` (for ever), ``name``, ``type``, ``description``
highestFieldId    highest id of a column so far: a dropped column's id is never given again
partitionKeys     names
primaryKeys       names; none: an append table
options           strings by name
comment           of the table
timeMillis        when it was committed
================  ==============================================================================

Before version 2 a table had one bucket unless it said otherwise, before version 3 its files were ORC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple, Self

from app.errors import CorruptMetadataError, RequestError
from app.options import BUCKET_KEY, POSTPONED_BUCKETS, UNBOUNDED_BUCKETS, MergeEngine, TableOptions
from app.table.decoding import JsonObject
from app.types import DataField, parse_type
from app.types.digest import content_digest

_VERSION_07 = 1
_VERSION_08 = 2

_KEY_ID = 0x3FFFFFFF
_SEQUENCE_NUMBER = DataField(0x7FFFFFFE, "_SEQUENCE_NUMBER", parse_type("BIGINT NOT NULL"))
_VALUE_KIND = DataField(0x7FFFFFFD, "_VALUE_KIND", parse_type("TINYINT NOT NULL"))


class BucketMode(StrEnum):
    """Rule that assigns rows to buckets."""

    HASH_FIXED = "HASH_FIXED"
    HASH_DYNAMIC = "HASH_DYNAMIC"
    # Dynamic, and a key may move between partitions: the primary key lacks a partition column.
    CROSS_PARTITION = "CROSS_PARTITION"
    # Append table without buckets: every file is in bucket 0.
    BUCKET_UNAWARE = "BUCKET_UNAWARE"
    # Rows wait in bucket -2 until a compaction assigns them.
    POSTPONE_MODE = "POSTPONE_MODE"


class SchemaIds(NamedTuple):
    """Numbers of the schemas that give a version its columns and its options.

    They differ for an older version, which has its own columns under the newest options.
    """

    columns: int
    options: int


@dataclass(frozen=True)
class TableSchema:
    """Schema of a table, with the defaults of its version."""

    id: int
    fields: tuple[DataField, ...]
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: TableOptions = field(default_factory=lambda: TableOptions({}))
    comment: str | None = None
    # Commit time; 0 if not recorded.
    time_millis: int = 0
    # Number of the schema that the options come from, if another one.
    options_id: int | None = None
    # Digest of all files that the schema was read from.
    digest: str = ""
    by_id: Mapping[int, DataField] = field(init=False, repr=False, compare=False)
    by_name: Mapping[str, DataField] = field(init=False, repr=False, compare=False)
    nbytes: int = field(default=0, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_id", MappingProxyType({column.id: column for column in self.fields}))
        object.__setattr__(self, "by_name", MappingProxyType({column.name: column for column in self.fields}))
        if not len(self.by_id) == len(self.by_name) == len(self.fields):
            raise CorruptMetadataError(f"schema {self.id} has two columns of one name or id")
        for name in (*self.partition_keys, *self.primary_keys, *self.options.bucket_key):
            if name not in self.by_name:
                raise CorruptMetadataError(
                    f"schema {self.id} names a key column {name!r} that it does not have"
                )

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Parse a schema file."""
        document = JsonObject.read(data, "a schema")
        version = document.integer("version", _VERSION_07)
        options = document.text_map("options")
        # Writers of that release did not store its defaults.
        if version <= _VERSION_07:
            options.setdefault("bucket", "1")
        if version <= _VERSION_08:
            options.setdefault("file.format", "orc")
        return cls(
            id=document.integer("id"),
            fields=tuple(_parse_field(column) for column in document.objects("fields")),
            partition_keys=document.texts("partitionKeys"),
            primary_keys=document.texts("primaryKeys"),
            options=TableOptions(MappingProxyType(options)),
            comment=document.optional_text("comment"),
            time_millis=document.integer("timeMillis", 0),
            digest=content_digest(data),
            nbytes=_MEMORY_PER_BYTE * len(data),
        )

    def with_options_of(self, other: Self) -> Self:
        """Return the columns of this schema under the options of another schema of the table."""
        if other.id == self.id:
            return other
        # The bucket key stays: the option names columns as they were called in this schema.
        options = {name: value for name, value in other.options.values.items() if name != BUCKET_KEY}
        if BUCKET_KEY in self.options.values:
            options[BUCKET_KEY] = self.options.values[BUCKET_KEY]
        return replace(
            self,
            options=TableOptions(MappingProxyType(options)),
            options_id=other.ids.options,
            digest=content_digest(self.digest.encode(), other.digest.encode()),
            nbytes=self.nbytes + other.nbytes,
        )

    @property
    def ids(self) -> SchemaIds:
        """Numbers of the schemas that columns and options come from."""
        return SchemaIds(self.id, self.id if self.options_id is None else self.options_id)

    @cached_property
    def partition_fields(self) -> tuple[DataField, ...]:
        """Partition columns, in the order of directories and partition rows."""
        return self._named(self.partition_keys)

    @cached_property
    def trimmed_primary_keys(self) -> tuple[DataField, ...]:
        """Primary key without partition columns: the key within files and dynamic buckets."""
        return self._named(name for name in self.primary_keys if name not in self.partition_keys)

    @cached_property
    def system_columns(self) -> tuple[DataField, ...]:
        """Columns before the table's own in Parquet files of primary key tables, with the engine's ids."""
        if not self.primary_keys:
            return ()
        keys = (
            DataField(_KEY_ID + column.id, f"_KEY_{column.name}", replace(column.type, nullable=False))
            for column in self.trimmed_primary_keys
        )
        # _VALUE_KIND is 0 for +I, 1 for -U, 2 for +U, 3 for -D.
        return (*keys, _SEQUENCE_NUMBER, _VALUE_KIND)

    @cached_property
    def bucket_key(self) -> tuple[DataField, ...]:
        """Columns whose hash selects a fixed bucket, empty if rows are not hashed."""
        return self._named(self.options.bucket_key) or self.trimmed_primary_keys

    @cached_property
    def bucket_mode(self) -> BucketMode:
        """Rule that assigns rows to buckets."""
        match self.options.bucket:
            case n if n == POSTPONED_BUCKETS:
                return BucketMode.POSTPONE_MODE
            case n if n != UNBOUNDED_BUCKETS:
                return BucketMode.HASH_FIXED
            case _ if not self.primary_keys:
                return BucketMode.BUCKET_UNAWARE
            case _ if set(self.partition_keys) <= set(self.primary_keys):
                return BucketMode.HASH_DYNAMIC
            case _:
                return BucketMode.CROSS_PARTITION

    @cached_property
    def counts_rows(self) -> bool:
        """True for tables of releases 0.4 and 0.5 whose files count equal rows, each row being a key."""
        return self.options.change_log and not self.primary_keys

    @cached_property
    def merge_engine(self) -> MergeEngine | None:
        """Merge engine. None for append tables."""
        return self.options.merge_engine if self.primary_keys else None

    @cached_property
    def keeps_one_version(self) -> bool:
        """True if compacted files of a primary key table hold at most one live version of each key."""
        return self.options.deletion_vectors or self.merge_engine is MergeEngine.FIRST_ROW

    @cached_property
    def hides_level_zero(self) -> bool:
        """True if batch reads of a primary key table ignore level 0: they see rows once compacted."""
        if not self.primary_keys:
            return False
        if self.options.deletion_vectors:
            return not self.options.merge_on_read
        return self.merge_engine is MergeEngine.FIRST_ROW

    def _named(self, names: Iterable[str]) -> tuple[DataField, ...]:
        return tuple(self.by_name[name] for name in names)


# Parsed JSON of short strings takes several times the memory of its text.
_MEMORY_PER_BYTE = 8


def _parse_field(column: JsonObject) -> DataField:
    name, written = column.text("name"), column.member("type")
    if not isinstance(written, str | dict):
        raise CorruptMetadataError(f"column {name!r} must have a type, found {written!r:.50}")
    try:
        data_type = parse_type(written)
    except RequestError as error:
        raise CorruptMetadataError(f"column {name!r}: {error}") from error
    return DataField(column.integer("id"), name, data_type, column.optional_text("description"))
