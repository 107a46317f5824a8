"""A DataFrame over rows of files, read by tasks in Python: for files with deleted or selected rows.

Tasks have about equally many bytes to read, and there are as many as Spark would make. Their lists are
broadcast, so that no task receives the lists of others in its own message.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import types as spark_types

from paimon_index.spark import worker, worker_avro

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from paimon_index.spark.questions import Scan
    from paimon_index.spark.worker import FileRows, StoreSettings

WORKER_MODULES: Final = (worker, worker_avro)
"""Modules that are pickled by value, so that workers need nothing of this package."""

# Cost of opening a file, in bytes that a task could read instead.
_OPEN_BYTES: Final = 1 << 20
# Cost of opening a file on a local disk.
_OPEN_BYTES_OF_DISK: Final = 1 << 16

# Upper bound of a row's cost: the engine writes row groups of this size, which are read as a whole.
_ROW_GROUP_BYTES: Final = 128 << 20

# Least bytes of a task, if there are as many: starting a task costs more than reading less.
_LEAST_BYTES: Final = 8 << 20

_Dealt = TypeVar("_Dealt")

_SIMPLE: Final = {
    spark_types.BooleanType: pa.bool_(),
    spark_types.ByteType: pa.int8(),
    spark_types.ShortType: pa.int16(),
    spark_types.IntegerType: pa.int32(),
    spark_types.LongType: pa.int64(),
    spark_types.FloatType: pa.float32(),
    spark_types.DoubleType: pa.float64(),
    spark_types.StringType: pa.string(),
    spark_types.BinaryType: pa.binary(),
    spark_types.DateType: pa.date32(),
    spark_types.TimestampNTZType: pa.timestamp("us"),
    spark_types.TimestampType: pa.timestamp("us", tz="UTC"),
}


def row_tasks(
    spark: SparkSession,
    files: Sequence[tuple[FileRows, int]],
    schema: spark_types.StructType,
    stores: Mapping[str, StoreSettings],
) -> DataFrame:
    """Return rows of files, each given with the bytes that reading it takes.

    ``schema`` has the columns by their names in the files. ``stores`` has filesystem settings by bucket.
    """
    for module in WORKER_MODULES:
        cloudpickle.register_pickle_by_value(module)
    tasks = dealt(files, bytes_of_task(files, *task_sizes(spark)))
    arrow = pa.schema([(field.name, arrow_type(field.dataType)) for field in schema])
    read = worker.reader_of(spark.sparkContext.broadcast((tasks, stores)), arrow)
    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(read, schema)


def rows_of(scan: Scan, files: pa.Table) -> Iterator[tuple[FileRows, int]]:
    """Yield the files of a scan for tasks, each with the bytes that reading it takes."""
    names = ("file_name", "path", "format", "file_size")
    for name, uri, file_format, size in zip(*(files.column(each).to_pylist() for each in names), strict=True):
        opening = _OPEN_BYTES_OF_DISK if uri.startswith("file:") else _OPEN_BYTES
        selection = scan.rows.get(name)
        if selection is None:
            yield (uri, file_format, None, False), size + opening
            continue
        positions = selection.positions()
        part = size if scan.are_deleted else min(size, len(positions) * _ROW_GROUP_BYTES)
        yield (uri, file_format, positions.tobytes(), scan.are_deleted), part + opening


def dealt(files: Sequence[tuple[_Dealt, int]], bytes_each: int) -> list[list[_Dealt]]:
    """Deal files into lists of about equal bytes: the largest first, each to the smallest list."""
    count = max(1, min(len(files), -(-sum(size for _, size in files) // bytes_each)))
    tasks: list[list[_Dealt]] = [[] for _ in range(count)]
    least = [(0, number) for number in range(count)]
    for file, size in sorted(files, key=lambda each: each[1], reverse=True):
        filled, number = least[0]
        tasks[number].append(file)
        heapq.heapreplace(least, (filled + size, number))
    return tasks


def arrow_type(data_type: spark_types.DataType) -> pa.DataType:
    """Return the Arrow type in which Spark accepts values from Python."""
    match data_type:
        case spark_types.DecimalType():
            return pa.decimal128(data_type.precision, data_type.scale)
        case spark_types.ArrayType():
            return pa.list_(arrow_type(data_type.elementType))
        case spark_types.MapType():
            return pa.map_(arrow_type(data_type.keyType), arrow_type(data_type.valueType))
        case spark_types.StructType():
            return pa.struct([(field.name, arrow_type(field.dataType)) for field in data_type])
    return _SIMPLE[type(data_type)]


def bytes_of_task(files: Sequence[tuple[_Dealt, int]], largest: int, tasks_at_once: int) -> int:
    """Return bytes of a task: as Spark divides files, but so that all cores have work."""
    # Rounded up: a remaining byte would be a task of its own.
    share = -(-sum(size for _, size in files) // max(1, tasks_at_once))
    return max(1, min(largest, max(share, _LEAST_BYTES)))


def task_sizes(spark: SparkSession) -> tuple[int, int]:
    """Return ``spark.sql.files.maxPartitionBytes``, and the number of tasks that run side by side."""
    largest = spark._jsparkSession.sessionState().conf().filesMaxPartitionBytes()  # noqa: SLF001 - parsed
    return int(largest), int(spark.sparkContext.defaultParallelism)
