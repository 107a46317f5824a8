"""A DataFrame over a given list of files, read by Spark's vectorised readers without listing anything.

``spark.read.parquet(*paths)`` looks every path up, with more than 32 of them in a job. Worse, ``REFRESH
TABLE`` and ``spark.catalog.refreshByPath`` rebuild its list of files without those that are missing then. So
the list is written in the form in which a streaming query records the completed files of a directory: a log
below ``_spark_metadata``. Spark reads the log once, when it makes the DataFrame, takes names and sizes from
it, and refreshes nothing later. Then the directory is removed.

A missing or broken file is an error, whatever the session's settings say about such files.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from paimon_index.errors import UnsupportedSessionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_SOURCES: Final = "org.apache.spark.sql.execution.datasources"
_READERS: Final = {"parquet": f"{_SOURCES}.parquet.ParquetFileFormat", "orc": f"{_SOURCES}.orc.OrcFileFormat"}
_OPTIONS: Final = {
    # The engine writes the proleptic Gregorian calendar; the session's default may differ.
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    # Keeps Spark from reading partitions from names of directories.
    "recursiveFileLookup": "true",
}
_LOG: Final = "_spark_metadata/0"
_ENTRY: Final = {
    "isDir": False,
    "modificationTime": 0,
    "blockReplication": 1,
    "blockSize": 128 << 20,
    "action": "add",
}
"""Further members of each file in the log, besides its name and size."""
_IGNORED: Final = "spark.sql.streaming.fileStreamSink.ignoreMetadata"

_NEAR: Final = ("file:", "hdfs:")
"""Stores of low latency. Files of other stores are better read side by side."""
# Bytes that Spark's reader could read in the time of opening a file.
_OPEN_BYTES: Final = 1 << 19
# Bytes that Spark's reader could read in the time of another stage.
_STAGE_BYTES: Final = 12 << 20


def known_files(
    spark: SparkSession, file_format: str, files: Sequence[tuple[str, int]], schema: StructType
) -> DataFrame:
    """Return rows of Parquet or ORC files, each given by its literal URI and its length in bytes.

    Raises UnsupportedSessionError if the session does not read the log.
    """
    with TemporaryDirectory(prefix="paimon-index-") as directory:
        log = Path(directory) / _LOG
        log.parent.mkdir()
        log.write_text("\n".join(["v1", *(_entry(uri, length) for uri, length in files)]), encoding="utf-8")
        reader = spark.read.format(_READERS[file_format]).schema(schema).options(**_OPTIONS)
        rows = reader.load(log.parents[1].as_uri())
        # Without the log, Spark finds an empty directory.
        relation = rows._jdf.queryExecution().analyzed().relation()  # noqa: SLF001 - no public API
        if relation.location().allFiles().size() != len(files):
            raise UnsupportedSessionError(
                f"Spark does not read the list of {len(files)} files that it was given in {log}: set "
                f"{_IGNORED} to false for this session, or read with reader='rows'"
            )
    # Spark would make several partitions of a few small files. Bringing their rows together for a group or
    # count is then a stage of its own, which takes longer than reading the files one after the other.
    is_small = sum(length + _OPEN_BYTES for _, length in files) <= _STAGE_BYTES
    is_one_partition = is_small and all(uri.startswith(_NEAR) for uri, _ in files)
    return rows.coalesce(1) if is_one_partition else rows


def _entry(uri: str, length: int) -> str:
    """Return a file as a line of the log, where URIs are percent-encoded."""
    return json.dumps({"path": quote(uri, safe="/:@"), "size": length, **_ENTRY})
