"""Answers which rows of which files are deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.errors import FilterError
from app.planning.answers import DeletionsAnswer, FileDeletions
from app.planning.vectors import load_vectors
from app.types import parse_json, sql_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.planning.answers import Positions
    from app.planning.requests import DeletionsRequest
    from app.planning.version import Version
    from app.table.manifest_entry import ManifestEntry
    from app.types import Json, Value


def answer_deletions(version: Version, request: DeletionsRequest) -> DeletionsAnswer:
    """The deleted positions of the files that were asked for.

    A file that is named and has no deletion vector is answered with none.

    Raises:
        FilterError: the partition does not fit the table.
        CorruptIndexError: a deletion vector is damaged.
        SnapshotExpiredError: a deletion vector file is gone.
    """
    partition = None if request.partition is None else read_partition(version, request.partition)
    named = None if request.files is None else frozenset(request.files)
    entries = [
        entry
        for entry in version.contents.visible
        if (named is None or entry.file.file_name in named)
        and (partition is None or same_partition(version, entry.partition, partition))
    ]
    places = [version.vector(entry) for entry in entries]
    unread = [
        (*place, entry.file.row_count)
        for entry, place in zip(entries, places, strict=True)
        if place is not None and (place[1].cardinality is None or not request.count_only)
    ]
    vectors = iter(load_vectors(version.loader, unread))
    found = []
    for entry, place in zip(entries, places, strict=True):
        if place is None:
            if named is not None:
                found.append(_of_file(version, entry, 0, None))
        elif request.count_only and place[1].cardinality is not None:
            found.append(_of_file(version, entry, place[1].cardinality, None))
        else:
            vector = next(vectors)
            found.append(_of_file(version, entry, vector.cardinality, vector.positions))
    there = {entry.file.file_name for entry in entries}
    unknown = tuple(name for name in dict.fromkeys(request.files or ()) if name not in there)
    return DeletionsAnswer(version.snapshot_id, tuple(found), unknown)


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


def _of_file(
    version: Version, entry: ManifestEntry, cardinality: int, positions: Positions | None
) -> FileDeletions:
    partition = version.partition_json(entry.partition)
    return FileDeletions(entry.file.file_name, partition, entry.bucket, cardinality, positions)
