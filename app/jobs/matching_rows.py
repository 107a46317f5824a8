"""Rows that meet a condition, by their position in their file.

Files of one schema are read together, in the columns and types that they were written with. Spark then casts
the columns to the table's types. A column is found by its field id. CHAR columns are padded as Spark pads
them. One task reads all rows of a file, so that positions need no shuffle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from app.building import Advance, DataFile
from app.errors import FilterError, UnsupportedFormatError
from app.jobs.job_table import JobTable, Place, local_file
from app.jobs.rows.incoming import padded, quoted
from app.jobs.tasks import Lean, Progress, spark_failed, task_count
from app.planning import Version
from app.table.manifests import ManifestEntry
from app.types import DataField, TypeRoot, type_json

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField

    from paimon_index.spark.conditions import Condition

_FILE: Final = "_paimon_index_file"
_POSITION: Final = "_paimon_index_position"
_POSITIONS: Final = pa.schema([(_FILE, pa.int64()), ("positions", pa.binary())])


@dataclass(frozen=True, slots=True)
class _ReadTask:
    number: int
    path: str
    row_count: int


def read_condition(spark: SparkSession, table: JobTable, version: Version, where: str) -> Condition:
    """Read a condition as the session understands it.

    Raises FilterError if it is not a condition on the table's columns.
    """
    from pyspark.errors import AnalysisException, ParseException  # noqa: PLC0415 - an extra

    from paimon_index.catalog import SchemaColumn  # noqa: PLC0415 - an extra
    from paimon_index.requests import TableName  # noqa: PLC0415 - an extra
    from paimon_index.spark.conditions import read_condition as read  # noqa: PLC0415 - an extra

    fields = [
        SchemaColumn(each.id, each.name, type_json(each.type), each.type.nullable, None)
        for each in version.schema.fields
    ]
    name = TableName(table.ref.warehouse, table.ref.database, table.ref.table)
    try:
        return read(spark, fields, where, name)
    except (AnalysisException, ParseException) as error:
        raise FilterError(str(error).strip().partition("\n")[0]) from error


def matching_rows(
    spark: SparkSession,
    table: JobTable,
    version: Version,
    files: Mapping[int, ManifestEntry],
    where: str,
    names: Collection[str] | None,
    advance: Advance,
) -> dict[int, BitMap64]:
    """Return positions of the matching rows by number of the file, without files that have none.

    ``names`` are the columns that the condition uses. None stands for all.

    Raises UnsupportedFormatError if Spark lacks the type of a column, or would convert an older type
    otherwise than the engine.
    """
    if not files:
        return {}
    fields = [column for column in version.schema.fields if names is None or column.name in names]
    groups: dict[int, list[_ReadTask]] = defaultdict(list)
    for number, entry in files.items():
        path = version.source.data.data_file(entry)
        groups[entry.file.schema_id].append(_ReadTask(number, path, entry.file.row_count))
    label = f"delete {table.name}"
    size = sum(entry.file.file_size for entry in files.values())
    most_tasks = task_count(spark.sparkContext, label, len(files), size)
    frames = [
        _frame(spark, table.place, fields, version.file_schema(schema_id).by_id, tasks, most_tasks)
        for schema_id, tasks in groups.items()
    ]
    rows = reduce(lambda united, frame: united.unionAll(frame), frames)
    matching = rows.alias(table.ref.table).where(where).select(_FILE, _POSITION)
    packed = matching.mapInArrow(Lean(_pack), f"{_FILE} bigint, positions binary")
    try:
        with Progress(spark.sparkContext, label, 1, advance):
            collected = packed.collect()
    except Exception as error:
        raise spark_failed(label, error) from error
    by_file: dict[int, BitMap64] = {}
    for row in collected:
        number, positions = int(row[0]), BitMap64.deserialize(bytes(row[1]))
        by_file[number] = by_file[number] | positions if number in by_file else positions
    return by_file


def _frame(
    spark: SparkSession,
    place: Place,
    fields: list[DataField],
    in_file: Mapping[int, DataField],
    tasks: list[_ReadTask],
    most_tasks: int,
) -> DataFrame:
    from pyspark.sql.types import LongType, StructField, StructType  # noqa: PLC0415 - an extra

    from paimon_index.spark.row_tasks import arrow_type  # noqa: PLC0415 - an extra

    old = [in_file.get(column.id) for column in fields]
    columns: list[StructField] = [
        StructField(column.name, _spark_type(column)) for column in old if column is not None
    ]
    schema = StructType([StructField(_FILE, LongType()), StructField(_POSITION, LongType()), *columns])
    arrow = pa.schema([(field.name, arrow_type(field.dataType)) for field in columns])
    count = min(len(tasks), most_tasks)
    longest_first = sorted(tasks, key=lambda task: -task.row_count)
    # A task takes neighbours, so files that take about equally long are dealt to different tasks.
    dealt = [task for first in range(count) for task in longest_first[first::count]]
    broadcast = spark.sparkContext.broadcast(dealt)

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for at in batch.column(0).to_pylist():
                yield from _read_file(place, broadcast.value[at], arrow)

    frame = spark.range(0, len(tasks), 1, count).mapInArrow(Lean(read), schema)
    columns = [_column(column, was) for column, was in zip(fields, old, strict=True)]
    return frame.select(_FILE, _POSITION, *columns)


def _column(column: DataField, old: DataField | None) -> Column:
    from pyspark.sql import functions  # noqa: PLC0415 - an extra

    from paimon_index.spark.column_types import is_readable_as  # noqa: PLC0415 - an extra

    spark_type_now = _spark_type(column)
    if old is None:
        return functions.lit(None).cast(spark_type_now).alias(column.name)
    if not is_readable_as(_written(old), _written(column)):
        raise UnsupportedFormatError(
            f"column {column.name!r} was {old.type} in some files and is {column.type}, which Spark might "
            f"not read as the engine does: delete with the engine"
        )
    value = padded(functions.col(quoted(old.name)).cast(spark_type_now), column.type)
    if column.type.root is not TypeRoot.CHAR:
        return value.alias(column.name)
    char = f"char({column.type.precision})"
    return value.alias(column.name, metadata={"__CHAR_VARCHAR_TYPE_STRING": char})


def _spark_type(column: DataField) -> Any:
    from paimon_index.errors import UnsupportedTableError  # noqa: PLC0415 - an extra
    from paimon_index.spark.column_types import spark_type  # noqa: PLC0415 - an extra

    try:
        return spark_type(_written(column))
    except UnsupportedTableError as error:
        raise UnsupportedFormatError(f"column {column.name!r}: {error}") from error


def _written(column: DataField) -> Any:
    return type_json(column.type)


def _read_file(place: Place, task: _ReadTask, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    with local_file(place.open(), task.path) as local:
        file = DataFile.open(local)
        names = [name for name in schema.names if name in file.schema.names]
        position = 0
        if not names:
            yield _placed(
                task,
                position,
                file.row_count,
                [pa.nulls(file.row_count, field.type) for field in schema],
                schema,
            )
            return
        for batch in file.batches(names):
            columns = [
                _shaped(batch.column(field.name), field.type)
                if field.name in names
                else pa.nulls(batch.num_rows, field.type)
                for field in schema
            ]
            yield _placed(task, position, batch.num_rows, columns, schema)
            position += batch.num_rows


def _placed(
    task: _ReadTask, position: int, row_count: int, columns: list[pa.Array], schema: pa.Schema
) -> pa.RecordBatch:
    places = [
        pa.array(np.full(row_count, task.number, np.int64)),
        pa.array(np.arange(position, position + row_count, dtype=np.int64)),
    ]
    return pa.RecordBatch.from_arrays([*places, *columns], names=[_FILE, _POSITION, *schema.names])


def _shaped(column: pa.Array, data_type: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        # Spark's timestamps are cut downwards, and a cast refuses to cut.
        column = pc.floor_temporal(column, unit="microsecond")
    return column if column.type == data_type else pc.cast(column, data_type)


def _pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    by_file: dict[int, BitMap64] = {}
    for batch in batches:
        files, positions = (np.asarray(batch.column(at)) for at in range(2))
        for number in np.unique(files).tolist():
            by_file.setdefault(number, BitMap64()).update(positions[files == number].astype(np.uint64))
    packed = [positions.serialize() for positions in by_file.values()]
    yield pa.RecordBatch.from_arrays(
        [pa.array(list(by_file), pa.int64()), pa.array(packed, pa.binary())], schema=_POSITIONS
    )
