"""Metadata files of a table (manifest lists, manifests, index manifests), each decoded once and cached."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast

import pyarrow as pa

from app.errors import (
    CorruptMetadataError,
    FileMissingError,
    LimitExceededError,
    MemoryShortError,
    SnapshotExpiredError,
    UnsupportedFormatError,
)
from app.release import __version__
from app.storage import ByteCache, Columns, TierEntry
from app.storage.disk import spill
from app.table.decoding import decode, report_undecodable
from app.table.manifests.disk_form import load_value, manifest_columns, open_manifest, store_value
from app.table.manifests.index_manifest import IndexEntry, IndexManifest
from app.table.manifests.manifest import Manifest
from app.table.manifests.manifest_list import ManifestFile, ManifestList
from app.table.records.expansion import claiming
from app.table.resolution import ResolvedSnapshot
from app.table.storage import TableReader
from app.types.roaring import Buffer
from app.work import LEDGER, apart, give_memory_back

_Parsed = TypeVar("_Parsed")
_Made = TypeVar("_Made")

_LARGE_BYTES: Final = 8 << 20

_SMALL_BYTES: Final = 1 << 20

# The manifests of one version hold at most a quarter of the cache; the rest is spilled and mapped.
_SHARE_OF_CACHE: Final = 4

_SHARED_BYTES: Final = 128 << 10
# Reading and decoding fewer files or bytes takes no longer than a request to the shared tier.
_SHARED_FILES: Final = 4
# Larger embedded indexes take as long to fetch from the shared tier as from the warehouse.
_SHARED_INDEX_BYTES: Final = 4 << 20

# Memory to decode a byte of a file with embedded indexes, which expand little and are copied once.
_DECODING: Final = 2
# One load claims at most this part of the room before it begins, if the file itself fits into it.
_SHARE_OF_ROOM: Final = 4

# Name of a file in the table's manifest directory, and its size in bytes if that is recorded.
MetadataFile: TypeAlias = "tuple[str, int | None]"


@dataclass(frozen=True, slots=True)
class _DiskForm(Generic[_Parsed]):
    name: str
    columns: Callable[[_Parsed], dict[str, pa.Array]]
    open: Callable[[Columns, TierEntry | None, Callable[[], _Parsed]], _Parsed]
    weigh: Callable[[_Parsed], int]


@dataclass(frozen=True, slots=True)
class _Decoding(Generic[_Parsed]):
    parse: Callable[[Buffer], _Parsed]
    disk_form: _DiskForm[_Parsed] | None = None


_LIST: Final = _Decoding(ManifestList.read)
_MANIFEST: Final = _Decoding(
    Manifest.read, _DiskForm("manifest 1", manifest_columns, open_manifest, attrgetter("nbytes"))
)
_INDEX_MANIFEST: Final = _Decoding(IndexManifest.read)


def _claimed_bytes(size: int | None) -> int:
    """Return the memory to claim before the read. The claim grows if the file expands to more."""
    known = size or 0
    return int(min(_DECODING * known, max(known, LEDGER.room / _SHARE_OF_ROOM)))


class _Budget:
    """Memory budget for the manifests of one version, shared by the threads that load them."""

    def __init__(self, size: int) -> None:
        self._free_bytes = size
        self._lock = threading.Lock()

    def reserve(self, size: int) -> bool:
        """Reserve ``size`` bytes and return True, or return False if they do not fit."""
        with self._lock:
            if size > self._free_bytes:
                return False
            self._free_bytes -= size
            return True


def _for_this_release(content: str) -> str:
    # Another release may compute bounds from the same metadata differently, so entries are per release.
    return f"{content} of release {__version__}"


class TableMetadata:
    """Reads and caches the metadata of one table.

    Every method may also raise SnapshotExpiredError (a file is gone) and CorruptMetadataError (a file is
    damaged, or has another size than recorded).
    """

    def __init__(self, reader: TableReader, directory: str, label: str) -> None:
        self._reader = reader
        self._storage = reader.storage
        self._directory = directory
        self._label = label

    def manifest_files(self, resolved: ResolvedSnapshot) -> tuple[ManifestFile, ...]:
        """List the manifests of a version: the base first, then the delta of its commit."""
        return tuple(
            chain.from_iterable(manifest_list.manifests for manifest_list in self.manifest_lists(resolved))
        )

    def manifest_lists(self, resolved: ResolvedSnapshot) -> Sequence[ManifestList]:
        """Read the manifest lists of a version, in the order of :meth:`manifest_files`."""
        snapshot = resolved.snapshot
        if snapshot is None:
            return ()
        files = (
            (snapshot.base_manifest_list, snapshot.base_manifest_list_size),
            (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
        )
        return self._get_all(self._reader.metadata, files, _LIST)

    def manifests(
        self,
        resolved: ResolvedSnapshot,
        files: Sequence[ManifestFile] | None = None,
        *,
        at_once: bool = True,
    ) -> tuple[Manifest, ...]:
        """Read manifests of a version, in order.

        ``files``: a subset of :meth:`manifest_files`. None for all.
        ``at_once``: read several manifests concurrently.

        Raises LimitExceededError if the manifests exceed the memory budget and cannot be spilled to disk.
        Raises UnsupportedFormatError if the table was written with write-mode=change-log without a primary
        key.
        """
        files = self.manifest_files(resolved) if files is None else files
        manifests = tuple(self._get_all(self._reader.manifests, files, _MANIFEST, at_once=at_once))
        # Releases without write modes accept the option, and write files without keys.
        if resolved.schema.counts_rows and any(manifest.has_keys for manifest in manifests):
            raise UnsupportedFormatError(
                f"{self._label} has no primary key and was written with write-mode=change-log (value_count): "
                f"its files hold rows with counts, which only releases 0.4 and 0.5 read: copy it to a new "
                f"table with one of these"
            )
        return manifests

    def manifest(self, file: ManifestFile) -> Manifest:
        """Read one manifest."""
        return self._get(self._reader.manifests, file, _MANIFEST)

    def keep(self, file: ManifestFile, manifest: Manifest) -> None:
        """Put a manifest into the cache again, so that its weight includes values derived from it."""
        self._reader.manifests.put(self._key(file), manifest)

    def derived_from_manifest(self, file: ManifestFile, label: str, make: Callable[[], _Made]) -> _Made:
        """Load from disk a value that this release derived from one manifest, or ``make`` and store it."""
        name, size = file
        tiers, path = self._reader.tiers.on_disk, self._path(name)
        entry = tiers.entry(self._storage.place, path, size, _for_this_release(label))
        if entry is None:
            return make()
        value = load_value(entry)
        if value is None:
            made = make()
            store_value(entry, made)
            # Return the mapped copy: it takes less memory than the value just made.
            value = load_value(entry)
            return made if value is None else cast("_Made", value)
        return cast("_Made", value)

    def entry_of_manifest(self, file: MetadataFile, label: str) -> TierEntry | None:
        """Return the cache entry for a value derived from one manifest. Return None without tiers."""
        name, size = file
        return self._reader.tiers.entry(self._storage.place, self._path(name), size, label)

    def entry_of_versions(self, resolved: ResolvedSnapshot, label: str) -> TierEntry | None:
        """Return this release's disk entry that all versions share. Return None without a disk."""
        tiers = self._reader.tiers.on_disk
        return tiers.entry(self._storage.place, resolved.directory, None, _for_this_release(label))

    @property
    def is_on_disk(self) -> bool:
        """True if values derived from manifests are on this machine's disk."""
        return self._reader.tiers.directory is not None

    @property
    def is_shared(self) -> bool:
        """True if several processes share values derived from manifests."""
        return self._reader.tiers.store is not None

    def index_entries(self, resolved: ResolvedSnapshot) -> tuple[IndexEntry, ...]:
        """Read the hash index, deletion vector and global index entries of a version."""
        if resolved.snapshot is None or resolved.snapshot.index_manifest is None:
            return ()
        return self._get(
            self._reader.manifests, (resolved.snapshot.index_manifest, None), _INDEX_MANIFEST
        ).entries

    def begin_index_entries(self, resolved: ResolvedSnapshot) -> None:
        """Prefetch the index entries in a thread if the warehouse is remote."""
        snapshot = resolved.snapshot
        if self._storage.is_local or snapshot is None or snapshot.index_manifest is None:
            return
        if not self._reader.manifests.get_many([self._key((snapshot.index_manifest, None))]):
            self._reader.readers.begin(partial(self.index_entries, resolved))

    def _key(self, file: MetadataFile) -> Hashable:
        return self._storage.name, self._directory, *file

    def _entry(self, file: MetadataFile, decoding: _Decoding[Any]) -> TierEntry | None:
        form = decoding.disk_form
        return None if form is None else self.entry_of_manifest(file, form.name)

    def _path(self, name: str) -> str:
        return f"{self._directory}/manifest/{name}"

    def _get(
        self,
        cache: ByteCache[Any],
        file: MetadataFile,
        decoding: _Decoding[_Parsed],
        budget: _Budget | None = None,
        *,
        in_shared_tier: bool = False,
    ) -> _Parsed:
        parsed: _Parsed = cache.get_or_load(
            self._key(file), lambda: self._load(file, decoding, budget, in_shared_tier=in_shared_tier)
        )
        return parsed

    def _load(
        self,
        file: MetadataFile,
        decoding: _Decoding[_Parsed],
        budget: _Budget | None,
        *,
        in_shared_tier: bool,
    ) -> _Parsed:
        form, entry = decoding.disk_form, self._entry(file, decoding)
        if form is None:
            return self._read(file, decoding.parse, is_kept=True)
        columns = None if entry is None else entry.get()
        read = partial(self._read, file, decoding.parse, is_kept=False)
        with ExitStack() as claimed:
            if columns is None and entry is not None and in_shared_tier:
                # The tier's own claim ends with its call. This one lasts until the cache weighs the columns.
                expected = int(min(file[1] or 0, LEDGER.room / 2))
                claim = claimed.enter_context(self._reader.readers.decoding(expected, self._path(file[0])))
                columns = entry.fetch()
                claim.grow_to(0 if columns is None else columns.held)
            if columns is None:
                decoded = claimed.enter_context(self._decoded(file, decoding.parse, is_kept=False))
                if entry is not None:
                    made = form.columns(decoded)
                    entry.put(made)
                    if in_shared_tier and made["embedded_indexes"].nbytes <= _SHARED_INDEX_BYTES:
                        entry.share(made)
                    # Mapped columns take less memory than decoded ones.
                    columns = entry.get()
            if columns is not None:
                decoded = form.open(columns, entry, read)
            if (
                budget is None
                or (columns is not None and not columns.held)
                or budget.reserve(form.weigh(decoded))
            ):
                return decoded
            return form.open(self._spill(file, form.columns(decoded)), entry, read)

    def _spill(self, file: MetadataFile, columns: Mapping[str, pa.Array]) -> Columns:
        try:
            return spill(columns)
        except OSError as error:
            raise LimitExceededError(
                f"{self._path(file[0])}: the manifests of the version take more than a quarter of the memory "
                f"for caches, and cannot be spilled to a temporary file ({error.strerror or error}): set "
                "PAIMON_INDEX_DISK_CACHE or TMPDIR to a disk's directory, or raise PAIMON_INDEX_MEMORY_BYTES",
                limit=self._reader.manifests.capacity // _SHARE_OF_CACHE,
            ) from error

    def _read(self, file: MetadataFile, parse: Callable[[Buffer], _Parsed], *, is_kept: bool) -> _Parsed:
        with self._decoded(file, parse, is_kept=is_kept) as decoded:
            return decoded

    @contextmanager
    def _decoded(
        self, file: MetadataFile, parse: Callable[[Buffer], _Parsed], *, is_kept: bool
    ) -> Iterator[_Parsed]:
        """Read and decode a file. Its memory stays claimed from before the read to the end of the block."""
        name, size = file
        path, known = self._path(name), size or 0
        with self._reader.readers.decoding(_claimed_bytes(size), path) as claim:
            try:
                # Writers name these files after random UUIDs, so names stay unique even if the table is
                # dropped and created again.
                with (
                    self._storage.reading(path, size, is_kept=is_kept) as data,
                    self._reader.readers.core(),
                    claiming(lambda total: claim.grow_to(known + total)),
                ):
                    decoded, length = decode(path, data, parse), len(data)
                    del data
            except FileMissingError as error:
                raise SnapshotExpiredError(f"{path} is gone: its snapshot has expired", path=path) from error
            # Avro cut between two blocks is valid Avro with fewer records: only the size reveals it.
            if size is not None and length != size:
                report_undecodable(path)
                actual = "more" if length > size else length
                raise CorruptMetadataError(f"expected a file of {size} bytes, found {actual}", path=path)
            yield decoded

    def _get_all(
        self,
        cache: ByteCache[Any],
        files: Sequence[MetadataFile],
        decoding: _Decoding[_Parsed],
        *,
        at_once: bool = True,
    ) -> list[_Parsed]:
        keys = [self._key(file) for file in files]
        # Look up cached files first, so that they occupy no reader thread.
        loaded: dict[Any, _Parsed] = cache.get_many(keys)
        if len(loaded) == len(keys):
            return [loaded[key] for key in keys]
        budget = None
        if decoding.disk_form is not None and cache.capacity:
            budget = _Budget(
                cache.capacity // _SHARE_OF_CACHE - sum(map(decoding.disk_form.weigh, loaded.values()))
            )
        for file, key in zip(files, keys, strict=True):
            entry = None if key in loaded else self._entry(file, decoding)
            if entry is not None and entry.is_on_disk:
                # Loading a mapped entry takes less time than handing it to another thread.
                loaded[key] = self._get(cache, file, decoding, budget)
        missing = {file: key for file, key in zip(files, keys, strict=True) if key not in loaded}
        total = sum(size or 0 for _, size in missing)
        in_shared_tier = len(missing) >= _SHARED_FILES or total >= _SHARED_BYTES

        def load(file: MetadataFile) -> _Parsed:
            return self._get(cache, file, decoding, budget, in_shared_tier=in_shared_tier)

        # Each file waits for its own memory; as one piece of work, all but the first would be refused.
        with apart():
            read: list[_Parsed] = []
            if at_once:
                with suppress(MemoryShortError):
                    read = self._reader.readers.map(
                        load,
                        missing,
                        may_be_quick=self._storage.is_local and total <= _SMALL_BYTES,
                        claimed_bytes=max((_claimed_bytes(size) for _, size in missing), default=0),
                    )
            # Manifests loaded before the error are cached. The rest may fit one after the other.
            read = read or list(map(load, missing))
        loaded |= zip(missing.values(), read, strict=True)
        if total > _LARGE_BYTES:
            self._reader.readers.submit_detached(give_memory_back)
        return [loaded[key] for key in keys]
