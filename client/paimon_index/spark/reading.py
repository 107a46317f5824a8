"""``read_table``: a DataFrame of the rows that a condition selects, planned by the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from paimon_index.client import Client
from paimon_index.errors import UnavailableError
from paimon_index.requests import TableName
from paimon_index.spark.conditions import Where, check_where, named
from paimon_index.spark.frames import Frames, quoted
from paimon_index.spark.key_lists import KeyLists
from paimon_index.spark.questions import PythonShare, ask_where, needed, resolved
from paimon_index.spark.refusals import (
    READERS,
    check_session,
    check_session_options,
    check_word,
    checked_names,
)
from paimon_index.spark.store_access import StoreAccess

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from paimon_index.options import VersionOptions
    from paimon_index.spark.key_lists import Keys
    from paimon_index.spark.questions import Scan


def read_table(  # noqa: PLR0913 - each is a part of one question
    spark: SparkSession,
    url: str | Sequence[str],
    table: str,
    *,
    where: Where | None = None,
    in_lists: Mapping[str, Keys] | None = None,
    columns: Sequence[str] | None = None,
    snapshot_id: int | None = None,
    tag: str | None = None,
    branch: str | None = None,
    token: str | None = None,
    reader: Literal["auto", "rows"] = "auto",
    on_unavailable: Literal["error", "scan"] = "error",
    deadline_seconds: float = 30.0,
) -> DataFrame:
    """Return rows of a Paimon table, from the files that paimon-index keeps for a condition.

    The table is planned once, now: the DataFrame stays with this snapshot, whatever is committed later. The
    condition is read as in this session, time zone included, and applied to the rows.

    ``spark``: a classic session (not Spark Connect) of Spark 4.
    ``url``: base URL of the service, or several.
    ``table``: ``warehouse.database.table``, with the service's name of the warehouse.
    ``where``: a condition as text, as after WHERE, or an expression of Spark.
    ``in_lists``: keys by column, such as those of a join's small side. A row must have one of each list. Keys
    are Python values, an Arrow array, or a DataFrame of one column, which is computed here.
    ``columns``: columns in the order of the result. Default: all.
    ``snapshot_id``: version to read. Default: the latest.
    ``tag``: version to read, in place of a snapshot.
    ``branch``: branch to read. Default: the main one.
    ``token``: secret for the service. It stays in the driver.
    ``reader``: ``auto`` reads most files with Spark's own readers. In Python, by positions, it reads files
    with deleted rows, few rows of many bytes, and many small objects of S3. ``rows`` reads all files by
    positions.
    ``on_unavailable``: ``scan`` reads ``table`` through the session's catalog of the warehouse's name if the
    service does not answer.
    ``deadline_seconds``: time for the first files of a plan, and then for each further piece.

    Raises ServiceError if the service answers with a problem. Raises UnavailableError if it does not answer.
    Raises UnsupportedSessionError if the session is one of Spark Connect. Raises UnsupportedTableError if the
    rows might differ from the engine's. Nothing is read. Raises TypeError or ValueError if an argument is
    invalid, or a column is unknown.
    """
    check_session(spark)
    check_where(where)
    check_word("reader", reader, READERS)
    check_word("on_unavailable", on_unavailable, ("error", "scan"))
    columns = None if columns is None else checked_names("columns", columns)
    version: VersionOptions = {"snapshot_id": snapshot_id, "tag": tag, "branch": branch}
    check_session_options(spark, TableName.parse(table))
    keys, access = KeyLists(in_lists or {}), StoreAccess(spark)
    try:
        with Client(url, token=token, deadline_seconds=deadline_seconds) as client:
            condition, scan = ask_where(
                spark,
                client,
                table,
                where,
                in_lists=keys.to_send(client),
                version=version,
                reader=reader,
                python_share=PythonShare.of(spark, access),
            )
    except UnavailableError:
        if on_unavailable == "error":
            raise
        scanned = _by_connector(spark, TableName.parse(table), version)
        return _narrowed(keys.joined(spark, _matching(scanned, where)), columns)
    keys.check(scan.schema)
    projection = None if columns is None else [resolved(scan.schema, name) for name in columns]
    read = needed(scan.schema, condition.names, projection, keys.columns)
    rows = matching_rows(spark, scan, access, read, branch, where)
    if projection == [field.name for field in scan.schema.fields if field.name in read]:
        projection = None  # each operation on a DataFrame takes Spark milliseconds
    return _narrowed(keys.joined(spark, rows), projection)


def matching_rows(
    spark: SparkSession,
    scan: Scan,
    access: StoreAccess,
    names: Collection[str],
    branch: str | None,
    where: Where | None,
) -> DataFrame:
    """Return rows of a scan that meet a condition.

    ``names`` has its columns, which ``branch`` may qualify.
    """
    rows = Frames(spark, scan, names, access).rows()
    return _matching(named(spark, rows, scan.table, branch, where), where)


def _by_connector(spark: SparkSession, table: TableName, version: VersionOptions) -> DataFrame:
    options = {"scan.snapshot-id": version["snapshot_id"], "scan.tag-name": version["tag"]}
    given = {name: str(value) for name, value in options.items() if value is not None}
    branch = version["branch"]
    name = table.table if branch is None else f"{table.table}$branch_{branch}"
    parts = (table.warehouse, table.database, name)
    return spark.read.options(**given).table(".".join(map(quoted, parts)))


def _matching(rows: DataFrame, where: Where | None) -> DataFrame:
    return rows if where is None else rows.where(where)


def _narrowed(rows: DataFrame, columns: Sequence[str] | None) -> DataFrame:
    if columns is None:
        return rows
    return rows.select([quoted(name) for name in columns])
