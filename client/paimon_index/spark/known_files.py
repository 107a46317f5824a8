"""A DataFrame over files that are known, read by Spark's own vectorised readers without listing anything.

``spark.read.parquet(*paths)`` looks every path up, and with more than 32 of them starts a job to do so. What
is worse, its list of files is made again by ``REFRESH TABLE`` and ``spark.catalog.refreshByPath``, without
those that are missing then. So Spark is told the files in the form in which a streaming query tells which
files of a directory it has completed: a log below ``_spark_metadata``. Spark reads the log once, when it
makes the DataFrame, takes names and sizes from it, and refreshes nothing later. The directory is then gone.

A file that is missing or broken is an error, whatever the session has Spark do with such files.

A few small files are one partition: Spark would make several, and bringing their rows together, for whatever
groups or counts them, is a stage of its own that takes longer than to read them one after the other.
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
    # The engine writes the proleptic Gregorian calendar, whatever the session takes files for.
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    # Names of directories are not taken for partitions.
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
"""What a log says of each file besides its name and size."""
_IGNORED: Final = "spark.sql.streaming.fileStreamSink.ignoreMetadata"

_NEAR: Final = ("file:", "hdfs:")
"""Object stores answer late, so their files are better read side by side."""
_OPEN_BYTES: Final = 1 << 19
"""What Spark's reader could read while it opens a file."""
_STAGE_BYTES: Final = 12 << 20
"""What it could read in the time that another stage takes."""


def known_files(
    spark: SparkSession, file_format: str, files: Sequence[tuple[str, int]], schema: StructType
) -> DataFrame:
    """The rows of Parquet or ORC files, each given by its URI, taken literally, and its length in bytes.

    Raises:
        UnsupportedSessionError: the session does not read the log.
    """
    with TemporaryDirectory(prefix="paimon-index-") as directory:
        log = Path(directory) / _LOG
        log.parent.mkdir()
        log.write_text("\n".join(["v1", *(_entry(uri, length) for uri, length in files)]), encoding="utf-8")
        reader = spark.read.format(_READERS[file_format]).schema(schema).options(**_OPTIONS)
        rows = reader.load(log.parents[1].as_uri())
        # Without the log, Spark finds an empty directory.
        relation = rows._jdf.queryExecution().analyzed().relation()  # noqa: SLF001 - no other door
        if relation.location().allFiles().size() != len(files):
            raise UnsupportedSessionError(
                f"Spark does not read the list of {len(files)} files that it was given in {log}: set "
                f"{_IGNORED} to false for this session, or read with reader='rows'"
            )
    is_small = sum(length + _OPEN_BYTES for _, length in files) <= _STAGE_BYTES
    is_one_partition = is_small and all(uri.startswith(_NEAR) for uri, _ in files)
    return rows.coalesce(1) if is_one_partition else rows


def _entry(uri: str, length: int) -> str:
    """A file as a line of the log, where URIs are percent-encoded."""
    return json.dumps({"path": quote(uri, safe="/:@"), "size": length, **_ENTRY})
