"""Files of the versions of a table, and their entry on the disk.

For processes that start later, the disk has the files of large tables: one entry per table and branch,
rewritten when it lacks many files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np

from app.planning.version.files import FileColumns
from app.storage import TierEntry
from app.table.manifests import (
    Manifest,
    ManifestFile,
    live_and_removing,
    live_rows,
    load_value,
    removes_files,
    store_value,
)

FORM: Final = "live files 1"
"""Name of the entry among everything derived from a table."""

LEAST_FILES: Final = 10_000
"""Gathering fewer files from manifests takes no longer than reading the entry."""
# An entry is rewritten when it lacks more than one file in this many.
_NEW_SHARE: Final = 8
_BYTES_OF_KEY: Final = 300


@dataclass(frozen=True, slots=True, eq=False)
class VersionFiles:
    """Files of a version, hidden ones included. The first ``on_disk`` of them are in the entry."""

    keys: Sequence[ManifestFile]
    columns: FileColumns
    removing: Sequence[int]
    on_disk: int = 0

    @classmethod
    def of(
        cls, keys: Sequence[ManifestFile], manifests: Sequence[Manifest], other: VersionFiles | None = None
    ) -> Self:
        """Gather the files of a version, starting from those of another version."""
        shared = 0 if other is None else _common(keys, other.keys)
        if (
            other is None
            or any(at >= shared for at in other.removing)
            or any(map(removes_files, manifests[shared:]))
        ):
            # A removal may hit any manifest before it, so nothing of the other version can be kept.
            live, removing = live_and_removing(manifests)
            return cls(keys, FileColumns.of(manifests, live), removing)
        before, added = other.columns.first(shared), manifests[shared:]
        on_disk = min(other.on_disk, len(before))
        if not added:
            return cls(keys, before, other.removing, on_disk)
        # A manifest that removes files may precede the one that adds them.
        rows = live_rows([manifests[at] for at in (*other.removing, *range(shared, len(keys)))])
        rows = rows[len(other.removing) :]
        return cls(keys, before.followed_by(FileColumns.of(added, rows)), other.removing, on_disk)

    def is_of(self, keys: Sequence[ManifestFile]) -> bool:
        """Return True if these are the files of the version whose manifests have ``keys``."""
        return len(keys) == len(self.keys) == _common(keys, self.keys)

    @property
    def nbytes(self) -> int:
        """Estimated bytes of memory."""
        return self.columns.nbytes + _BYTES_OF_KEY * len(self.keys)


def are_many(files: int) -> bool:
    """Return True if reading the entry takes less time than gathering this many files."""
    return files >= LEAST_FILES


def open_version_files(entry: TierEntry) -> VersionFiles | None:
    """Read an entry, mapping its columns. Return None if there is none."""
    stored = load_value(entry)
    if stored is None:
        return None
    starts, is_partial = stored["starts"], stored["some"]
    ends = np.cumsum(np.diff(starts)[is_partial])[:-1]
    pieces = iter(np.split(stored["rows"], ends))
    columns = FileColumns(
        rows=tuple(next(pieces) if chosen else None for chosen in is_partial.tolist()),
        starts=starts,
        partitions=stored["partitions"],
        **stored["columns"],
    )
    names = (name.decode(errors="surrogatepass") for name in stored["names"])
    keys = tuple(zip(names, stored["sizes"].tolist(), strict=True))
    return VersionFiles(keys, columns, stored["removing"].tolist(), on_disk=len(columns))


def store_version_files(entry: TierEntry, files: VersionFiles) -> VersionFiles:
    """Write an entry, unless it has most of the files."""
    columns = files.columns
    missing = len(columns) - files.on_disk
    if missing * _NEW_SHARE <= len(columns):
        return files
    partial_rows = [rows for rows in columns.rows if rows is not None]
    value = {
        "names": tuple(name.encode(errors="surrogatepass") for name, _ in files.keys),
        "sizes": np.array([size for _, size in files.keys], np.int64),
        "removing": np.array(files.removing, np.int64),
        "starts": columns.starts,
        "some": np.array([rows is not None for rows in columns.rows], np.bool_),
        "rows": np.concatenate([np.zeros(0, np.int64), *partial_rows]),
        "partitions": columns.partitions,
        "columns": columns.arrays,
    }
    store_value(entry, value)
    return replace(files, on_disk=len(columns))


def _common(keys: Sequence[ManifestFile], other_keys: Sequence[ManifestFile]) -> int:
    # Usually all of them are there: comparing lists as a whole is fastest.
    if [*keys[: len(other_keys)]] == [*other_keys]:
        return len(other_keys)
    pairs = enumerate(zip(keys, other_keys, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(keys), len(other_keys)))
