"""What the versions of a table consist of: manifest lists, manifests, index manifests, each decoded once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Final, Generic, TypeAlias, TypeVar

import pyarrow as pa

from app.errors import CorruptMetadataError, FileMissingError, SnapshotExpiredError, UnsupportedFormatError
from app.release import __version__
from app.storage import ByteCache
from app.storage.disk.column_entry import Columns
from app.storage.disk.disk_tier import KeptArrays
from app.storage.shared_tier import SharedArrays
from app.table.decoding import decode, report_undecodable
from app.table.manifests.disk_form import cached_on_disk, manifest_columns, open_manifest
from app.table.manifests.index_manifest import IndexEntry, IndexManifest
from app.table.manifests.manifest import EmbeddedIndexes, Manifest
from app.table.manifests.manifest_list import ManifestFile, ManifestList
from app.table.manifests.shared_groups import shared_groups
from app.table.records.expansion import claiming
from app.table.resolution import ResolvedSnapshot
from app.table.storage import TableReader
from app.types.roaring import Buffer
from app.work.memory import give_memory_back

Parsed = TypeVar("Parsed")
Made = TypeVar("Made")

_LARGE_BYTES: Final = 8 << 20

_SMALL_BYTES: Final = 1 << 20
_QUICK_SECONDS: Final = 0.005
"""Small files of this machine take less, so that threads would wait for each other more than for the disk."""

_EXPANSION: Final = 2
"""Manifests that are large since they embed indexes take so many times their bytes once they are decoded."""

_SHARED_BYTES: Final = 128 << 10
_SHARED_FILES: Final = 4
"""Fewer and smaller manifests are read and decoded in as little time as it takes to ask the shared tier."""
_SHARED_INDEX_BYTES: Final = 4 << 20
"""More bytes of embedded indexes take as long to read from the shared tier as from the warehouse."""

MetadataFile: TypeAlias = "tuple[str, int | None]"
"""Name of a file in the table's manifest directory, and its bytes where they are recorded."""


@dataclass(frozen=True, slots=True)
class _DiskForm(Generic[Parsed]):
    name: str
    columns: Callable[[Parsed], dict[str, pa.Array]]
    open: Callable[[KeptArrays | None, Callable[[], Parsed], Columns | None], Parsed | None]


@dataclass(frozen=True, slots=True)
class _Decoding(Generic[Parsed]):
    parse: Callable[[Buffer], Parsed]
    part: str = ""
    disk_form: _DiskForm[Parsed] | None = None

    @property
    def form_name(self) -> str:
        """What places call what is decoded."""
        return f"{'' if self.disk_form is None else self.disk_form.name} {self.part}"


_DISK_FORM: Final = _DiskForm("manifest 1", manifest_columns, open_manifest)
_LIST: Final = _Decoding(ManifestList.read)
_WHOLE: Final = _Decoding(Manifest.read, "", _DISK_FORM)
_WITHOUT_EMBEDDED: Final = _Decoding(
    lambda data: Manifest.read(data).without_embedded(), "without embedded indexes", _DISK_FORM
)
_EMBEDDED: Final = _Decoding(EmbeddedIndexes.read, "embedded indexes")
_INDEX_MANIFEST: Final = _Decoding(IndexManifest.read)


def _of_release(what: str) -> str:
    """The name of what a release judges of metadata, such as bounds: another one may judge better."""
    return f"{what} of release {__version__}"


class TableMetadata:
    """Reads and caches the metadata of one table.

    Every method may raise, besides what it says, SnapshotExpiredError (a file is not there any more) and
    CorruptMetadataError (it is damaged, or has not as many bytes as are recorded).
    """

    def __init__(self, reader: TableReader, directory: str, what: str) -> None:
        self._reader = reader
        self._storage = reader.storage
        self._directory = directory
        self._what = what

    def manifest_files(self, resolved: ResolvedSnapshot) -> tuple[ManifestFile, ...]:
        """The manifests of a version: what it had before its commit, then what that changed."""
        return tuple(
            chain.from_iterable(manifest_list.manifests for manifest_list in self.manifest_lists(resolved))
        )

    def manifest_lists(self, resolved: ResolvedSnapshot) -> Sequence[ManifestList]:
        """The lists of the manifests of a version, in the order of :meth:`manifest_files`."""
        snapshot = resolved.snapshot
        if snapshot is None:
            return ()
        files = (
            (snapshot.base_manifest_list, snapshot.base_manifest_list_size),
            (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
        )
        return self._get_all(self._reader.metadata, files, _LIST)

    def keeps_indexes_apart(self, resolved: ResolvedSnapshot) -> bool:
        """Whether manifests of a version may be too large for the cache with the indexes embedded in them."""
        capacity = self._reader.manifests.capacity
        size = sum(size or 0 for _, size in self.manifest_files(resolved))
        if _EXPANSION * size <= self._storage.arrays_capacity:
            # They are mapped, and take next to no memory.
            return False
        # They take more memory than bytes on disk, and what is nearly too large is evicted by others.
        return 2 * size > capacity > 0

    def manifests(
        self,
        resolved: ResolvedSnapshot,
        files: Sequence[ManifestFile] | None = None,
        *,
        whole: bool = True,
        cached: bool = True,
    ) -> tuple[Manifest, ...]:
        """Decoded manifests of a version, in their order.

        Args:
            files: which of :meth:`manifest_files`; None for all.
            whole: with the indexes embedded in them, even where :meth:`keeps_indexes_apart`.
            cached: whether the cache is asked for them, and gets them.

        Raises:
            UnsupportedFormatError: the table's files count equal rows.
        """
        files = self.manifest_files(resolved) if files is None else files
        decoding = _WHOLE if whole or not self.keeps_indexes_apart(resolved) else _WITHOUT_EMBEDDED
        cache = self._reader.manifests if cached else None
        manifests = tuple(self._get_all(cache, files, decoding, resolved))
        # Releases that know no write mode take the option as it is, and write files without keys.
        if resolved.schema.counts_rows and any(manifest.has_keys for manifest in manifests):
            raise UnsupportedFormatError(
                f"{self._what} has no primary key and was written under write-mode=change-log (value_count): "
                f"its files count equal rows, which only releases 0.4 and 0.5 read: copy it into a new table "
                f"with one of these"
            )
        return manifests

    def manifest(self, file: ManifestFile, *, whole: bool = True) -> Manifest:
        """One manifest, with the indexes embedded in it or without."""
        return self._get(self._reader.manifests, file, _WHOLE if whole else _WITHOUT_EMBEDDED)

    def embedded_indexes(self, file: ManifestFile) -> EmbeddedIndexes:
        """The indexes embedded in one manifest."""
        return self._get_all(self._reader.manifests, (file,), _EMBEDDED)[0]

    def keep(self, file: ManifestFile, manifest: Manifest) -> None:
        """Weighs a manifest anew, of which more is known than when it was loaded."""
        decoding = _WHOLE if manifest.embedded_digests is None else _WITHOUT_EMBEDDED
        self._reader.manifests.put(self._key(file, decoding), manifest)

    def derived_from_manifest(self, file: ManifestFile, what: str, make: Callable[[], Made]) -> Made:
        """What ``make`` makes of a manifest alone, from the disk if this release has made it as ``what``."""
        return cached_on_disk(self.place_of_manifest(file, _of_release(what)), make)

    def place_of_manifest(self, file: MetadataFile, what: str) -> KeptArrays | None:
        """Where the disk keeps what was made of a manifest alone; None without a disk."""
        name, size = file
        return self._storage.arrays_of(self._path(name), size, what)

    @property
    def is_shared(self) -> bool:
        """Whether processes share what is made of manifests."""
        return self._storage.shared_arrays_of(()) is not None

    def shared_groups(self, resolved: ResolvedSnapshot) -> Iterator[Sequence[ManifestFile]]:
        """The manifests of a version in groups, of which processes share what is made as one object."""
        files = self.manifest_files(resolved)
        return (files[numbers.start : numbers.stop] for numbers in shared_groups(files))

    def shared_of_manifests(self, made: Sequence[tuple[MetadataFile, str]]) -> SharedArrays | None:
        """Where processes share what was made of manifests, each as something; None where they do not."""
        return self._storage.shared_arrays_of([(self._path(name), size, what) for (name, size), what in made])

    def place_of_versions(self, resolved: ResolvedSnapshot, what: str) -> KeptArrays | None:
        """Where the disk keeps what this release made of versions of the table, one for all; or None."""
        return self._storage.arrays_of(resolved.directory, None, _of_release(what))

    def index_entries(self, resolved: ResolvedSnapshot) -> tuple[IndexEntry, ...]:
        """The hash indexes, deletion vector files and other index files of a version."""
        if resolved.snapshot is None or resolved.snapshot.index_manifest is None:
            return ()
        return self._get(
            self._reader.manifests, (resolved.snapshot.index_manifest, None), _INDEX_MANIFEST
        ).entries

    def _key(self, file: MetadataFile, decoding: _Decoding[Any]) -> Hashable:
        name, size = file
        return self._storage.name, self._directory, name, size, decoding.part

    def _place(self, file: MetadataFile, decoding: _Decoding[Any]) -> KeptArrays | None:
        form = decoding.disk_form
        return None if form is None else self.place_of_manifest(file, decoding.form_name)

    def _path(self, name: str) -> str:
        return f"{self._directory}/manifest/{name}"

    def _get(
        self,
        cache: ByteCache[Any] | None,
        file: MetadataFile,
        decoding: _Decoding[Parsed],
        place: KeptArrays | None = None,
    ) -> Parsed:
        """A file that is written once under a name of its own, decoded."""
        if cache is None:
            return self._load(file, decoding, place)
        key = self._key(file, decoding)
        parsed: Parsed = cache.get_or_load(key, lambda: self._load(file, decoding, place))
        return parsed

    def _load(self, file: MetadataFile, decoding: _Decoding[Parsed], place: KeptArrays | None) -> Parsed:
        form, place = decoding.disk_form, place or self._place(file, decoding)
        if form is None or place is None:
            return self._read(file, decoding.parse, is_kept=True)

        def read() -> Parsed:
            return self._read(file, decoding.parse, is_kept=False)

        found = form.open(place, read, None)
        if found is None:
            decoded = read()
            place.put(form.columns(decoded))
            # What is mapped takes less memory than what was decoded.
            found = form.open(place, read, None)
            return decoded if found is None else found
        return found

    def _read(self, file: MetadataFile, parse: Callable[[Buffer], Parsed], *, is_kept: bool) -> Parsed:
        name, size = file
        path = self._path(name)
        try:
            # Its writer named it after a random UUID, so that it is no other file's name even where the
            # table was dropped and made anew.
            with (
                self._reader.readers.room(size or 0, path),
                self._storage.reading(path, size, is_kept=is_kept) as data,
                self._reader.readers.decoding(path) as claim,
                claiming(claim.grow_to),
            ):
                decoded, length = decode(path, data, parse), len(data)
        except FileMissingError as error:
            raise SnapshotExpiredError(f"{path} is gone: its snapshot has expired", path=path) from error
        # Avro cut between two blocks is Avro as well, with fewer records: only the size tells.
        if size is not None and length != size:
            report_undecodable(path)
            found = "more" if length > size else length
            raise CorruptMetadataError(f"expected a file of {size} bytes, found {found}", path=path)
        return decoded

    def _get_all(
        self,
        cache: ByteCache[Any] | None,
        files: Sequence[MetadataFile],
        decoding: _Decoding[Parsed],
        of: ResolvedSnapshot | None = None,
    ) -> list[Parsed]:
        """Several files at once; what is cached already keeps no thread busy.

        ``of``: the version of all manifests, if processes may share what is made of them.
        """
        keys = [self._key(file, decoding) for file in files]
        found: dict[Any, Parsed] = {} if cache is None else cache.get_many(keys)
        if len(found) == len(keys):
            return [found[key] for key in keys]
        for file, key in zip(files, keys, strict=True):
            place = None if key in found else self._place(file, decoding)
            if place is not None and place.is_kept:
                # What is mapped is there before threads have handed over to each other.
                found[key] = self._get(cache, file, decoding, place)
        missing = {file: key for file, key in zip(files, keys, strict=True) if key not in found}
        absent = [] if of is None else self._get_shared(cache, missing, decoding, of, found)
        missing = {file: key for file, key in missing.items() if key not in found}
        total = sum(size or 0 for _, size in missing)
        is_quick = self._storage.is_local and total <= _SMALL_BYTES
        readers = self._reader.readers
        read = readers.map(
            lambda file: self._get(cache, file, decoding),
            missing,
            alone_seconds=_QUICK_SECONDS if is_quick else 0,
        )
        found |= zip(missing.values(), read, strict=True)
        if total > _LARGE_BYTES:
            readers.later(give_memory_back)
        for group, arrays in absent:
            members = [found.get(self._key(file, decoding)) for file in group]
            if decoding.disk_form is None or None in members:
                continue
            entries = [decoding.disk_form.columns(each) for each in members if each is not None]
            if sum(columns["embedded_indexes"].nbytes for columns in entries) <= _SHARED_INDEX_BYTES:
                arrays.offer(entries)
        return [found[key] for key in keys]

    def _get_shared(
        self,
        cache: ByteCache[Any] | None,
        missing: Mapping[MetadataFile, Hashable],
        decoding: _Decoding[Parsed],
        of: ResolvedSnapshot,
        found: dict[Any, Parsed],
    ) -> list[tuple[Sequence[MetadataFile], SharedArrays]]:
        """Adds to ``found`` what processes share of ``missing`` files; gives groups that nobody shares."""
        form = decoding.disk_form
        if form is None or not missing:
            return []
        worth: list[tuple[Sequence[MetadataFile], SharedArrays]] = []
        group: Sequence[MetadataFile]
        for group in self.shared_groups(of):
            sizes = [file[1] or 0 for file in group if file in missing]
            if len(sizes) < _SHARED_FILES and sum(sizes) < _SHARED_BYTES:
                continue
            arrays = self.shared_of_manifests([(file, decoding.form_name) for file in group])
            if arrays is None:
                return []
            worth.append((group, arrays))
        got = self._reader.readers.map(lambda each: each[1].get(), worth)
        for (group, arrays), columns in zip(worth, got, strict=True):
            for file, place, entry in zip(group, arrays.places, columns or (), strict=False):
                if entry is not None and file in missing:
                    read = partial(self._read, file, decoding.parse, is_kept=False)
                    parsed = form.open(place, read, entry)
                    if parsed is not None:
                        found[missing[file]] = parsed
                        if cache is not None:
                            cache.put(missing[file], parsed)
        return [each for each, columns in zip(worth, got, strict=True) if columns is None]
