"""``table$ro``: what full compactions made of a table, as the engine's system table of this name has it.

Of a table with a primary key it has the files of the top level alone, which need no merging. What was
written to a bucket since its full compaction is missing, deletions included; every bucket has a full
compaction of its own. Other tables are read as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from app.planning.version.version import Version
from app.table.schema.schema import TableSchema

_ROWS: Final = "paimon.read-optimized.rows-left-out"
_TIME: Final = "paimon.read-optimized.compacted-at"


def read_optimized(version: Version, newest: TableSchema) -> Version:
    """A version as ``table$ro`` has it.

    Args:
        version: of the table.
        newest: the table's newest schema, whose options hold for all versions.
    """
    return version.on_level(newest.options.top_level) if newest.primary_keys else version


def age(version: Version) -> Mapping[str, str]:
    """Properties of ``table$ro`` that say how old it is.

    Rows that are left out are counted as files have them: each version and deletion of a row is one. If there
    are any, the time is when the last full compaction of a bucket with such rows was, of the bucket where
    that is longest ago. It is of the writer's clock, whose time zone is not recorded.

    Args:
        version: as of :func:`read_optimized`.

    Raises:
        SnapshotExpiredError: the version went away.
        CorruptMetadataError: one of its manifests is damaged.
    """
    hidden = version.hidden_files()
    if hidden is None:
        return {_ROWS: "0"}
    rows = {_ROWS: str(int(hidden.columns.row_counts.sum()))}
    files = version.files()
    written = np.empty(len(files), np.int64)
    for number, part, entries in files.by_manifest(files.all()):
        written[part] = files.manifests[number].creation_times.values[entries]
    buckets, numbers = np.unique(files.columns.bucket_keys, return_inverse=True)
    newest = np.zeros(len(buckets), np.int64)
    np.maximum.at(newest, numbers, written)
    behind = np.unique(hidden.columns.bucket_keys)
    if not np.isin(behind, buckets).all():
        return {**rows, _TIME: "never"}
    oldest = int(newest[np.isin(buckets, behind)].min())
    # 0 where a writer has not recorded it.
    return {**rows, _TIME: str(np.datetime64(oldest, "ms"))} if oldest else rows
