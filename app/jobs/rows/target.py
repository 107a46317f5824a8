"""The table to write to, as tasks receive it, and the check that the job writes it as the engine does.

A table that the job cannot write is refused before any work, with a message that names the engine.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import orjson

from app.bucket_index import BucketFunction
from app.errors import UnsupportedFormatError
from app.file_index import FileIndexOptions
from app.jobs.job_table import JobTable, Place
from app.options import DataFileOptions, DynamicBucketOptions, MergeEngine, OptionReader
from app.planning import Version
from app.table import SCHEMA_BYTES, BucketMode, TableSchema, read_small
from app.types import FLOATING_ROOTS, NESTED_ROOTS, TIMESTAMP_ROOTS, DataField, DataType, TypeRoot

_MICROSECOND_DIGITS: Final = 6
_SWITCHES: Final = {
    "data-evolution.enabled": "one row may be spread over several files",
    "row-tracking.enabled": "rows are numbered",
    "data-file.thin-mode": "files omit key columns",
    "chain-table.enabled": "partitions build on each other",
    "pk-clustering-override": "files are not sorted by key",
}
_SETTINGS: Final = {
    "data-file.external-paths": "files are outside the table",
    "rowkind.field": "a column holds the kinds of rows",
    "file.format.per.level": "formats differ by level",
    "file.compression.per.level": "compressions differ by level",
    "metadata.stats-mode.per.level": "statistics differ by level",
}


@dataclass(frozen=True, slots=True)
class Target:
    """A table to write rows to."""

    place: Place
    name: str
    directory: str
    schema_document: bytes
    has_kinds: bool = False
    run: str = field(default_factory=lambda: str(uuid.uuid4()))

    @classmethod
    def of(cls, table: JobTable, version: Version, *, has_kinds: bool) -> Target:
        """Check and describe the latest version of a table.

        Raises UnsupportedFormatError if rows cannot be written to it. The message has the reason. Raises
        RequestError if an option of the table is wrong.
        """
        directory = version.table.directory
        path = f"{directory}/schema/schema-{version.schema_id}"
        document = read_small(table.place.open(), path, SCHEMA_BYTES)
        target = cls(table.place, table.name, directory, document, has_kinds)
        _check(target)
        return target

    @property
    def schema(self) -> TableSchema:
        """The schema, decoded once in each process."""
        return _schema(self.schema_document)

    @property
    def file_options(self) -> DataFileOptions:
        """Options of new data files."""
        return DataFileOptions.parse(self.schema.options.values, has_key=bool(self.schema.primary_keys))

    @property
    def index_options(self) -> FileIndexOptions:
        """File indexes of new data files."""
        types = {column.name: column.type for column in self.schema.fields}
        return FileIndexOptions.parse(self.schema.options.values, types)

    @property
    def hash_fields(self) -> tuple[DataField, ...]:
        """Columns whose hash decides the bucket."""
        schema = self.schema
        match schema.bucket_mode:
            case BucketMode.HASH_FIXED:
                return schema.bucket_key
            case BucketMode.HASH_DYNAMIC:
                return schema.trimmed_primary_keys
            case _:
                return ()

    @property
    def keeps_first(self) -> bool:
        """True if the first row of a key wins instead of the last one."""
        return self.schema.merge_engine is MergeEngine.FIRST_ROW

    @property
    def merges_rows(self) -> bool:
        """True if the merge engine makes a new row from the rows of a key."""
        return self.schema.merge_engine in (MergeEngine.AGGREGATION, MergeEngine.PARTIAL_UPDATE)

    @property
    def waits_for_compaction(self) -> bool:
        """True if batch reads see new rows only after a compaction."""
        return self.schema.hides_level_zero


@cache
def _schema(document: bytes) -> TableSchema:
    return TableSchema.read(document)


def _check(target: Target) -> None:
    options = target.schema.options
    reader = OptionReader(options.values, given=True)
    for name, why in _SWITCHES.items():
        if reader.boolean(name, default=False):
            raise _refused(target, f"{why} ({name})")
    for name, why in _SETTINGS.items():
        if options.values.get(name, "").strip():
            raise _refused(target, f"{why} ({name})")
    written = options.values.get("file.format", "parquet").strip().lower()
    if written != "parquet":
        raise _refused(target, f"data files are {written}, and jobs write Parquet only")
    if target.schema.counts_rows:
        raise _refused(target, "files count equal rows (write-mode)")
    _check_buckets(target)
    if target.schema.primary_keys:
        _check_keyed(target, reader)
    elif target.has_kinds:
        raise _refused(target, "it has no primary key, so that rows cannot be deleted by key")
    _check_columns(target)
    # Parsing raises for wrong options before any work is done.
    _ = target.file_options, target.index_options


def _check_buckets(target: Target) -> None:
    options = target.schema.options
    match target.schema.bucket_mode:
        case BucketMode.CROSS_PARTITION:
            raise _refused(
                target, "keys may move between partitions, as the primary key lacks a partition column"
            )
        case BucketMode.POSTPONE_MODE:
            raise _refused(target, "rows wait for their bucket (bucket=-2)")
        case BucketMode.HASH_DYNAMIC:
            DynamicBucketOptions.parse(options.values)
        case BucketMode.HASH_FIXED if options.bucket < 1:
            raise _refused(target, f"bucket={options.bucket}")
        case BucketMode.HASH_FIXED if options.bucket_function not in set(BucketFunction):
            raise _refused(target, f"the bucket function is {options.bucket_function!r}")
        case _:
            pass


def _check_keyed(target: Target, reader: OptionReader) -> None:
    schema = target.schema
    engine, values = schema.options.merge_engine, schema.options.values
    producer = values.get("changelog-producer", "none").strip().lower()
    if producer != "none":
        raise _refused(target, f"the table records a changelog (changelog-producer={producer})")
    if not target.has_kinds:
        return
    if engine is not MergeEngine.DEDUPLICATE:
        raise _refused(target, f"rows have kinds, and its merge engine is {engine}")
    for name in values:
        is_filter = name == "ignore-update-before" or name.endswith("ignore-delete")
        if is_filter and reader.boolean(name, default=False):
            raise _refused(target, f"rows have kinds, and the table ignores some of them ({name})")


def _check_columns(target: Target) -> None:
    schema = target.schema
    for column in orjson.loads(target.schema_document)["fields"]:
        if column.get("defaultValue") is not None:
            raise _refused(target, f"column {column['name']!r} has a default value")
    for column in schema.fields:
        _check_type(target, column.name, column.type)
    keyed = {*schema.primary_keys, *schema.partition_keys, *(field.name for field in target.hash_fields)}
    for name in sorted(keyed):
        if schema.by_name[name].type.root is TypeRoot.CHAR:
            raise _refused(
                target, f"key column {name!r} is CHAR, which some writers pad with blanks and others do not"
            )
    ordered = (*(field.name for field in schema.trimmed_primary_keys), *target.file_options.sequence_fields)
    for name in ordered:
        column_type = schema.by_name[name].type if name in schema.by_name else None
        if column_type is None or column_type.root in NESTED_ROOTS | FLOATING_ROOTS:
            raise _refused(target, f"it is ordered by column {name!r} of type {column_type}")


def _check_type(target: Target, name: str, data_type: DataType) -> None:
    root = data_type.root
    is_fine = root not in (TypeRoot.TIME, TypeRoot.MULTISET, TypeRoot.OTHER)
    if root in TIMESTAMP_ROOTS and data_type.precision > _MICROSECOND_DIGITS:
        is_fine = False
    if root is TypeRoot.ROW and not data_type.fields:
        is_fine = False
    if not is_fine:
        raise _refused(target, f"column {name!r} has type {data_type}, which Spark has no values of")
    for part in (*data_type.children, *(member.type for member in data_type.fields)):
        _check_type(target, name, part)


def _refused(target: Target, why: str) -> UnsupportedFormatError:
    return UnsupportedFormatError(f"table {target.name} cannot be written by this job: {why}. Use the engine")
