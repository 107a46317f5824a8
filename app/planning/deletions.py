"""Answers which rows of which files are deleted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from app.errors import FilterError
from app.planning.answers import DeletionsAnswer, FileDeletions
from app.planning.vector_places import UNKNOWN_CARDINALITY, VectorPlaces
from app.planning.vectors import load_vectors
from app.storage import check_deadline
from app.types import parse_json, sql_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from app.planning.files import Files
    from app.planning.requests import DeletionsRequest
    from app.planning.version import Version
    from app.types import Json, Value

_FILES_AT_ONCE: Final = 1024


def answer_deletions(version: Version, request: DeletionsRequest) -> DeletionsAnswer:
    """The deleted positions of the files that were asked for.

    A file that is named and has no deletion vector is answered with none, be it one that batch reads do not
    see.

    Raises:
        FilterError: the partition does not fit the table.
        CorruptIndexError: a deletion vector is damaged.
        SnapshotExpiredError: a deletion vector file is gone.
    """
    partition = None if request.partition is None else read_partition(version, request.partition)
    if request.files is None:
        files = version.files
        vectors = _Vectors(files, version.contents.vectors, version.vector_numbers(files.all()))
        asked = [(vectors, _inside(version, files, np.flatnonzero(vectors.numbers >= 0), partition))]
    else:
        asked = list(_named(version, request.files, partition))
    found = tuple(each for vectors, some in asked for each in vectors.deletions(version, some, request))
    there = {each.file_name for each in found}
    unknown = tuple(name for name in dict.fromkeys(request.files or ()) if name not in there)
    return DeletionsAnswer(version.snapshot_id, found, unknown)


def read_partition(version: Version, written: Mapping[str, Json] | None) -> tuple[Value | None, ...]:
    """The values of a partition that a caller named, in the order of the partition columns.

    Raises:
        FilterError: columns are missing, or too many, or a value does not fit.
    """
    fields = version.schema.partition_fields
    given = dict(written or {})
    if set(given) != {field.name for field in fields}:
        names = ", ".join(field.name for field in fields) or "no columns"
        raise FilterError(f"the partition of this table has {names}; found {', '.join(given) or 'none'}")
    values = []
    for field in fields:
        try:
            values.append(parse_json(given[field.name], field.type))
        except FilterError as error:
            raise FilterError(str(error), column=field.name) from error
    return tuple(values)


def same_partition(version: Version, row: bytes, asked: tuple[Value | None, ...]) -> bool:
    """Whether a partition row holds the values that were asked for, in SQL's sense; nulls are alike."""
    pairs = zip(version.partition(row), asked, version.schema.partition_fields, strict=True)
    return all(
        (mine is None) == (theirs is None)
        and (mine is None or theirs is None or sql_key(field.type)(mine) == sql_key(field.type)(theirs))
        for mine, theirs, field in pairs
    )


def _named(
    version: Version, names: Sequence[str], partition: tuple[Value | None, ...] | None
) -> Iterator[tuple[_Vectors, NDArray[np.int64]]]:
    """The files of these names, those that a batch read sees before the others."""
    files = version.files
    vectors = _Vectors(files, version.contents.vectors, version.vector_numbers(files.all()))
    yield vectors, _inside(version, files, files.named(names), partition)
    hidden = version.hidden_files
    if hidden is None:
        return
    some = _inside(version, hidden, hidden.named(names), partition)
    if len(some):
        honoured = version.schema.options.deletion_vectors
        entries = version.table.index_entries(version.resolved) if honoured else ()
        places = VectorPlaces.find(entries, hidden)
        yield _Vectors(hidden, places, places.numbers), some


def _inside(
    version: Version,
    files: Files,
    some: NDArray[np.int64],
    partition: tuple[Value | None, ...] | None,
) -> NDArray[np.int64]:
    """Those of some files that lie in a partition, if one was named."""
    if partition is None:
        return some
    wanted = np.array([same_partition(version, row, partition) for row in files.columns.partitions], np.bool_)
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
        self, version: Version, asked: NDArray[np.int64], request: DeletionsRequest
    ) -> Iterator[FileDeletions]:
        """The deletions of each file; vectors are read some at a time."""
        files, numbers = self.files, self.numbers[asked]
        deleted = self.places.deleted_rows(numbers)
        counted = (numbers < 0) | (request.count_only & (deleted != UNKNOWN_CARDINALITY))
        for start in range(0, len(asked), _FILES_AT_ONCE):
            check_deadline()
            some = slice(start, start + _FILES_AT_ONCE)
            read = np.flatnonzero(~counted[some]) + start
            places = [
                (*self.places.places[numbers[at]], int(files.columns.row_counts[asked[at]]))
                for at in read.tolist()
            ]
            vectors = dict(zip(read.tolist(), load_vectors(version.loader, places), strict=True))
            for at in range(start, min(start + _FILES_AT_ONCE, len(asked))):
                file, vector = int(asked[at]), vectors.get(at)
                partition, bucket = files.path(file)
                cardinality = int(deleted[at]) if vector is None else vector.cardinality
                positions = None if vector is None else vector.positions
                yield FileDeletions(
                    files.name(file), version.partition_json(partition), bucket, cardinality, positions
                )
