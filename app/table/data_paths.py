"""Paths of the existing data files of one version, in the spelling of whoever wrote them.

No metadata says under which of :func:`partition_names` a file is. Where a partition has several names, the
directories above it are listed, each once for a version, as far as needed to distinguish them. If more than
one exists, their own listings decide for each file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.table.manifests.manifest_entry import ManifestEntry
from app.table.paths import TablePaths, bucket_below
from app.table.schema.partition import partition_names
from app.table.storage import TableReader

_BYTES_PER_NAME = 160


class DirectoryNames(frozenset[str]):
    """Names in a directory."""

    @property
    def nbytes(self) -> int:
        """Estimated bytes of memory."""
        return _BYTES_PER_NAME * len(self)


@dataclass(frozen=True, slots=True)
class DataPaths:
    """Paths of existing data files. Methods raise StorageError if a directory cannot be listed."""

    paths: TablePaths
    reader: TableReader
    # Partitions of the version. Files of later versions may be in new directories.
    identity: str

    def data_file(self, entry: ManifestEntry) -> str:
        """Return the path of a data file."""
        if entry.file.external_path is not None:
            return entry.file.external_path
        name = entry.file.file_name
        return f"{self.locate(entry.partition, entry.bucket)(name)}/{name}"

    def locate(self, partition: bytes, bucket: int) -> Callable[[str], str]:
        """Return a function from the name of a data file in a bucket to its directory."""
        existing = self._existing(partition) or [self.paths.partition_directory(partition)]
        first, *others = [bucket_below(directory, bucket) for directory in existing]
        listed = [(directory, self._names(directory)) for directory in others]
        return lambda name: next((directory for directory, names in listed if name in names), first)

    def existing(self, partitions: Sequence[bytes]) -> list[list[str]]:
        """Return the existing directories of each partition. Unchecked if there is only one possible name."""
        return self.reader.readers.map(self._existing, partitions, may_be_quick=True)

    def _existing(self, partition: bytes) -> list[str]:
        found = [self.paths.root]
        for names in partition_names(partition, self.paths.schema):
            is_only = len(found) * len(names) == 1
            found = [
                f"{above}/{name}" for above in found for name in names if is_only or self._has(above, name)
            ]
        return found

    def _has(self, directory: str, name: str) -> bool:
        first, slash, rest = name.partition("/")
        return first in self._names(directory) and (not slash or self._has(f"{directory}/{first}", rest))

    def _names(self, directory: str) -> DirectoryNames:
        storage = self.reader.storage
        key = (storage.name, "names", self.identity, directory)
        names: DirectoryNames = self.reader.manifests.get_or_load(
            key, lambda: DirectoryNames(storage.list_names(directory))
        )
        return names
