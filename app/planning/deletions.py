"""Answers which rows of which files are deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from app.errors import FilterError
from app.planning.answers import DeletionsAnswer, FileDeletions
from app.planning.vector_places import UNKNOWN_CARDINALITY
from app.planning.vectors import load_vectors
from app.storage import check_deadline
from app.types import parse_json
from app.types.values import same_in_sql

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from app.planning.requests import DeletionsRequest
    from app.planning.version import Version
    from app.types import Json, Value

_FILES_AT_ONCE: Final = 1024


def answer_deletions(version: Version, request: DeletionsRequest) -> DeletionsAnswer:
    """The deleted positions of the files that were asked for.

    A file that is named and has no deletion vector is answered with none.

    Raises:
        FilterError: the partition does not fit the table.
        CorruptIndexError: a deletion vector is damaged.
        SnapshotExpiredError: a deletion vector file is gone.
    """
    files = version.files
    asked = files.all() if request.files is None else files.named(request.files)
    if request.partition is not None:
        partition = read_partition(version, request.partition)
        wanted = np.array(
            [same_partition(version, row, partition) for row in files.columns.partitions], np.bool_
        )
        asked = asked[wanted[files.columns.partition_codes[asked]]]
    there = {name.decode() for name in files.names(asked).to_pylist()} if request.files else set()
    unknown = tuple(name for name in dict.fromkeys(request.files or ()) if name not in there)
    if request.files is None:
        asked = asked[version.vector_numbers(asked) >= 0]
    return DeletionsAnswer(version.snapshot_id, tuple(_deletions(version, asked, request)), unknown)


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
        and (mine is None or theirs is None or same_in_sql(field.type, mine, theirs))
        for mine, theirs, field in pairs
    )


def _deletions(
    version: Version, asked: NDArray[np.int64], request: DeletionsRequest
) -> Iterator[FileDeletions]:
    """The deletions of each file; vectors are read some at a time."""
    files, numbers = version.files, version.vector_numbers(asked)
    deleted = version.contents.vectors.deleted_rows(numbers)
    counted = (numbers < 0) | (request.count_only & (deleted != UNKNOWN_CARDINALITY))
    for start in range(0, len(asked), _FILES_AT_ONCE):
        check_deadline()
        some = slice(start, start + _FILES_AT_ONCE)
        read = np.flatnonzero(~counted[some]) + start
        places = [
            (*version.contents.vectors.places[numbers[at]], int(files.columns.row_counts[asked[at]]))
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
