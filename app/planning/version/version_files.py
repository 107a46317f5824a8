"""All data files of a version, found from those of another version where that is possible.

Most commits add a manifest to those that were there, and remove no file. Then the files of the other
manifests are still there under their numbers, and only entries of the new manifest are looked at.

Large tables have them on the disk as well, for the processes that start later: one entry for each table and
branch, with the files of a version that was planned. It is written anew when many files are missing in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np

from app.planning.version.files import FileColumns
from app.planning.version.manifests import Manifests
from app.storage.disk_tier import KeptArrays
from app.table.manifests.disk_form import load_value, store_value
from app.table.manifests.live_files import live_and_removing, live_rows, removes_files
from app.table.manifests.manifest_list import ManifestFile

FORM: Final = "live files 1"
"""What the entry is called among all that is made of a table."""

LEAST_FILES: Final = 10_000
"""Fewer are put together from their manifests in as little time."""
_NEW_SHARE: Final = 8
"""An entry is written anew when more than one file in so many is missing in it."""
_BYTES_OF_KEY: Final = 300


@dataclass(frozen=True, slots=True, eq=False)
class VersionFiles:
    """The files of a version, those that no batch read sees included.

    Attributes:
        columns: the files.
        on_disk: so many files, the first ones, lie on the disk.
    """

    keys: Sequence[ManifestFile]
    columns: FileColumns
    removing: Sequence[int]
    on_disk: int = 0

    @classmethod
    def of(
        cls, keys: Sequence[ManifestFile], manifests: Manifests, other: VersionFiles | None = None
    ) -> Self:
        """The files of a version."""
        same = 0 if other is None else _common(keys, other.keys)
        if (
            other is None
            or any(at >= same for at in other.removing)
            or any(map(removes_files, manifests[same:]))
        ):
            live, removing = live_and_removing(manifests)
            return cls(keys, FileColumns.of(manifests, live), removing)
        before, added = other.columns.first(same), manifests[same:]
        on_disk = min(other.on_disk, len(before))
        if not added:
            return cls(keys, before, other.removing, on_disk)
        # What is added may have been removed before.
        rows = live_rows(manifests.choose([*other.removing, *range(same, len(keys))]))
        rows = rows[len(other.removing) :]
        return cls(keys, before.followed_by(FileColumns.of(added, rows)), other.removing, on_disk)

    def is_of(self, keys: Sequence[ManifestFile]) -> bool:
        """Whether these are the files of the version whose manifests have these keys."""
        return len(keys) == len(self.keys) == _common(keys, self.keys)

    @property
    def nbytes(self) -> int:
        """About how much memory the object takes."""
        return self.columns.nbytes + _BYTES_OF_KEY * len(self.keys)


def open_version_files(place: KeptArrays) -> VersionFiles | None:
    """The files of the version that lies on the disk, if there is one; their columns are mapped."""
    stored = load_value(place)
    if stored is None:
        return None
    starts, some = stored["starts"], stored["some"]
    ends = np.cumsum(np.diff(starts)[some])[:-1]
    pieces = iter(np.split(stored["rows"], ends))
    columns = FileColumns(
        rows=tuple(next(pieces) if chosen else None for chosen in some.tolist()),
        starts=starts,
        partitions=stored["partitions"],
        **stored["columns"],
    )
    names = (name.decode(errors="surrogatepass") for name in stored["names"])
    keys = tuple(zip(names, stored["sizes"].tolist(), strict=True))
    return VersionFiles(keys, columns, stored["removing"].tolist(), on_disk=len(columns))


def store_version_files(place: KeptArrays, files: VersionFiles) -> VersionFiles:
    """Writes the files of a version to the disk if many of them are not there yet."""
    columns = files.columns
    missing = len(columns) - files.on_disk
    if len(columns) < LEAST_FILES or missing * _NEW_SHARE <= len(columns):
        return files
    some = [rows for rows in columns.rows if rows is not None]
    value = {
        "names": tuple(name.encode(errors="surrogatepass") for name, _ in files.keys),
        "sizes": np.array([size for _, size in files.keys], np.int64),
        "removing": np.array(files.removing, np.int64),
        "starts": columns.starts,
        "some": np.array([rows is not None for rows in columns.rows], np.bool_),
        "rows": np.concatenate([np.zeros(0, np.int64), *some]),
        "partitions": columns.partitions,
        "columns": columns.arrays,
    }
    store_value(place, value)
    return replace(files, on_disk=len(columns))


def _common(keys: Sequence[ManifestFile], others: Sequence[ManifestFile]) -> int:
    # Mostly these are all of the others, which is told fastest of all of them together.
    if [*keys[: len(others)]] == [*others]:
        return len(others)
    pairs = enumerate(zip(keys, others, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(keys), len(others)))
