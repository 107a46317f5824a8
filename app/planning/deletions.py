"""Answers which rows of which files are deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from app.planning.answers import DeletionsAnswer, FileDeletions
from app.planning.named_partition import NamedPartition
from app.planning.vector_places import UNKNOWN_CARDINALITY
from app.planning.vectors import load_vectors
from app.storage import check_deadline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from app.planning.requests import DeletionsRequest
    from app.planning.version import Version
    from app.types.session_zone import SessionZone

_FILES_AT_ONCE: Final = 1024


def answer_deletions(
    version: Version, request: DeletionsRequest, zone: SessionZone | None
) -> DeletionsAnswer:
    """The deleted positions of the files that were asked for.

    A file that is named and has no deletion vector is answered with none.

    Raises:
        FilterError: the partition does not fit the table.
        CorruptIndexError: a deletion vector is damaged.
        SnapshotExpiredError: a deletion vector file is gone.
    """
    files = version.files
    asked = files.all() if request.files is None else files.named(request.files)
    warnings: tuple[str, ...] = ()
    if request.partition is not None:
        partition = NamedPartition.read(version, request.partition, zone)
        warnings = partition.warnings
        wanted = np.array(
            [partition.could_be(version.partition(row)) for row in files.columns.partitions], np.bool_
        )
        asked = asked[wanted[files.columns.partition_codes[asked]]]
    there = {name.decode() for name in files.names(asked).to_pylist()} if request.files else set()
    unknown = tuple(name for name in dict.fromkeys(request.files or ()) if name not in there)
    if request.files is None:
        asked = asked[version.vector_numbers(asked) >= 0]
    found = tuple(_deletions(version, asked, request))
    return DeletionsAnswer(version.snapshot_id, found, unknown, warnings)


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
