"""Deleted rows of files."""

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
from app.planning.version.files import Files
from app.planning.version.vector_places import UNKNOWN_CARDINALITY, VectorPlaces
from app.planning.version.version import IndexSource, Version
from app.table.manifests import IndexEntry
from app.types import Json
from app.types.index_files import DeletionRange
from app.types.roaring import Positions
from app.work import check_deadline

_FILES_AT_ONCE: Final = 1024


@dataclass(frozen=True, slots=True)
class DeletedPositions:
    """Deleted positions of one data file. ``positions`` is None where the caller requested counts only."""

    file_name: str
    partition: Mapping[str, Json]
    bucket: int
    cardinality: int
    positions: Positions | None


@dataclass(frozen=True, slots=True)
class DeletionsAnswer:
    """The answer to a DeletionsRequest."""

    snapshot_id: int | None
    deletions: tuple[DeletedPositions, ...]
    unknown_files: tuple[str, ...]


def answer_deletions(version: Version, request: DeletionsRequest) -> DeletionsAnswer:
    """List the deleted positions of the requested files, except of files that batch reads do not see.

    Raises FilterError if the partition does not fit the table. Raises CorruptIndexError if a deletion vector
    is damaged. Raises SnapshotExpiredError if a deletion vector file is gone.
    """
    named = request.partition
    partition = None if named is None else NamedPartition.read(version.schema, named)
    if request.files is None:
        files = version.files()
        vectors = _Vectors(files, version.contents().vectors, version.vector_numbers(files.all()))
        selected = [(vectors, _inside(version, files, np.flatnonzero(vectors.numbers >= 0), partition))]
    else:
        selected = list(_named(version, request.files, partition))
    deletions = tuple(
        deletion for vectors, chosen in selected for deletion in vectors.deletions(version, chosen, request)
    )
    names = {deletion.file_name for deletion in deletions}
    unknown = tuple(name for name in dict.fromkeys(request.files or ()) if name not in names)
    return DeletionsAnswer(version.snapshot_id, deletions, unknown)


def _named(
    version: Version, names: Sequence[str], partition: NamedPartition | None
) -> Iterator[tuple[_Vectors, NDArray[np.int64]]]:
    files = version.files()
    vectors = _Vectors(files, version.contents().vectors, version.vector_numbers(files.all()))
    yield vectors, _inside(version, files, files.named(names), partition)
    hidden = version.hidden_files()
    if hidden is None:
        return
    hidden_numbers = _inside(version, hidden, hidden.named(names), partition)
    if len(hidden_numbers):
        honoured = version.schema.options.deletion_vectors
        entries = version.table.metadata.index_entries(version.resolved) if honoured else ()
        places = VectorPlaces.find(entries, hidden)
        yield _Vectors(hidden, places, places.numbers), hidden_numbers


def _inside(
    version: Version, files: Files, numbers: NDArray[np.int64], partition: NamedPartition | None
) -> NDArray[np.int64]:
    if partition is None:
        return numbers
    allowed = version.partitions.where(files.columns.partitions, partition.could_be)
    inside: NDArray[np.int64] = numbers[allowed[files.columns.partition_codes[numbers]]]
    return inside


@dataclass(frozen=True, slots=True)
class _Vectors:
    """Files, with the number of each one's vector in ``places``: int32, -1 for none."""

    files: Files
    places: VectorPlaces
    numbers: NDArray[np.int32]

    def deletions(
        self, version: Version, selected: NDArray[np.int64], request: DeletionsRequest
    ) -> Iterator[DeletedPositions]:
        files, numbers = self.files, self.numbers[selected]
        deleted = self.places.deleted_rows(numbers)
        is_count = request.encoding is SelectionForm.COUNT
        counted = (numbers < 0) | (is_count & (deleted != UNKNOWN_CARDINALITY))
        for start in range(0, len(selected), _FILES_AT_ONCE):
            check_deadline()
            batch = slice(start, start + _FILES_AT_ONCE)
            read = np.flatnonzero(~counted[batch]) + start
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
                yield DeletedPositions(
                    files.name(file), version.partitions.json(partition), bucket, cardinality, positions
                )


VectorPlace: TypeAlias = tuple[IndexEntry, DeletionRange, int]
"""An index file, the range of a vector in it, and how many rows its data file has."""


def load_vectors(source: IndexSource, places: Sequence[VectorPlace]) -> list[DeletionVector]:
    """Load the deletion vectors at ``places``, in order, reading single records of index files.

    Raises SnapshotExpiredError if a file of vectors is gone. Raises CorruptIndexError if a vector is damaged,
    or differs from its manifest or data file. Raises StorageError if a file cannot be read. Raises
    PathNotAllowedError if a file is outside the places that the operator allows.
    """
    files = {id(entry): entry for entry, _, _ in places}
    paths = {number: source.paths.index_file(entry) for number, entry in files.items()}
    # A string caches its hash, and the cache looks up many keys.
    keys = [
        f"{source.warehouse.name}\n{paths[id(entry)]}\n{entry.file.file_size} {extent.offset} {extent.length}"
        for entry, extent, _ in places
    ]
    by_key = dict(zip(keys, places, strict=True))

    def read(missing: Sequence[str]) -> Iterator[DeletionVector]:
        unread = [by_key[key] for key in missing]
        ranges = [
            (paths[id(entry)], extent.offset, _readable_bytes(entry, extent)) for entry, extent, _ in unread
        ]
        # Index files are named after random UUIDs, so a path never gets other content.
        contents = source.warehouse.read_ranges(ranges, immutable=True)
        for (entry, extent, _), content in zip(unread, contents, strict=True):
            check_deadline()
            yield _decode(content, paths[id(entry)], entry, extent)

    vectors: dict[str, DeletionVector] = source.caches.deletion_vectors.get_or_load_many(
        keys, read, expected_bytes=lambda key: by_key[key][1].length, line=source.warehouse.name
    )
    loaded = [vectors[key] for key in keys]
    for vector, (entry, extent, row_count) in zip(loaded, places, strict=True):
        # The cache identifies a vector by its place, and another data file may name that place.
        _check(vector, paths[id(entry)], extent, row_count)
    return loaded


def _readable_bytes(entry: IndexEntry, extent: DeletionRange) -> int:
    # A record has its size and checksum around the vector; a read must not pass the end of the file.
    return max(0, min(extent.length + RECORD_MARGIN_BYTES, entry.file.file_size - extent.offset))


def _decode(
    content: bytes | PaimonIndexError, path: str, entry: IndexEntry, extent: DeletionRange
) -> DeletionVector:
    if isinstance(content, FileMissingError):
        raise SnapshotExpiredError(f"{path} is gone: its snapshot has expired", path=path) from content
    if isinstance(content, PaimonIndexError):
        raise content
    if len(content) < _readable_bytes(entry, extent):
        observer().undecodable(FileFormat.DELETION_VECTORS)
        raise CorruptIndexError(
            f"expected a file of {entry.file.file_size} bytes, found its end",
            offset=extent.offset + len(content),
            path=path,
        )
    try:
        return read_vector(content, length=extent.length)
    except CorruptIndexError as error:
        observer().undecodable(FileFormat.DELETION_VECTORS)
        raise error.at(path, extent.offset) from error


def _check(vector: DeletionVector, path: str, extent: DeletionRange, row_count: int) -> None:
    if extent.cardinality is not None and vector.cardinality != extent.cardinality:
        observer().undecodable(FileFormat.DELETION_VECTORS)
        raise CorruptIndexError(
            f"expected {extent.cardinality} deleted rows of {extent.data_file}, found {vector.cardinality}",
            offset=extent.offset,
            path=path,
        )
    if vector.highest is not None and vector.highest >= row_count:
        observer().undecodable(FileFormat.DELETION_VECTORS)
        raise CorruptIndexError(
            f"{extent.data_file} has {row_count} rows, but position {vector.highest} is deleted",
            offset=extent.offset,
            path=path,
        )
