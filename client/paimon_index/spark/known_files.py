"""A DataFrame over files that are known, read by Spark's own vectorised readers without listing anything.

``spark.read.parquet(*paths)`` looks every path up, and with more than 32 of them starts a job to do so. Here
the files' names and sizes come from the plan, and Spark's index of files gets them as if it had listed them:
they are put into the cache that it asks first, under a directory that is none. That is one call with all
files, whatever their number, since each object made from Python costs a call of its own.

The classes are Spark's internal ones, of release 4. What they hold is checked; where it is not what was put,
Spark looks the paths up.

A few small files are one partition: Spark would make several, and bringing their rows together, for whatever
groups or counts them, is a stage of its own that takes longer than to read them one after the other.
"""

from __future__ import annotations

import json
import uuid
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from py4j.java_gateway import JavaClass
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

_SOURCES: Final = "org.apache.spark.sql.execution.datasources"
_READERS: Final = {"parquet": "parquet.ParquetFileFormat", "orc": "orc.OrcFileFormat"}
_PYTHON_UTILS: Final = "org.apache.spark.api.python.PythonUtils"
_OPTIONS: Final = {"datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED"}
"""The engine writes the proleptic Gregorian calendar, whatever the session takes files for."""

_NEAR: Final = ("file:", "hdfs:")
"""Object stores answer late, so their files are better read side by side."""
_OPEN_BYTES: Final = 1 << 20
"""What Spark's reader could read while it opens a file."""
_STAGE_BYTES: Final = 12 << 20
"""What it could read in the time that another stage takes."""


def known_files(
    spark: SparkSession, file_format: str, files: Sequence[tuple[str, int]], schema: StructType
) -> DataFrame:
    """The rows of files.

    Args:
        spark: the session.
        file_format: ``parquet`` or ``orc``.
        files: URI and length in bytes of each; URIs are taken literally.
        schema: columns by the names that the files have.
    """
    index = _index(spark, files, schema)
    if index is None:
        paths = [uri for uri, _ in files]
        literal = {**_OPTIONS, "__globPaths__": "false"}
        return spark.read.format(file_format).schema(schema).options(**literal).load(paths)
    is_small = sum(length + _OPEN_BYTES for _, length in files) <= _STAGE_BYTES
    is_one_partition = is_small and all(uri.startswith(_NEAR) for uri, _ in files)
    session = spark._jsparkSession  # noqa: SLF001 - Spark's files have no other door
    relation = _java(spark, f"{_SOURCES}.HadoopFsRelation")(
        index,
        session.parseDataType(StructType([]).json()),
        session.parseDataType(schema.json()),
        _java(spark, "scala.Option").empty(),
        _java(spark, f"{_SOURCES}.{_READERS[file_format]}")(),
        _java(spark, _PYTHON_UTILS).toScalaMap(_OPTIONS),
        session,
    )
    rows = DataFrame(session.baseRelationToDataFrame(relation), spark)
    return rows.coalesce(1) if is_one_partition else rows


def _index(spark: SparkSession, files: Sequence[tuple[str, int]], schema: StructType) -> Any:  # noqa: ANN401
    """Spark's index of these files; None where it does not hold exactly them."""
    session, utils = spark._jsparkSession, _java(spark, _PYTHON_UTILS)  # noqa: SLF001
    nowhere = _java(spark, "org.apache.hadoop.fs.Path")(f"file:/paimon-index-{uuid.uuid4()}")
    cache = _java(spark, f"{_SOURCES}.FileStatusCache").getOrCreate(session)
    cache.putLeafFiles(nowhere, _statuses(spark, files))
    option = _java(spark, "scala.Option")
    nothing = option.empty()
    index = _java(spark, f"{_SOURCES}.InMemoryFileIndex")(
        session,
        utils.toSeq([nowhere]),
        utils.toScalaMap({"recursiveFileLookup": "true"}),
        option.apply(session.parseDataType(schema.json())),
        cache,
        nothing,
        nothing,
    )
    cache.invalidateAll()
    return index if index.allFiles().size() == len(files) else None


def _statuses(spark: SparkSession, files: Sequence[tuple[str, int]]) -> Any:  # noqa: ANN401 - Java's array
    """An array of Hadoop's FileStatus, made from JSON by its fields."""
    mapper, array = _mapper_of_statuses(spark._jvm._gateway_client)  # noqa: SLF001 - as below
    described = [{"path": uri, "length": length} for uri, length in files]
    return mapper.readValue(json.dumps(described), array)


@lru_cache(maxsize=1)
def _mapper_of_statuses(gateway: Any) -> tuple[Any, Any]:  # noqa: ANN401 - py4j's, and objects of Java
    """What reads such JSON, and the class of the array; made once, since that takes many calls."""
    mapper = JavaClass("com.fasterxml.jackson.databind.ObjectMapper", gateway)()
    accessors = JavaClass("com.fasterxml.jackson.annotation.PropertyAccessor", gateway)
    visibilities = JavaClass("com.fasterxml.jackson.annotation.JsonAutoDetect$Visibility", gateway)
    for accessor, visibility in (("FIELD", "ANY"), ("SETTER", "NONE")):
        mapper.setVisibility(accessors.valueOf(accessor), visibilities.valueOf(visibility))
    array = JavaClass("java.lang.Class", gateway).forName("[Lorg.apache.hadoop.fs.FileStatus;")
    return mapper, array


def _java(spark: SparkSession, name: str) -> Any:  # noqa: ANN401 - a class of Java
    """A class by its whole name; through ``spark._jvm`` each part of the name would be a call of its own."""
    return JavaClass(name, spark._jvm._gateway_client)  # noqa: SLF001
