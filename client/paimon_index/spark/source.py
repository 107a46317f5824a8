"""The data source ``paimon_index``: the kept rows of a plan, by Spark's Python data source API.

Spark makes the source in a Python process next to the driver, without a session. The source asks the service
once for each ``load``, and the answer is pickled into everything that Spark does with the source later.
"""

from __future__ import annotations

import os
import re
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, Self

import pyarrow as pa
import pyarrow.compute as pc
from py4j.java_gateway import JavaClass
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructField, StructType

from paimon_index.client import Client
from paimon_index.errors import PaimonIndexError, UndecidedConditionError
from paimon_index.spark import source_tasks, worker
from paimon_index.spark.column_types import char_length
from paimon_index.spark.questions import ask, columns_of
from paimon_index.spark.refusals import check_change, check_python, check_scan, is_classic, refuse, type_of
from paimon_index.spark.row_tasks import (
    WORKER_MODULES,
    arrow_type,
    bytes_of_task,
    dealt,
    rows_of,
    task_sizes,
)
from paimon_index.spark.source_tasks import PlannedSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

    from paimon_index.catalog import SchemaColumn
    from paimon_index.options import VersionOptions
    from paimon_index.spark.questions import Scan
    from paimon_index.spark.source_tasks import FileShape, FileTask


_NAME: Final = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^`,]*[^`,\s]))\s*(?:,|$)")
_SECONDS: Final = re.compile(r"\d+(\.\d+)?")


def register(spark: SparkSession) -> None:
    """Register the source in a session of Spark 4 under the name ``paimon_index``.

    With Spark Connect, this package must be installed where the server plans. Raises UnsupportedSessionError
    if the Python that Spark makes sources in lacks this package.
    """
    if not is_classic(spark):
        spark.dataSource.register(PaimonIndexSource)
        return
    check_python(spark.sparkContext.pythonExec)
    sizes = {"task_sizes": task_sizes(spark)}
    sessions = JavaClass("org.apache.spark.sql.classic.SparkSession", spark._jvm._gateway_client)  # noqa: SLF001
    active = sessions.getActiveSession()
    # Spark checks for an existing source of this name in the active session instead of the given one.
    sessions.setActiveSession(spark._jsparkSession)  # noqa: SLF001
    try:
        spark.dataSource.register(type(PaimonIndexSource.__name__, (PaimonIndexSource,), sizes))
    finally:
        if active.isDefined():
            sessions.setActiveSession(active.get())
        else:
            sessions.clearActiveSession()


class PaimonIndexSource(DataSource):  # type: ignore[misc] # pyspark's types are not read
    """A table, or the rows of a condition. See :class:`SourceOptions`.

    ``task_sizes``: approximate limit of bytes of one task, and the number of tasks that run side by side.
    """

    # No pushFilters: Spark keeps filters that were pushed once for later scans of the same DataFrame.
    task_sizes: ClassVar[tuple[int, int]] = (128 << 20, 16)  # clients of Spark Connect know none

    def __init__(self, options: Mapping[str, str]) -> None:
        with _one_sentence():
            self._options = SourceOptions.of(options)
        self._planned: tuple[Any, ...] | None = None

    @classmethod
    def name(cls) -> str:
        """Return the format's name in SQL and in ``load``."""
        return PlannedSource.name()

    def schema(self) -> StructType:
        """Return columns of the table. Plans the read."""
        with _one_sentence():
            scan = _scan(self._options)
            columns = columns_of(scan.schema, self._options.columns)
            fields = StructType([_field(scan, column) for column in columns])
            files = list(_files(scan))
            self._planned = (
                dealt(files, bytes_of_task(files, *self.task_sizes)) if files else [],
                {
                    number: _shape(scan, number, columns)
                    for number in scan.files.column("schema_id").unique().to_pylist()
                },
                pa.schema([(field.name, arrow_type(field.dataType)) for field in fields]),
                [char_length(column.type) for column in columns],
            )
            worker.forget_zip_finders()
            return fields

    def reader(self, schema: StructType) -> NoReturn:  # noqa: ARG002 - Spark's
        """Raise ValueError: Spark calls this without :meth:`schema` only if a schema was given."""
        with _one_sentence():
            raise ValueError("paimon_index takes no schema: the table has one, and option columns chooses")

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle a planned source as its parts for reading: no token, nothing that needs this package."""
        if self._planned is None:
            return super().__reduce_ex__(protocol)
        for module in (*WORKER_MODULES, source_tasks):
            cloudpickle.register_pickle_by_value(module)
        return PlannedSource, self._planned


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Options of a read. None stands for a default.

    Only rows that meet ``where`` are returned. Rows that cannot meet ``prune`` may be missing. The service
    reads both, since there is no session here. So their texts have no functions, and instants have an offset.
    """

    path: str
    url: tuple[str, ...]
    token: str | None
    where: str | None
    prune: str | None
    columns: tuple[str, ...] | None
    snapshot_id: int | None
    tag: str | None
    branch: str | None
    deadline_seconds: float

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Self:
        """Read options. Raises ValueError if one is missing, unknown, or malformed."""
        options = {name.lower(): value for name, value in given.items()}
        names = [field.name for field in fields(cls)]
        for name in sorted(options.keys() - set(names)):
            raise ValueError(f"paimon_index has no option {name}; it has {', '.join(sorted(names[1:]))}")
        if not options.get("path"):
            raise ValueError('paimon_index reads the table that load("warehouse.database.table") names')
        if not options.get("url"):
            raise ValueError("paimon_index needs option url, the base URL of the service")
        if "where" in options and "prune" in options:
            raise ValueError("paimon_index takes one of the options where and prune")
        number = options.get("snapshot_id")
        if number is not None and not number.isdecimal():
            raise ValueError(f"option snapshot_id of paimon_index is a number, found {number}")
        seconds = options.get("deadline_seconds", "30")
        if not _SECONDS.fullmatch(seconds):
            raise ValueError(f"option deadline_seconds of paimon_index is a number, found {seconds}")
        columns = options.get("columns")
        return cls(
            path=options["path"],
            url=tuple(each.strip() for each in options["url"].split(",")),
            token=options.get("token"),
            where=options.get("where"),
            prune=options.get("prune"),
            columns=None if columns is None else _names(columns),
            snapshot_id=None if number is None else int(number),
            tag=options.get("tag"),
            branch=options.get("branch"),
            deadline_seconds=float(seconds),
        )

    @property
    def version(self) -> VersionOptions:
        """The version to read."""
        return {"snapshot_id": self.snapshot_id, "tag": self.tag, "branch": self.branch}

    @property
    def condition(self) -> str | None:
        """The condition for the service."""
        return self.where if self.prune is None else self.prune


def _names(written: str) -> tuple[str, ...]:
    """Split names at commas. Names with commas stand in back quotes, as in Spark."""
    names, at = [], 0
    while at < len(written):
        match = _NAME.match(written, at)
        if match is None:
            raise ValueError(f"option columns of paimon_index lists names between commas, found {written}")
        quoted, plain = match.groups()
        names.append(plain or quoted.replace("``", "`"))
        at = match.end()
    return tuple(names)


@contextmanager
def _one_sentence() -> Iterator[None]:
    """Hide the stack of this process, which Spark would append to the exception's message."""
    try:
        yield
    except (PaimonIndexError, ValueError):
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


def _scan(options: SourceOptions) -> Scan:
    condition = options.condition
    with Client(options.url, token=options.token, deadline_seconds=options.deadline_seconds) as client:
        scan = ask(
            client,
            options.path,
            condition,
            version=options.version,
            reader="auto" if condition is None else "rows",
        )
    check_scan(scan)
    if scan.files.num_rows and not pc.all(scan.files.column("raw_convertible")).as_py():
        refuse(scan.table, "its files have to be merged by key, which paimon_index.spark.read_table does")
    for warning in scan.facts.warnings:
        warnings.warn(warning, stacklevel=2)
    if options.where is not None:
        _check_decided(scan, options.where)
    return scan


def _check_decided(scan: Scan, where: str) -> None:
    undecided = pc.sum(scan.files.column("residual")).as_py()
    if undecided:
        table = f"{scan.table.database}.{scan.table.table}"
        if not scan.facts.summary.complete:
            raise UndecidedConditionError(
                f"the service could not read all indexes of {table} that tell which rows meet {where}, or "
                f"had no time to: load again in a moment, or set option prune instead of where"
            )
        reasons = "".join(f" ({warning})" for warning in scan.facts.warnings)
        raise UndecidedConditionError(
            f"indexes and statistics of {table} cannot tell which rows of {undecided} files meet {where}"
            f"{reasons}: either set option prune instead of where, which leaves out what cannot meet it, and "
            f"put the condition into the query, too; or use paimon_index.spark.read_table"
        )


def _field(scan: Scan, column: SchemaColumn) -> StructField:
    length = char_length(column.type)
    metadata = None if length is None else {"__CHAR_VARCHAR_TYPE_STRING": f"char({length})"}
    return StructField(column.name, type_of(scan.table, column), metadata=metadata)


def _files(scan: Scan) -> Iterator[tuple[FileTask, int]]:
    for number in scan.files.column("schema_id").unique().to_pylist():
        files = scan.files.filter(pc.equal(scan.files.column("schema_id"), number))
        for rows, size in rows_of(scan, files):
            yield (number, rows), size


def _shape(scan: Scan, schema_id: int, columns: list[SchemaColumn]) -> FileShape:
    """Return names and types of the columns in files of a schema, found by field id."""
    in_file = {column.id: column for column in scan.file_schemas[schema_id].fields}
    names: list[str | None] = []
    read: dict[str, SchemaColumn] = {}
    for column in columns:
        old = in_file.get(column.id)
        names.append(None if old is None else old.name)
        if old is not None:
            check_change(scan.table, old, column)
            read[old.name] = old
    if not read:  # the rows still count
        any_column = next(iter(in_file.values()))
        read[any_column.name] = any_column
    fields = [(old.name, arrow_type(type_of(scan.table, old))) for old in read.values()]
    return pa.schema(fields), tuple(names)
