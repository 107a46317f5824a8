"""Paths of the existing data files of one version, in the spelling of whoever wrote them.

No metadata says under which of :func:`partition_names` a file is. Where a partition has several names, the
directories above it are listed, each once for a version, as far as needed to distinguish them. If more than
one exists, their own listings decide for each file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TypeAlias

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


_NamesIn: TypeAlias = Callable[[str], DirectoryNames]


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
        existing = self._existing(partition_names(partition, self.paths.schema), self._names)
        directories = existing or [self.paths.partition_directory(partition)]
        first, *others = [bucket_below(directory, bucket) for directory in directories]
        listed = [(directory, self._names(directory)) for directory in others]
        return lambda name: next((directory for directory, names in listed if name in names), first)

    def moved(self, partitions: Sequence[bytes]) -> list[list[str] | None]:
        """Return the existing directories of each partition. Return None for the engine's directory alone.

        A directory is not looked for if it is the only one that the partition can have.
        """
        names_in = cache(self._names)
        return self.reader.readers.map(partial(self._moved, names_in), partitions, may_be_quick=True)

    def _moved(self, names_in: _NamesIn, partition: bytes) -> list[str] | None:
        levels = partition_names(partition, self.paths.schema)
        of_engine = "/".join((self.paths.root, *(names[0] for names in levels)))
        existing = self._existing(levels, names_in)
        return None if existing == [of_engine] else existing

    def _existing(self, levels: Sequence[Sequence[str]], names_in: _NamesIn) -> list[str]:
        found = [self.paths.root]
        for names in levels:
            is_only = len(found) * len(names) == 1
            found = [
                f"{above}/{name}"
                for above in found
                for name in names
                if is_only or _has(above, name, names_in)
            ]
        return found

    def _names(self, directory: str) -> DirectoryNames:
        storage = self.reader.storage
        key = (storage.name, "names", self.identity, directory)
        names: DirectoryNames = self.reader.manifests.get_or_load(
            key, lambda: DirectoryNames(storage.list_names(directory))
        )
        return names


def _has(directory: str, name: str, names_in: _NamesIn) -> bool:
    first, slash, rest = name.partition("/")
    return first in names_in(directory) and (not slash or _has(f"{directory}/{first}", rest, names_in))
