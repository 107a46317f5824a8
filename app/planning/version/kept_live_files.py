"""The files of a table's version, kept on the disk for the processes that start later.

One entry for each table and branch holds the files of a version that was planned. What another version has
more than that, as after a commit, is added as :class:`LiveFiles` does it, so that the entry need not be
written anew with each commit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from app.planning.version.files import FileColumns
from app.planning.version.live_files import LiveFiles
from app.table.manifests.kept_values import keep_value, kept_value

if TYPE_CHECKING:
    from app.storage.kept_arrays import KeptArrays

FORM: Final = "live files 1"
"""What the entry is called among all that is made of a table."""

LEAST_FILES: Final = 10_000
"""Fewer are put together from their manifests in as little time."""
_NEW_SHARE: Final = 8
"""An entry is written anew when more than one file in so many is missing in it."""


def open_live_files(place: KeptArrays) -> LiveFiles | None:
    """The files of the version that was kept, if there is one; their columns are mapped."""
    found = kept_value(place)
    if found is None:
        return None
    starts, some = found["starts"], found["some"]
    ends = np.cumsum(np.diff(starts)[some])[:-1]
    pieces = iter(np.split(found["rows"], ends))
    columns = FileColumns(
        rows=tuple(next(pieces) if chosen else None for chosen in some.tolist()),
        starts=starts,
        partitions=found["partitions"],
        **found["columns"],
    )
    names = (name.decode(errors="surrogatepass") for name in found["names"])
    keys = tuple(zip(names, found["sizes"].tolist(), strict=True))
    return LiveFiles(keys, columns, found["removing"].tolist(), kept=len(columns))


def keep_live_files(place: KeptArrays, live: LiveFiles) -> LiveFiles:
    """Keeps the files of a version if many of them are not kept yet.

    Returns:
        The same files, which know how many of them are kept.
    """
    columns = live.columns
    missing = len(columns) - live.kept
    if len(columns) < LEAST_FILES or missing * _NEW_SHARE <= len(columns):
        return live
    some = [rows for rows in columns.rows if rows is not None]
    value = {
        "names": tuple(name.encode(errors="surrogatepass") for name, _ in live.keys),
        "sizes": np.array([size for _, size in live.keys], np.int64),
        "removing": np.array(live.removing, np.int64),
        "starts": columns.starts,
        "some": np.array([rows is not None for rows in columns.rows], np.bool_),
        "rows": np.concatenate([np.zeros(0, np.int64), *some]),
        "partitions": columns.partitions,
        "columns": columns.arrays,
    }
    keep_value(place, value)
    return replace(live, kept=len(columns))
