"""Metadata files that never change (manifest lists, manifests, index manifests), each decoded once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
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
class KeptForm(Generic[Parsed]):
    """How files of one kind are kept decoded on a disk.

    Attributes:
        name: of the form.
        keep: puts what was decoded there.
        open: gives what was put there, if it is there; is told what decodes the original.
    """

    name: str
    keep: Callable[[KeptArrays, Parsed], None]
    open: Callable[[KeptArrays, Callable[[], Parsed]], Parsed | None]


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

    def _is_kept(self, file: MetadataFile, part: str, kept: KeptForm[Any]) -> bool:
        place = self.place(file, _form(kept, part))
        return place is not None and place.is_kept

    def _path(self, name: str) -> str:
        return f"{self.directory}/manifest/{name}"

    def get(
        self,
        cache: ByteCache[Any],
        file: MetadataFile,
        parse: Callable[[Buffer], Parsed],
        part: str = "",
        kept: KeptForm[Parsed] | None = None,
        *,
        keep: bool = True,
    ) -> Parsed:
        """A file that is written once under a name of its own, decoded.

        Args:
            cache: of files of its kind.
            file: which one.
            parse: decodes it.
            part: which part that gives, if not all of it.
            kept: how it is kept decoded on a disk, if it is.
            keep: whether the cache is asked for it, and keeps it.

        Raises:
            SnapshotExpiredError: it is not there any more.
            CorruptMetadataError: it is damaged, or has not as many bytes as are recorded.
        """
        name, size = file
        path = self._path(name)
        place = None if kept is None else self.place(file, _form(kept, part))

        def load() -> Parsed:
            if kept is None or place is None:
                return read()
            found = kept.open(place, read)
            if found is None:
                decoded = read()
                kept.keep(place, decoded)
                # What is mapped takes less memory than what was decoded.
                found = kept.open(place, read)
                return decoded if found is None else found
            return found

        def read() -> Parsed:
            try:
                # Its writer named it after a random UUID, so that it is no other file's name even where the
                # table was dropped and made anew.
                with (
                    self.reader.storage.reading(path, size, is_kept=place is None) as data,
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

        if not keep:
            return load()
        parsed: Parsed = cache.get_or_load(self.key(file, part), load)
        return parsed

    def get_all(
        self,
        cache: ByteCache[Any],
        files: Sequence[MetadataFile],
        parse: Callable[[Buffer], Parsed],
        part: str = "",
        kept: KeptForm[Parsed] | None = None,
        *,
        keep: bool = True,
    ) -> list[Parsed]:
        """Several files at once; what is cached already keeps no thread busy.

        Raises:
            PaimonIndexError: as of :meth:`get`.
        """
        keys = [self.key(file, part) for file in files]
        found: dict[Any, Parsed] = cache.get_many(keys) if keep else {}
        if len(found) == len(keys):
            return [found[key] for key in keys]
        if kept is not None:
            for file, key in zip(files, keys, strict=True):
                # What is mapped is there before threads have handed over to each other.
                if key not in found and self._is_kept(file, part, kept):
                    found[key] = self.get(cache, file, parse, part, kept, keep=keep)
        missing = [file for file, key in zip(files, keys, strict=True) if key not in found]
        total = sum(size or 0 for _, size in missing)
        is_quick = self.reader.storage.is_local and total <= _SMALL_BYTES
        read = iter(
            self.reader.readers.map(
                lambda file: self.get(cache, file, parse, part, kept, keep=keep),
                missing,
                size_of=lambda file: file[1] or 0,
                alone_seconds=_QUICK_SECONDS if is_quick else 0,
            )
        )
        if total > _LARGE_BYTES:
            self.reader.readers.later(give_memory_back)
        return [found[key] if key in found else next(read) for key in keys]


def _form(kept: KeptForm[Any], part: str) -> str:
    """What tells a part of a file, in its form, from others."""
    return f"{kept.name} {part}"
