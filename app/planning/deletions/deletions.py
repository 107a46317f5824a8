"""Answers which rows of which files are deleted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.planning.deletions.vectors import load_vectors
from app.planning.request.named_partition import NamedPartition
from app.planning.request.requests import DeletionsRequest
from app.planning.version.contents import UNKNOWN_CARDINALITY, VectorPlaces
from app.planning.version.files import Files
from app.planning.version.version import Version
from app.storage import check_deadline
from app.types import Json
from app.types.roaring import Positions
from app.types.session_zone import SessionZone

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
        wanted = [(vectors, _inside(version, files, np.flatnonzero(vectors.numbers >= 0), partition))]
    else:
        wanted = list(_named(version, request.files, partition))
    found = tuple(each for vectors, some in wanted for each in vectors.deletions(version, some, request))
    there = {each.file_name for each in found}
    unknown = tuple(name for name in dict.fromkeys(request.files or ()) if name not in there)
    warnings = () if partition is None else partition.warnings
    return DeletionsAnswer(version.snapshot_id, found, unknown, warnings)


def _named(
    version: Version, names: Sequence[str], partition: NamedPartition | None
) -> Iterator[tuple[_Vectors, NDArray[np.int64]]]:
    """The files of these names, those that a batch read sees before the others."""
    files = version.files()
    vectors = _Vectors(files, version.contents().vectors, version.vector_numbers(files.all()))
    yield vectors, _inside(version, files, files.named(names), partition)
    hidden = version.hidden_files()
    if hidden is None:
        return
    some = _inside(version, hidden, hidden.named(names), partition)
    if len(some):
        honoured = version.schema.options.deletion_vectors
        entries = version.table.contents.index_entries(version.resolved) if honoured else ()
        places = VectorPlaces.find(entries, hidden)
        yield _Vectors(hidden, places, places.numbers), some


def _inside(
    version: Version,
    files: Files,
    some: NDArray[np.int64],
    partition: NamedPartition | None,
) -> NDArray[np.int64]:
    """Those of some files that lie in a partition, if one was named."""
    if partition is None:
        return some
    wanted = version.partitions.where(files.columns.partitions, partition.could_be)
    inside: NDArray[np.int64] = some[wanted[files.columns.partition_codes[some]]]
    return inside


@dataclass(frozen=True, slots=True)
class _Vectors:
    """Files and their deletion vectors.

    Attributes:
        files: the files.
        places: where the vectors lie.
        numbers: int32, shape (files,): the vector of each file in ``places``, -1 for none.
    """

    files: Files
    places: VectorPlaces
    numbers: NDArray[np.int32]

    def deletions(
        self, version: Version, wanted: NDArray[np.int64], request: DeletionsRequest
    ) -> Iterator[FileDeletions]:
        """The deletions of each file; vectors are read some at a time."""
        files, numbers = self.files, self.numbers[wanted]
        deleted = self.places.deleted_rows(numbers)
        counted = (numbers < 0) | (request.count_only & (deleted != UNKNOWN_CARDINALITY))
        for start in range(0, len(wanted), _FILES_AT_ONCE):
            check_deadline()
            some = slice(start, start + _FILES_AT_ONCE)
            read = np.flatnonzero(~counted[some]) + start
            places = [
                (*self.places.places[numbers[at]], int(files.columns.row_counts[wanted[at]]))
                for at in read.tolist()
            ]
            vectors = dict(zip(read.tolist(), load_vectors(version.source, places), strict=True))
            for at in range(start, min(start + _FILES_AT_ONCE, len(wanted))):
                file, vector = int(wanted[at]), vectors.get(at)
                partition, bucket = files.path(file)
                cardinality = int(deleted[at]) if vector is None else vector.cardinality
                positions = None if vector is None else vector.positions
                yield FileDeletions(
                    files.name(file), version.partitions.json(partition), bucket, cardinality, positions
                )
