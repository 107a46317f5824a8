"""Tables and sessions whose rows might differ from the engine's. Every exception names another reader."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final, NoReturn

import pyarrow.compute as pc

from paimon_index.errors import UnsupportedSessionError, UnsupportedTableError
from paimon_index.spark.column_types import SimpleType, is_cut_in_spark, is_readable_as, spark_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType

    from paimon_index.catalog import SchemaColumn
    from paimon_index.requests import TableName
    from paimon_index.spark.questions import Scan

_FORMATS: Final = ("parquet", "orc", "avro")
_MERGE_ENGINES: Final = ("deduplicate", "first-row")
_NEVER: Final = {
    "record-level.expire-time": "which hides rows by the time of the read",
    "query-auth.enabled": "which hides rows by their reader",
}
_SESSION_PREFIX: Final = "spark.paimon."
_OF_SESSION: Final = frozenset(
    {
        "batch-scan-mode",
        "branch",
        "chain-table.enabled",
        "deletion-vectors.enabled",
        "deletion-vectors.merge-on-read",
        "global-index.enabled",
        "ignore-delete",
        "incremental-between",
        "incremental-between-timestamp",
        "incremental-to-auto-tag",
        "log.scan",
        "log.scan.timestamp-millis",
        "postpone.merge-on-read",
        "query-auth.enabled",
        "scan.bucket",
        "scan.creation-time-millis",
        "scan.fallback-branch",
        "scan.file-creation-time-millis",
        "scan.mode",
        "scan.primary-branch",
        "scan.snapshot-id",
        "scan.tag-name",
        "scan.timestamp",
        "scan.timestamp-millis",
        "scan.version",
        "scan.watermark",
        "stream-scan-mode",
        "type",
    }
)
"""Options by which a session sees other rows than the service, which knows only the table's options."""

READERS: Final = ("auto", "rows")


def check_word(name: str, word: str, words: Sequence[str]) -> None:
    """Raise ValueError unless an argument is one of its words."""
    if word not in words:
        raise ValueError(f"{name} is {' or '.join(map(repr, words))}, found {word!r}")


def checked_names(name: str, names: Sequence[str]) -> list[str]:
    """Return an argument that lists column names. Raises TypeError if it is anything else."""
    if isinstance(names, str):
        raise TypeError(f"{name} is a list of names, such as [{names!r}], found a text")
    listed = list(names)
    for each in listed:
        if not isinstance(each, str):
            raise TypeError(f"{name} is a list of names, found a {type(each).__name__} in it")
    return listed


def is_classic(spark: SparkSession) -> bool:
    """Return True for a session with a JVM that this process can call, unlike those of Spark Connect."""
    # Spark Connect raises AttributeError here.
    return getattr(spark, "_jsparkSession", None) is not None


def check_python(executable: str) -> None:
    """Raise UnsupportedSessionError unless Spark's Python for data sources can import this package."""
    # Spark falls back to python3 if a script runs with the Python of an environment that is not activated.
    path = shutil.which(executable)
    # A Python that is missing here may be in an archive that Spark unpacks elsewhere.
    if path is None or path == sys.executable:
        return
    imports = [path, "-c", "import paimon_index"]
    if subprocess.run(imports, capture_output=True, check=False).returncode:  # noqa: S603 - Spark's own Python
        raise UnsupportedSessionError(
            f"Spark makes data sources in {path}, which has no paimon_index: set "
            f"PYSPARK_PYTHON={sys.executable} before the session begins"
        )


def check_session(spark: SparkSession) -> None:
    """Raise :class:`UnsupportedSessionError` for a session of Spark Connect, TypeError for no session."""
    if not hasattr(spark, "createDataFrame"):
        raise TypeError(f"spark is a {type(spark).__name__}: give the SparkSession, then url and table")
    if not is_classic(spark):
        raise UnsupportedSessionError(
            "paimon_index.spark needs a classic session, and this is none: Spark Connect does not give its "
            "clients what files are read with. Use the data source (paimon_index.spark.register), run the "
            "driver beside the cluster (spark-submit), or read the table with the engine's connector, as "
            "spark.table(...)"
        )


def check_session_options(spark: SparkSession, table: TableName) -> None:
    """Raise :class:`UnsupportedTableError` if the session sets options of the table."""
    # As one text: reading name by name would be a call of Java each.
    names = spark._jsparkSession.conf().getAll().keys().mkString("\n").splitlines()  # noqa: SLF001
    for name in sorted(names):
        if not name.startswith(_SESSION_PREFIX):
            continue
        # An option of all tables, or of a catalog, database and name, each of which may be a star.
        written = name.removeprefix(_SESSION_PREFIX)
        for option in _OF_SESSION:
            place = written.removesuffix(option).split(".")
            is_of_table = place[-3:-1] in ([d, t] for d in (table.database, "*") for t in (table.table, "*"))
            if written == option or (written.endswith(f".{option}") and is_of_table):
                refuse(
                    table,
                    f"the session sets {name}, under which the engine reads other rows than the service "
                    f"plans: unset it, and set it as an option of the table or name a version instead",
                )


def refuse(table: TableName, reason: str) -> NoReturn:
    """Raise an :class:`UnsupportedTableError` that names the engine's connector."""
    raise UnsupportedTableError(
        f"{table.database}.{table.table} is not read here: {reason}. Read it with the engine's connector "
        f"(org.apache.paimon:paimon-spark): as spark.table(...) of a Paimon catalog"
    )


def check_scan(scan: Scan) -> None:
    """Raise :class:`UnsupportedTableError` if the readers might not give the engine's rows."""
    options, table = scan.schema.options, scan.table
    for option, effect in _NEVER.items():
        if options.get(option, "false") != "false":
            refuse(table, f"it has {option}, {effect}")
    for file_format in scan.files.column("format").unique().to_pylist():
        if file_format not in _FORMATS:
            refuse(table, f"it has files in {file_format}, and only Parquet, ORC and Avro are read")
    merging = scan.files.filter(pc.invert(scan.files.column("raw_convertible")))
    if merging.num_rows:
        _check_merging(scan)
        if merging.column("deletion").null_count < merging.num_rows and not scan.are_deleted:
            refuse(
                table,
                'rows of files that have to be merged are deleted by position, for which reader="auto" is',
            )


def type_of(table: TableName, column: SchemaColumn) -> DataType:
    """Return Spark's type of a column. Raises :class:`UnsupportedTableError` if there is none."""
    try:
        return spark_type(column.type)
    except UnsupportedTableError as error:
        refuse(table, f"column {column.name}: {error}; columns=[...] can leave it out")


def check_change(table: TableName, old: SchemaColumn, column: SchemaColumn) -> None:
    """Raise :class:`UnsupportedTableError` if a cast might not give the engine's values."""
    if not is_readable_as(old.type, column.type):
        refuse(table, f"column {column.name} was {old.type} in some files and is {column.type}")


def _check_merging(scan: Scan) -> None:
    options, table = scan.schema.options, scan.table
    if not scan.schema.primary_keys:
        refuse(
            table,
            "files that the condition leaves hold columns of the same rows (data evolution), until the table "
            "is compacted",
        )
    engine = options.get("merge-engine", "deduplicate")
    if engine not in _MERGE_ENGINES:
        refuse(table, f"its files have to be merged by merge-engine {engine}")
    for option, value in options.items():
        if option.startswith("sequence.") or (option.endswith("ignore-delete") and value != "false"):
            refuse(table, f"its files have to be merged by {option}")
    for field in scan.schema.fields:
        if field.name in scan.schema.primary_keys and isinstance(field.type, str):
            # Spark takes -0.0 for 0.0, and times of one microsecond for one time.
            root = SimpleType.parse(field.type).root
            if root in ("FLOAT", "DOUBLE") or is_cut_in_spark(field.type):
                refuse(table, f"its files have to be merged by key {field.name}, which is {field.type}")
