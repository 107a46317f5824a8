"""Loads the file indexes of a version's data files, whether embedded in manifests or beside the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from app.errors import CorruptIndexError, DeadlineExceededError, StorageError, UnsupportedFormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from app.file_index.container import FileIndex
    from app.planning.version import Version


@dataclass(frozen=True, slots=True)
class FileIndexes:
    """The file indexes of one version."""

    version: Version

    def has_index(self, files: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of ascending ``files`` have an index."""
        found = np.zeros(len(files), np.bool_)
        all_files = self.version.files
        for number, part, rows in all_files.by_manifest(files):
            manifest = all_files.manifests[number]
            found[part] = ~manifest.embedded_indexes.is_null[rows] | ~manifest.side_indexes().is_null[rows]
        return found

    def path(self, file: int) -> str:
        """The file that a file's index is in."""
        entry = self.version.files.entry(file)
        paths = self.version.loader.paths
        return paths.side_index(entry) or paths.data_file(entry)

    def open(self, files: Iterable[int]) -> Iterator[tuple[int, FileIndex | Exception]]:
        """The index of each file, or why it cannot be used."""
        for file in files:
            entry = self.version.files.entry(file)
            try:
                yield file, self.version.loader.file_index(entry)
            except DeadlineExceededError:
                raise
            except (CorruptIndexError, UnsupportedFormatError, StorageError) as error:
                yield file, error
