"""A DataFrame over files that are known, read by Spark's own vectorised readers without listing anything.

``spark.read.parquet(*paths)`` looks every path up, and with more than 32 of them starts a job to do so. Here
the files' names and sizes come from the plan, and Spark's index of files gets them as if it had listed them:
they are put into the cache that it asks first, under a directory that is none. That is one call with all
files, whatever their number, since each object made from Python costs a call of its own.

The classes are Spark's internal ones, of release 4. What they hold is checked; where it is not what was put,
Spark looks the paths up.
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

_OPTIONS: Final = {"datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED"}
"""The engine writes the proleptic Gregorian calendar, whatever the session takes files for."""


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
    session = spark._jsparkSession  # noqa: SLF001 - Spark's files have no other door
    index = _index(spark, files, schema)
    if index is None:
        paths = [uri for uri, _ in files]
        literal = {**_OPTIONS, "__globPaths__": "false"}
        return spark.read.format(file_format).schema(schema).options(**literal).load(paths)
    java = spark._jvm  # noqa: SLF001
    sources = java.org.apache.spark.sql.execution.datasources
    relation = sources.HadoopFsRelation(
        index,
        session.parseDataType(StructType([]).json()),
        session.parseDataType(schema.json()),
        java.scala.Option.empty(),
        sources.parquet.ParquetFileFormat() if file_format == "parquet" else sources.orc.OrcFileFormat(),
        java.PythonUtils.toScalaMap(_OPTIONS),
        session,
    )
    return DataFrame(session.baseRelationToDataFrame(relation), spark)


def _index(spark: SparkSession, files: Sequence[tuple[str, int]], schema: StructType) -> Any:  # noqa: ANN401
    """Spark's index of these files; None where it does not hold exactly them."""
    java, session = spark._jvm, spark._jsparkSession  # noqa: SLF001
    sources = java.org.apache.spark.sql.execution.datasources
    nowhere = java.org.apache.hadoop.fs.Path(f"file:/paimon-index-{uuid.uuid4()}")
    cache = sources.FileStatusCache.getOrCreate(session)
    cache.putLeafFiles(nowhere, _statuses(java, files))
    nothing = java.scala.Option.empty()
    index = sources.InMemoryFileIndex(
        session,
        java.PythonUtils.toSeq([nowhere]),
        java.PythonUtils.toScalaMap({"recursiveFileLookup": "true"}),
        java.scala.Option.apply(session.parseDataType(schema.json())),
        cache,
        nothing,
        nothing,
    )
    cache.invalidateAll()
    return index if index.allFiles().size() == len(files) else None


def _statuses(java: Any, files: Sequence[tuple[str, int]]) -> Any:  # noqa: ANN401 - objects of Java
    """An array of Hadoop's FileStatus, made from JSON by its fields."""
    mapper = java.com.fasterxml.jackson.databind.ObjectMapper()
    annotation = java.com.fasterxml.jackson.annotation
    for accessor, visibility in (("FIELD", "ANY"), ("SETTER", "NONE")):
        mapper.setVisibility(
            annotation.PropertyAccessor.valueOf(accessor),
            annotation.JsonAutoDetect.Visibility.valueOf(visibility),
        )
    described = [{"path": uri, "length": length} for uri, length in files]
    array = java.java.lang.Class.forName("[Lorg.apache.hadoop.fs.FileStatus;")
    return mapper.readValue(json.dumps(described), array)
