"""The files that are there in a version, told from those of another version where that is possible.

Most commits add a manifest to those that were there, and remove no file. Then the files of the other
manifests are still there under their numbers, and only entries of what was added are looked at: which saves
time where there are very many manifests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from app.planning.version.files import FileColumns
from app.planning.version.passing_manifests import PassingManifests
from app.table.manifests.live_files import live_and_removing, live_rows, removes_files
from app.table.manifests.manifest import Manifest
from app.table.manifests.manifest_list import ManifestFile

_BYTES_OF_KEY: Final = 300


@dataclass(frozen=True, slots=True, eq=False)
class LiveFiles:
    """The files of a version, those that no batch read sees included.

    Attributes:
        keys: what tells each manifest from all others.
        columns: the files.
        removing: numbers of the manifests that remove files.
        kept: so many files, the first ones, lie on the disk (:mod:`app.planning.version.contents`).
    """

    keys: Sequence[ManifestFile]
    columns: FileColumns
    removing: Sequence[int]
    kept: int = 0

    @classmethod
    def of(
        cls, keys: Sequence[ManifestFile], manifests: Sequence[Manifest], other: LiveFiles | None = None
    ) -> Self:
        """The files of a version.

        Args:
            keys: of its manifests.
            manifests: all of them.
            other: of another version of the table, if one is known.
        """
        same = 0 if other is None else _common(keys, other.keys)
        if (
            other is None
            or any(at >= same for at in other.removing)
            or any(map(removes_files, manifests[same:]))
        ):
            live, removing = live_and_removing(manifests)
            return cls(keys, FileColumns.of(manifests, live), removing)
        before, added = other.columns.first(same), manifests[same:]
        kept = min(other.kept, len(before))
        if not added:
            return cls(keys, before, other.removing, kept)
        # What is added may have been removed before.
        rows = live_rows(_some(manifests, [*other.removing, *range(same, len(keys))]))
        rows = rows[len(other.removing) :]
        return cls(keys, before.followed_by(FileColumns.of(added, rows)), other.removing, kept)

    def is_of(self, keys: Sequence[ManifestFile]) -> bool:
        """Whether these are the files of the version whose manifests have these keys."""
        return len(keys) == len(self.keys) == _common(keys, self.keys)

    @property
    def nbytes(self) -> int:
        """About how much memory the object takes."""
        return self.columns.nbytes + _BYTES_OF_KEY * len(self.keys)


def _some(manifests: Sequence[Manifest], numbers: Sequence[int]) -> Sequence[Manifest]:
    """The manifests of these numbers."""
    if isinstance(manifests, PassingManifests):
        return manifests.some(numbers)
    return [manifests[number] for number in numbers]


def _common(keys: Sequence[ManifestFile], others: Sequence[ManifestFile]) -> int:
    """How many keys both begin with."""
    # Mostly these are all of the others, which is told fastest of all of them together.
    if [*keys[: len(others)]] == [*others]:
        return len(others)
    pairs = enumerate(zip(keys, others, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(keys), len(others)))
