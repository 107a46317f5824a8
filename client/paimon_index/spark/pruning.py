"""``pruned``: a tag that names only the files that the service keeps, for the engine's own connector.

What is written, all of it under names that begin with or contain a UUID of this tag alone::

    tag/tag-paimon-index-<expiry>-<uuid>/pruned     the tag; <expiry> is in seconds since 1970
    manifest/manifest-<uuid>-<n>                    entries of the kept files
    manifest/manifest-list-<uuid>-0 and -1          list of these manifests; an empty list

The tag's name has a slash, so that the engine finds the tag by its name, but does not see it when it lists
tags: it then neither expires the tag, nor lets the tag decide which data files are deleted.
``docs/decisions/pruned-tags.md`` of the service tells why that matters.

The tag's file is written first and removed last: whatever a stopped process leaves behind is found by it.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paimon_index.client import Client
from paimon_index.errors import UnsupportedTableError, WarehouseWriteError
from paimon_index.requests import TableName
from paimon_index.spark.connector import ConnectorTable
from paimon_index.spark.key_lists import KeyLists
from paimon_index.spark.questions import condition_of
from paimon_index.spark.refusals import check_session_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from paimon_index.results import PrunedSnapshot
    from paimon_index.spark.key_lists import Keys

_TAGS: Final = "tag"
_DIRECTORY: Final = re.compile(r"tag-paimon-index-(\d+)-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
_FILE: Final = "pruned"
_HOUR: Final = dt.timedelta(hours=1)


@contextmanager
def pruned(  # noqa: PLR0913 - each is a part of one question
    spark: SparkSession,
    url: str | Sequence[str],
    table: str,
    where: str | None = None,
    *,
    in_lists: Mapping[str, Keys] | None = None,
    may_write: bool = False,
    catalog: str | None = None,
    snapshot_id: int | None = None,
    token: str | None = None,
    deadline_seconds: float = 30.0,
    time_to_live: dt.timedelta = _HOUR,
) -> Iterator[str]:
    """Makes a tag for the time of a block, with which the engine's connector reads only files that may match.

    ::

        with pruned(spark, url, "main.shop.sales", "customer = 'c-1204'", may_write=True) as tag:
            spark.sql(f"SELECT * FROM main.shop.sales VERSION AS OF '{tag}' WHERE customer = 'c-1204'").show()

    The query has to have the condition, too, and be joined with the keys: other rows of the tag are some of
    the table's, not all. Rows are read when Spark needs them, so ask for results inside of the block. Tags of
    earlier calls whose time is over are removed first.

    Args:
        spark: a classic session whose catalog of the engine's connector has the table.
        url: base URL of the service, or several.
        table: ``warehouse.database.table``, the warehouse as the service calls it.
        where: a condition, as after WHERE.
        in_lists: keys by column, as of :func:`~paimon_index.spark.read_table`.
        may_write: says that files may be written below the table's directory.
        catalog: the session's catalog that has the table; by default that of the warehouse's name.
        snapshot_id: of the version to read; the latest by default.
        token: the secret for the service.
        deadline_seconds: for the service's answer.
        time_to_live: after which the tag may be removed by others, if this process was stopped.

    Yields:
        The name of the tag.

    Raises:
        ServiceError: the service answers with a problem, for instance about the condition.
        UnavailableError: it does not answer.
        UnsupportedTableError: the session's catalog does not have the table that the service has planned.
        WarehouseWriteError: the files cannot be written; what was written is removed.
        TypeError: ``where`` is no text.
        ValueError: ``may_write`` is not given, or keys are of another type than their column.
    """
    if not may_write:
        raise ValueError(
            "pruned writes a tag and manifests below the table's directory and removes them again: say "
            "may_write=True if it may"
        )
    name = TableName.parse(table)
    found = ConnectorTable.load(spark, catalog or name.warehouse, name)
    check_session_options(spark, name)
    try:
        _sweep(found)
    except WarehouseWriteError as error:
        warnings.warn(f"a tag of an earlier call stays: {error}", stacklevel=3)
    keys = KeyLists(in_lists or {})
    with Client(url, token=token, deadline_seconds=deadline_seconds) as client:
        snapshot = client.pruned_snapshot(
            table,
            filter=condition_of(spark, where),
            in_lists=keys.asked(client),
            snapshot_id=snapshot_id,
            time_zone=spark.conf.get("spark.sql.session.timeZone"),
        )
        if in_lists:
            keys.check(client.schema(table, snapshot.schema_id))
    _check_same(found, snapshot)
    tag = _Tag(found, math.ceil(time.time() + time_to_live.total_seconds()), snapshot.name)
    try:
        tag.write(snapshot, time_to_live)
        yield tag.name
    finally:
        try:
            tag.remove()
        except WarehouseWriteError as error:
            warnings.warn(f"{error}; a later call of pruned or sweep_pruned removes {tag.name}", stacklevel=3)


def sweep_pruned(spark: SparkSession, table: str, *, catalog: str | None = None) -> int:
    """Removes tags of :func:`pruned` whose time to live is over, which stopped processes have left behind.

    Args:
        spark: a classic session whose catalog of the engine's connector has the table.
        table: ``warehouse.database.table``.
        catalog: the session's catalog that has the table; by default that of the warehouse's name.

    Returns:
        How many were removed.

    Raises:
        UnsupportedTableError: the session has no such table.
        WarehouseWriteError: a file cannot be removed.
    """
    name = TableName.parse(table)
    return _sweep(ConnectorTable.load(spark, catalog or name.warehouse, name))


@dataclass(frozen=True, slots=True)
class _Tag:
    """A tag and what belongs to it.

    Attributes:
        table: that it is a tag of.
        expiry: in seconds since 1970.
        uuid: stands in the names of its files.
    """

    table: ConnectorTable
    expiry: int
    uuid: str

    @property
    def name(self) -> str:
        return f"paimon-index-{self.expiry}-{self.uuid}/{_FILE}"

    def write(self, snapshot: PrunedSnapshot, time_to_live: dt.timedelta) -> None:
        now = dt.datetime.now()  # noqa: DTZ005 - the engine, too, writes the local time of its machine
        created = [now.year, now.month, now.day, now.hour, now.minute, now.second, now.microsecond * 1000]
        document = snapshot.document | {
            "tagCreateTime": created,
            "tagTimeRetained": time_to_live.total_seconds(),
        }
        self.table.create(f"{_TAGS}/tag-{self.name}", json.dumps(document, indent=2).encode())
        for file in snapshot.metadata_files:
            self.table.create(f"manifest/{file.name}", file.data)

    def remove(self) -> None:
        count = 0
        # They are numbered in the order in which they are written.
        while self.table.exists(self._manifest(count)):
            count += 1
        for path in (*map(self._list, (1, 0)), *map(self._manifest, reversed(range(count)))):
            self.table.delete(path)
        self.table.delete(f"{_TAGS}/tag-{self.name}")
        self.table.delete(f"{_TAGS}/tag-{self.name.partition('/')[0]}")

    def _manifest(self, number: int) -> str:
        return f"manifest/manifest-{self.uuid}-{number}"

    def _list(self, number: int) -> str:
        return f"manifest/manifest-list-{self.uuid}-{number}"


def _sweep(table: ConnectorTable) -> int:
    removed = 0
    for directory in table.names(_TAGS):
        match = _DIRECTORY.fullmatch(directory)
        if match is not None and int(match[1]) < time.time():
            _Tag(table, int(match[1]), match[2]).remove()
            removed += 1
    return removed


def _check_same(table: ConnectorTable, snapshot: PrunedSnapshot) -> None:
    """States that the service has planned the table that the session's catalog has."""
    proof = snapshot.delta_manifest_list
    if proof is not None and not table.exists(f"manifest/{proof}"):
        raise UnsupportedTableError(
            f"{table.name} at {table.location} is not the table that the service has planned, or its "
            f"snapshot {snapshot.snapshot_id} has expired: {proof} is not there. Name the session's catalog "
            f"that has the table"
        )
