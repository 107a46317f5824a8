"""Metadata files that never change (manifest lists, manifests, index manifests), each decoded once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, TypeAlias, TypeVar

from app.errors import CorruptMetadataError, FileMissingError, SnapshotExpiredError
from app.storage import ByteCache, Readers
from app.storage.kept_arrays import KeptArrays
from app.storage.memory import give_memory_back
from app.table.decoding import decode, report_undecodable
from app.table.records.expansion import asking
from app.table.storage import Storage
from app.types.roaring import Buffer

Parsed = TypeVar("Parsed")

_LARGE_BYTES: Final = 8 << 20

_SMALL_BYTES: Final = 1 << 20
_QUICK_SECONDS: Final = 0.005
"""Small files of this machine take less, so that threads would wait for each other more than for the disk."""

MetadataFile: TypeAlias = "tuple[str, int | None]"
"""Name of a file in the table's manifest directory, and its bytes where they are recorded."""


@dataclass(frozen=True, slots=True)
class DiskForm(Generic[Parsed]):
    """How what was decoded lies on a disk.

    Attributes:
        name: of the form.
        keep: puts what was decoded there.
        open: gives what was put there, if it is there; is given what decodes the original.
    """

    name: str
    keep: Callable[[KeptArrays, Parsed], None]
    open: Callable[[KeptArrays, Callable[[], Parsed]], Parsed | None]


@dataclass(frozen=True, slots=True)
class Content(Generic[Parsed]):
    """What is decoded of files of one kind.

    Attributes:
        parse: decodes it.
        part: which part of a file that gives, if not all of it.
        disk_form: how it is kept on a disk, if it is.
    """

    parse: Callable[[Buffer], Parsed]
    part: str = ""
    disk_form: DiskForm[Parsed] | None = None


@dataclass(frozen=True, slots=True)
class TableReader:
    """What every table of a warehouse reads with.

    Attributes:
        storage: the warehouse.
        metadata: keeps schemas and manifest lists.
        manifests: keeps manifests and index manifests.
        readers: threads that read manifests side by side.
    """

    storage: Storage
    metadata: ByteCache[Any]
    manifests: ByteCache[Any]
    readers: Readers


@dataclass(frozen=True, slots=True)
class MetadataFiles:
    """The files in the manifest directory of one table.

    Attributes:
        reader: storage and caches.
        directory: the table's.
    """

    reader: TableReader
    directory: str

    def key(self, file: MetadataFile, part: str = "") -> Hashable:
        """What tells a file, or a part of it, from all others in a cache."""
        name, size = file
        return self.reader.storage.name, self.directory, name, size, part

    def place(self, file: MetadataFile, what: str) -> KeptArrays | None:
        """Where the disk keeps what was made of a file; None without a disk."""
        name, size = file
        return self.reader.storage.arrays_of(self._path(name), size, what, self.directory)

    def _place_of(self, file: MetadataFile, content: Content[Any]) -> KeptArrays | None:
        form = content.disk_form
        return None if form is None else self.place(file, f"{form.name} {content.part}")

    def _path(self, name: str) -> str:
        return f"{self.directory}/manifest/{name}"

    def get(self, file: MetadataFile, content: Content[Parsed], cache: ByteCache[Any] | None) -> Parsed:
        """What is decoded of a file that is written once under a name of its own.

        Args:
            file: which one.
            content: what of it.
            cache: is asked for it, and keeps it; None for what is not kept.

        Raises:
            SnapshotExpiredError: it is not there any more.
            CorruptMetadataError: it is damaged, or has not as many bytes as are recorded.
        """
        if cache is None:
            return self._load(file, content)
        parsed: Parsed = cache.get_or_load(self.key(file, content.part), lambda: self._load(file, content))
        return parsed

    def _load(self, file: MetadataFile, content: Content[Parsed]) -> Parsed:
        """What is decoded of a file, from the disk if it is there."""
        place, form = self._place_of(file, content), content.disk_form
        read = partial(self._read, file, content.parse, is_kept=place is None)
        if form is None or place is None:
            return read()
        found = form.open(place, read)
        if found is None:
            decoded = read()
            form.keep(place, decoded)
            # What is mapped takes less memory than what was decoded.
            found = form.open(place, read)
            return decoded if found is None else found
        return found

    def _read(self, file: MetadataFile, parse: Callable[[Buffer], Parsed], *, is_kept: bool) -> Parsed:
        """Reads and decodes a file, whose bytes a disk may keep."""
        name, size = file
        path = self._path(name)
        try:
            # Its writer named it after a random UUID, so that it is no other file's name even where the
            # table was dropped and made anew.
            with (
                self.reader.storage.reading(path, size, is_kept=is_kept) as data,
                self.reader.readers.decoding() as claim,
                asking(claim.grow_to),
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

    def get_all(
        self, files: Sequence[MetadataFile], content: Content[Parsed], cache: ByteCache[Any] | None
    ) -> list[Parsed]:
        """As :meth:`get`, of several files at once; what is cached already keeps no thread busy.

        Raises:
            PaimonIndexError: as of :meth:`get`.
        """
        keys = [self.key(file, content.part) for file in files]
        found: dict[Any, Parsed] = {} if cache is None else cache.get_many(keys)
        missing: list[MetadataFile] = []
        for file, key in zip(files, keys, strict=True):
            if key in found:
                continue
            place = self._place_of(file, content)
            if place is not None and place.is_kept:
                # What is mapped is there before threads have handed over to each other.
                found[key] = self.get(file, content, cache)
            else:
                missing.append(file)
        if not missing:
            return [found[key] for key in keys]
        total = sum(size or 0 for _, size in missing)
        is_quick = self.reader.storage.is_local and total <= _SMALL_BYTES
        read = iter(
            self.reader.readers.map(
                lambda file: self.get(file, content, cache),
                missing,
                size_of=lambda file: file[1] or 0,
                alone_seconds=_QUICK_SECONDS if is_quick else 0,
            )
        )
        if total > _LARGE_BYTES:
            self.reader.readers.later(give_memory_back)
        return [found[key] if key in found else next(read) for key in keys]
