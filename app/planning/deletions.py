"""Which rows of which files are deleted.

Vectors that are not cached are read together: only the records that are asked for, not the files around them.
A record is verified when it is decoded; that it is the one of the data file, whenever it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.deletion_vectors import RECORD_MARGIN_BYTES, DeletionVector, read_vector
from app.errors import CorruptIndexError, FileMissingError, PaimonIndexError, SnapshotExpiredError
from app.observation import FileFormat, observer
from app.planning.request.filters import NamedPartition
from app.planning.request.requests import DeletionsRequest, SelectionForm
from app.planning.version.contents import UNKNOWN_CARDINALITY, VectorPlaces
from app.planning.version.files import Files
from app.planning.version.version import IndexSource, Version
from app.table.manifests import IndexEntry
from app.types import Json
from app.types.index_files import DeletionRange
from app.types.roaring import Positions
from app.types.session_zone import SessionZone
from app.work import check_deadline

_FILES_AT_ONCE: Final = 1024


@dataclass(frozen=True, slots=True)
class FileDeletions:
    """Deleted positions of one data file; ``positions`` is None where only counts were asked for."""

    file_name: str
    partition: Mapping[str, Json]
    bucket: int
    cardinality: int
    positions: Positions | None


@dataclass(frozen=True, slots=True)
class DeletionsAnswer:
    """The answer to a DeletionsRequest."""

    snapshot_id: int | None
    deletions: tuple[FileDeletions, ...]
    unknown_files: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def answer_deletions(
    version: Version, request: DeletionsRequest, zone: SessionZone | None
) -> DeletionsAnswer:
    """The deleted positions of the files that were asked for.

    A file that is named and has no deletion vector is answered with none, be it one that batch reads do not
    see.

    Raises:
        FilterError: the partition does not fit the table.
        CorruptIndexError: a deletion vector is damaged.
        SnapshotExpiredError: a deletion vector file is gone.
    """
    named = request.partition
    partition = None if named is None else NamedPartition.read(version.schema, named, zone)
    if request.files is None:
        files = version.files()
        vectors = _Vectors(files, version.contents().vectors, version.vector_numbers(files.all()))
        selected = [(vectors, _inside(version, files, np.flatnonzero(vectors.numbers >= 0), partition))]
    else:
        selected = list(_named(version, request.files, partition))
    deletions = tuple(
        deletion for vectors, some in selected for deletion in vectors.deletions(version, some, request)
    )
    names = {deletion.file_name for deletion in deletions}
    unknown = tuple(name for name in dict.fromkeys(request.files or ()) if name not in names)
    warnings = () if partition is None else partition.warnings
    return DeletionsAnswer(version.snapshot_id, deletions, unknown, warnings)


def _named(
    version: Version, names: Sequence[str], partition: NamedPartition | None
) -> Iterator[tuple[_Vectors, NDArray[np.int64]]]:
    files = version.files()
    vectors = _Vectors(files, version.contents().vectors, version.vector_numbers(files.all()))
    yield vectors, _inside(version, files, files.named(names), partition)
    hidden = version.hidden_files()
    if hidden is None:
        return
    some = _inside(version, hidden, hidden.named(names), partition)
    if len(some):
        honoured = version.schema.options.deletion_vectors
        entries = version.table.metadata.index_entries(version.resolved) if honoured else ()
        places = VectorPlaces.find(entries, hidden)
        yield _Vectors(hidden, places, places.numbers), some


def _inside(
    version: Version, files: Files, some: NDArray[np.int64], partition: NamedPartition | None
) -> NDArray[np.int64]:
    if partition is None:
        return some
    allowed = version.partitions.where(files.columns.partitions, partition.could_be)
    inside: NDArray[np.int64] = some[allowed[files.columns.partition_codes[some]]]
    return inside


@dataclass(frozen=True, slots=True)
class _Vectors:
    """Files, and the number of the vector of each in ``places``: int32, -1 for none."""

    files: Files
    places: VectorPlaces
    numbers: NDArray[np.int32]

    def deletions(
        self, version: Version, selected: NDArray[np.int64], request: DeletionsRequest
    ) -> Iterator[FileDeletions]:
        files, numbers = self.files, self.numbers[selected]
        deleted = self.places.deleted_rows(numbers)
        is_count = request.encoding is SelectionForm.COUNT
        counted = (numbers < 0) | (is_count & (deleted != UNKNOWN_CARDINALITY))
        for start in range(0, len(selected), _FILES_AT_ONCE):
            check_deadline()
            some = slice(start, start + _FILES_AT_ONCE)
            read = np.flatnonzero(~counted[some]) + start
            places = [
                (*self.places.places[numbers[at]], int(files.columns.row_counts[selected[at]]))
                for at in read.tolist()
            ]
            vectors = dict(zip(read.tolist(), load_vectors(version.source, places), strict=True))
            for at in range(start, min(start + _FILES_AT_ONCE, len(selected))):
                file, vector = int(selected[at]), vectors.get(at)
                partition, bucket = files.path(file)
                cardinality = int(deleted[at]) if vector is None else vector.cardinality
                positions = None if vector is None else vector.positions
                yield FileDeletions(
                    files.name(file), version.partitions.json(partition), bucket, cardinality, positions
                )


VectorPlace: TypeAlias = tuple[IndexEntry, DeletionRange, int]
"""An index file, the range of a vector in it, and how many rows its data file has."""


def load_vectors(source: IndexSource, places: Sequence[VectorPlace]) -> list[DeletionVector]:
    """The deletion vectors of some data files, in their order.

    Raises:
        SnapshotExpiredError: a file of vectors is gone.
        CorruptIndexError: a vector is damaged, is not what the index manifest says, or deletes rows that the
            data file does not have.
        StorageError: a file cannot be read.
        PathNotAllowedError: a file lies outside of what the operator allows.
        DeadlineExceededError: the request's time ran out.
    """
    files = {id(entry): entry for entry, _, _ in places}
    paths = {number: source.paths.index_file(entry) for number, entry in files.items()}
    # A string knows its hash, and there may be many of them.
    keys = [
        f"{source.warehouse.name}\n{paths[id(entry)]}\n{entry.file.file_size} {lies.offset} {lies.length}"
        for entry, lies, _ in places
    ]
    by_key = dict(zip(keys, places, strict=True))

    def read(missing: Sequence[str]) -> Iterator[DeletionVector]:
        unread = [by_key[key] for key in missing]
        ranges = [(paths[id(entry)], lies.offset, _readable_bytes(entry, lies)) for entry, lies, _ in unread]
        # Index files are named after random UUIDs: a path is never given again.
        contents = source.warehouse.read_ranges(ranges, immutable=True)
        for (entry, lies, _), content in zip(unread, contents, strict=True):
            check_deadline()
            yield _decode(content, paths[id(entry)], entry, lies)

    vectors: dict[str, DeletionVector] = source.caches.deletion_vectors.get_or_load_many(
        keys, read, expected_bytes=lambda key: by_key[key][1].length, line=source.warehouse.name
    )
    loaded = [vectors[key] for key in keys]
    for vector, (entry, lies, row_count) in zip(loaded, places, strict=True):
        _check(vector, paths[id(entry)], lies, row_count)
    return loaded


def _readable_bytes(entry: IndexEntry, lies: DeletionRange) -> int:
    """What is read of a record: size and checksum too, but nothing beyond the end of the file."""
    return max(0, min(lies.length + RECORD_MARGIN_BYTES, entry.file.file_size - lies.offset))


def _decode(
    content: bytes | PaimonIndexError, path: str, entry: IndexEntry, lies: DeletionRange
) -> DeletionVector:
    if isinstance(content, FileMissingError):
        raise SnapshotExpiredError(f"{path} is gone: its snapshot has expired", path=path) from content
    if isinstance(content, PaimonIndexError):
        raise content
    if len(content) < _readable_bytes(entry, lies):
        observer().undecodable(FileFormat.DELETION_VECTORS)
        raise CorruptIndexError(
            f"expected a file of {entry.file.file_size} bytes, found its end",
            offset=lies.offset + len(content),
            path=path,
        )
    try:
        return read_vector(content, length=lies.length)
    except CorruptIndexError as error:
        observer().undecodable(FileFormat.DELETION_VECTORS)
        raise error.at(path, lies.offset) from error


def _check(vector: DeletionVector, path: str, lies: DeletionRange, row_count: int) -> None:
    if lies.cardinality is not None and vector.cardinality != lies.cardinality:
        observer().undecodable(FileFormat.DELETION_VECTORS)
        raise CorruptIndexError(
            f"expected {lies.cardinality} deleted rows of {lies.data_file}, found {vector.cardinality}",
            offset=lies.offset,
            path=path,
        )
    if vector.highest is not None and vector.highest >= row_count:
        observer().undecodable(FileFormat.DELETION_VECTORS)
        raise CorruptIndexError(
            f"{lies.data_file} has {row_count} rows, but position {vector.highest} is deleted",
            offset=lies.offset,
            path=path,
        )
