"""Requests to the service for one read, and their result: a scan.

The plan comes first. Everything that follows uses its snapshot and schema, whatever is committed meanwhile.
Schemas never change.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, Required, Self, TypedDict, Unpack

import pyarrow.compute as pc

from paimon_index.errors import IncompleteAnswerError, ServiceError
from paimon_index.requests import TableName
from paimon_index.selections import Selection
from paimon_index.spark.conditions import Condition, read_condition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from paimon_index.catalog import Schema, SchemaColumn
    from paimon_index.client import Client
    from paimon_index.options import Filter, InLists, VersionOptions
    from paimon_index.results import PlanFacts
    from paimon_index.spark.conditions import Where
    from paimon_index.spark.store_access import StoreAccess

_REFUSALS: Final = ("filter", "limit-exceeded")
# Spark's reader reads fewer bytes before Python has started.
_MUCH_BYTES_OF_CORE: Final = 16 << 20
# From this number on Hadoop is slow: it makes several calls for each object, one after the other.
_MANY_OBJECTS_OF_CORE: Final = 4
# For smaller objects Hadoop's calls take longer than reading all rows in Python.
_SMALL_BYTES: Final = 1 << 20
# Share of the rows of the kept files up to which Python is faster than Spark's reader.
_FEW: Final = 0.1


@dataclass(frozen=True, slots=True)
class Scan:
    """The schemas of a table, and a row of ``files`` for each file to read.

    ``rows`` has by file name the rows to read, or to skip if ``are_deleted``. Other files are read
    whole.
    """

    table: TableName
    schema: Schema
    file_schemas: Mapping[int, Schema]
    facts: PlanFacts
    files: pa.Table
    rows: Mapping[str, Selection]
    are_deleted: bool


class ScanOptions(TypedDict, total=False):
    """Arguments of :func:`ask` besides the condition and the version."""

    in_lists: InLists | None
    files: Sequence[str] | None
    reader: Required[Literal["auto", "rows"]]
    python_share: PythonShare | None


def ask_where(
    spark: SparkSession,
    client: Client,
    name: str,
    where: Where | None,
    *,
    version: VersionOptions,
    **request: Unpack[ScanOptions],
) -> tuple[Condition, Scan]:
    """Read a condition in the columns of a version, and request a plan as :func:`ask` does.

    If the service refuses the condition, for instance for its length, all files are planned, with a warning.
    """
    condition = condition_at(spark, client, name, where, version)
    while True:
        try:
            scan = ask(client, name, condition.predicate, version=version, **request)
        except ServiceError as error:
            if error.problem.slug not in _REFUSALS:
                raise
            warnings.warn(f"all files are read: {error}", stacklevel=3)
            condition = replace(condition, predicate=None)
            scan = ask(client, name, None, version=version, **request)
        if where is None or condition.fields == scan.schema.fields:
            return condition, scan
        version = pinned(version, scan.facts)  # a column was altered meanwhile
        condition = read_condition(spark, scan.schema.fields, where, scan.table, version.get("branch"))


def condition_at(
    spark: SparkSession, client: Client, name: str, where: Where | None, version: VersionOptions
) -> Condition:
    """Read a condition in the columns of a version."""
    if where is None:
        return Condition(None, frozenset())
    fields = client.schemas(name, **version)[-1].fields
    return read_condition(spark, fields, where, TableName.parse(name), version.get("branch"))


def ask(  # noqa: PLR0913 - each is a part of one question
    client: Client,
    name: str,
    condition: Filter | None,
    *,
    in_lists: InLists | None = None,
    files: Sequence[str] | None = None,
    version: VersionOptions,
    reader: Literal["auto", "rows"],
    python_share: PythonShare | None = None,
) -> Scan:
    """Request a plan with the rows that its reader needs.

    With the reader ``rows`` that is rows to read, else deleted rows, unless ``python_share`` shows that tasks
    in Python read so few rows faster. ``files`` restricts the plan to these names.
    """
    table = TableName.parse(name)

    def plan(version: VersionOptions, selection: Literal["bitmap", "none"]) -> tuple[PlanFacts, pa.Table]:
        with client.plan(
            name,
            filter=condition,
            in_lists=in_lists,
            files=files,
            **version,
            selection=selection,
            # A selection leaves deleted rows out by itself.
            deletions="bitmap" if selection == "none" else "none",
            schemas=True,
            uris=True,
        ) as made:
            return made.facts, made.to_arrow()

    are_rows = reader == "rows"
    facts, planned_files = plan(version, "bitmap" if are_rows else "none")
    is_restricted = condition is not None or in_lists is not None
    share = (
        python_share.of_files(planned_files)
        if python_share is not None and is_restricted and not are_rows
        else 0
    )
    if share and not _merges_deleted(planned_files):
        of_rows, selected = plan(pinned(version, facts), "bitmap")
        if of_rows.summary.rows_selected <= share * pc.sum(selected.column("row_count")).as_py():
            facts, planned_files, are_rows = of_rows, selected, True
    schemas = {schema.id: schema for schema in facts.schemas}
    rows = _rows(planned_files, "selection", "selection") if are_rows else _deleted(planned_files)
    return Scan(table, schemas[facts.schema_id], schemas, facts, planned_files, rows, not are_rows)


def pinned(version: VersionOptions, facts: PlanFacts) -> VersionOptions:
    """Return the selector of the planned version. A tag stays, since its snapshot may have expired."""
    return version if version.get("tag") is not None else {**version, "snapshot_id": facts.snapshot_id}


@dataclass(frozen=True, slots=True)
class PythonShare:
    """Largest share of the rows of kept files that Python reads faster than Spark's reader."""

    cores: int
    access: StoreAccess

    @classmethod
    def of(cls, spark: SparkSession, access: StoreAccess) -> Self:
        """Return the share for a session."""
        return cls(int(spark.sparkContext.defaultParallelism), access)

    def of_files(self, files: pa.Table) -> float:
        """Return the share for files: 0 if Spark's reader ends before Python, or tasks lack access."""
        size = pc.sum(files.column("file_size")).as_py() or 0
        near = pc.sum(pc.starts_with(files.column("path"), "file:")).as_py() or 0
        are_objects = files.num_rows - near >= _MANY_OBJECTS_OF_CORE * self.cores
        if not are_objects and size < _MUCH_BYTES_OF_CORE * self.cores:
            return 0
        if not self.access.reaches(files.column("path").to_pylist()):
            return 0
        return 1 if are_objects and size <= _SMALL_BYTES * files.num_rows else _FEW


def needed(
    schema: Schema,
    used: Collection[str] | None,
    columns: Sequence[str] | None,
    listed: Collection[str] = (),
) -> set[str]:
    """Return columns to read: ``columns``, columns with lists of keys, and columns that a condition uses.

    None stands for all.
    """
    names = {field.name for field in schema.fields}
    if columns is None or used is None:
        return names
    lists = {name.lower() for name in listed}
    return {name for name in names if name in columns or name in used or name.lower() in lists}


def resolved(schema: Schema, name: str) -> str:
    """Return a column in the schema's spelling. Raises ValueError if there is none."""
    names = [field.name for field in schema.fields]
    for candidate in (name, *names):
        if candidate in names and candidate.lower() == name.lower():
            return candidate
    available = ", ".join(names)
    raise ValueError(f"there is no column {name}; the table has {available}")


def columns_of(schema: Schema, names: Sequence[str] | None) -> list[SchemaColumn]:
    """Return columns by their names, or all of a schema."""
    by_name = {column.name: column for column in schema.fields}
    return [by_name[resolved(schema, name)] for name in (by_name if names is None else names)]


def _merges_deleted(files: pa.Table) -> bool:
    """Return True if files to merge have deleted rows, which their selections do not exclude."""
    merging = files.filter(pc.invert(files.column("raw_convertible")))
    return bool(merging.column("deletion").null_count < merging.num_rows)


def _rows(files: pa.Table, column: str, prefix: str) -> dict[str, Selection]:
    with_rows = files.filter(files.column(column).is_valid())
    columns = (with_rows.column(name).to_pylist() for name in ("file_name", column, f"{prefix}_format"))
    return {
        name: Selection("bitmap", content, 64 if form == "roaring64" else 32)
        for name, content, form in zip(*columns, strict=True)
    }


def _deleted(files: pa.Table) -> dict[str, Selection]:
    deletions = _rows(files, "deleted_rows", "deleted")
    with_vectors = files.num_rows - files.column("deletion").null_count
    if len(deletions) != with_vectors:
        raise IncompleteAnswerError(
            f"deleted rows of {with_vectors} files were requested, {len(deletions)} arrived"
        )
    return deletions
