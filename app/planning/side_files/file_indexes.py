"""The file indexes of a version's data files, whether embedded in manifests or beside the data.

Embedded indexes are stacked for a whole manifest at once, over the bytes that the manifest holds anyway, and
stay with it. Those in files of their own are fetched for the files that are asked about
(:mod:`app.planning.side_files.indexes`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from app.errors import CorruptIndexError
from app.file_index.index_kinds import KINDS
from app.file_index.stacked.index import StackedIndex
from app.planning.side_files.indexes import SideIndexes
from app.planning.version.file_bounds import FileBounds
from app.storage import check_deadline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from app.errors import PaimonIndexError
    from app.file_index.container import FileIndex
    from app.file_index.index_choice import WantedIndexes
    from app.planning.version.version import Version
    from app.table.manifests.derived import Derived
    from app.table.manifests.manifest import Manifest
    from app.types.bytes_column import BytesColumn


@dataclass(frozen=True, slots=True, eq=False)
class Stacked:
    """The indexes of some files, stacked.

    Attributes:
        at: int64, shape (k,): positions of the files among those that were asked about.
        index: their indexes, and possibly those of others.
        places: int64, shape (k,): position of each file in ``index``.
    """

    at: NDArray[np.int64]
    index: StackedIndex
    places: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FileIndexes:
    """The file indexes of one version."""

    version: Version
    _beside: dict[int, SideIndexes] = field(default_factory=dict)
    _apart: set[int] = field(default_factory=set)
    """Numbers of manifests whose embedded indexes were loaded by themselves."""

    def has_index(self, files: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of ascending ``files`` have an index.

        Raises:
            CorruptMetadataError: a file has more than one.
        """
        found = np.zeros(len(files), np.bool_)
        all_files = self.version.files()
        for number, part, rows in all_files.by_manifest(files):
            embedded = ~all_files.manifests[number].embedded_indexes.is_null[rows]
            found[part] = embedded if embedded.all() else embedded | self._side(number).has_index(rows)
        return found

    def path(self, file: int) -> str:
        """The file that a file's index is in."""
        version = self.version
        number, row = version.files().place(file)
        if version.files().manifests[number].embedded_indexes.lengths[row] < 0:
            return self._side(number).paths(np.array([row]))[0]
        return (
            f"{version.source.paths.data_file(version.files().entry(file))} (index embedded in its manifest)"
        )

    def stacks(self, files: NDArray[np.int64], wanted: WantedIndexes) -> Iterator[Stacked]:
        """The indexes of ascending ``files`` that all have one, in as few stacks as there is memory for.

        Files whose indexes cannot be read are left out; :meth:`failures` tells why.

        Args:
            files: which files.
            wanted: which of their indexes are going to be asked.

        Raises:
            DeadlineExceededError: the request's time ran out.
        """
        all_files = self.version.files()
        for number, part, rows in all_files.by_manifest(files):
            check_deadline()
            manifest = all_files.manifests[number]
            positions = np.arange(part.start, part.stop)
            embedded = ~manifest.embedded_indexes.is_null[rows]
            if embedded.any():
                yield Stacked(positions[embedded], self._embedded(number, manifest), rows[embedded])
            if not embedded.all():
                beside = positions[~embedded]
                for at, index, places in self._side(number).stacks(rows[~embedded], wanted):
                    yield Stacked(beside[at], index, places)

    def open(
        self, files: NDArray[np.int64], wanted: WantedIndexes
    ) -> Iterator[tuple[int, FileIndex | CorruptIndexError]]:
        """The indexes of single files, or why they cannot be decoded; the rest as above."""
        for stacked in self.stacks(files, wanted):
            for file, place in zip(files[stacked.at].tolist(), stacked.places.tolist(), strict=True):
                check_deadline()
                try:
                    found: FileIndex | CorruptIndexError = stacked.index.file_index(place)
                except CorruptIndexError as error:
                    found = error
                yield file, found

    def warnings(self) -> list[str]:
        """What the caller has to know of how indexes were loaded."""
        if not self._apart:
            return []
        size = sum(size or 0 for _, size in self.version.manifest_files())
        told = (
            f"indexes embedded in {len(self._apart)} manifests are read again for each plan that asks them: "
            f"the version's manifests ({size} bytes) are too large to be kept beside those of other tables, "
            "unless PAIMON_INDEX_CACHE_MANIFESTS_BYTES gets more memory"
        )
        return [told]

    def failures(self, files: NDArray[np.int64]) -> Iterator[tuple[int, PaimonIndexError]]:
        """Why indexes of ascending ``files`` could not be read, as far as somebody asked for them."""
        for number, part, rows in self.version.files().by_manifest(files):
            found = self._beside[number].failures if number in self._beside else {}
            if found:
                failed = np.isin(rows, list(found))
                for file, row in zip(files[part][failed].tolist(), rows[failed].tolist(), strict=True):
                    yield file, found[row]

    def _embedded(self, number: int, manifest: Manifest) -> StackedIndex:
        """The indexes embedded in a manifest; positions are its rows."""
        if manifest.embedded_digests is None:
            return _stacked(manifest.embedded_indexes, manifest.derived)
        # Of these there is one at a time, since all of them may be more than there is memory for.
        self._apart.add(number)
        apart = self.version.table.embedded_indexes(self.version.manifest_files()[number])
        return _stacked(apart.column, apart.derived)

    def _side(self, number: int) -> SideIndexes:
        if number not in self._beside:
            version = self.version
            key = (version.source.warehouse.name, version.table.directory, *version.manifest_files()[number])
            self._beside[number] = SideIndexes(version.source, version.files().manifests[number], key)
        return self._beside[number]


def open_declared(version: Version) -> None:
    """Opens what filters on indexed columns ask first: their statistics, and indexes embedded in manifests.

    Raises:
        CorruptMetadataError: the statistics of one of the manifests are damaged.
    """
    files, bounds = version.files(), FileBounds(version)
    for declared in version.schema.options.file_indexes:
        column, kind = version.schema.by_name.get(declared.column), KINDS.get(declared.kind)
        if column is None or kind is None:
            continue
        bounds.values(column, files.all())
        for manifest in files.manifests:
            if manifest.embedded_digests is None and not manifest.embedded_indexes.is_null.all():
                _stacked(manifest.embedded_indexes, manifest.derived).open(column.name, kind, column.type)


def _stacked(embedded: BytesColumn, derived: Derived) -> StackedIndex:
    return derived.get_or_make(
        "embedded indexes", lambda: StackedIndex.read(embedded), lambda index: index.own_nbytes
    )
