"""What was appended between two snapshots: the files that commits in between have added."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from app.errors import RequestError, UnsupportedFormatError
from app.iceberg.refusals import refusal
from app.planning.request.requests import SnapshotSelector, TableRef
from app.planning.service import IndexService
from app.planning.version.version import Version, missing_file_means_expired
from app.table.manifests.manifest_entry import FileKind
from app.table.references import MOST_READS

_APPEND: Final = "APPEND"
_REWRITES: Final = frozenset({"COMPACT", "ANALYZE"})
"""Commits that change no rows."""


def appended_files(service: IndexService, table: TableRef, version: Version, start: int) -> tuple[str, ...]:
    """Names of the data files that were appended behind a snapshot, up to a version and with it.

    Args:
        service: knows the snapshots.
        table: the table.
        version: the end.
        start: number of the snapshot behind which it begins.

    Raises:
        RequestError: the end is before the start, or too far behind it.
        UnsupportedFormatError: something else than appending rows has been done to the table.
        NotFoundError: a snapshot in between is gone.
    """
    schema, end = version.schema, version.snapshot_id
    if schema.primary_keys or schema.options.deletion_vectors:
        raise refusal("of a table with a primary key or deletion vectors, files do not tell what came")
    if end is None or not 0 <= end - start <= MOST_READS:
        raise RequestError(f"end-snapshot-id is start-snapshot-id or one of the {MOST_READS} that follow it")
    names: list[str] = []
    for number in range(start + 1, end + 1):
        one = service.resolve(table, SnapshotSelector(number, branch=version.resolved.branch))
        kind = "" if one.resolved.snapshot is None else one.resolved.snapshot.commit_kind
        if kind == _APPEND:
            with missing_file_means_expired(one):
                names += _added(one)
        elif kind not in _REWRITES:
            raise _more_than_appending(number, kind)
    return tuple(names)


def _added(version: Version) -> Iterator[str]:
    """Names of the files that a version's own commit added; of one that removes some, rows may be old."""
    metadata = version.table.metadata
    *_, delta = metadata.manifest_lists(version.resolved)
    for file in delta.manifests:
        manifest = metadata.manifest(file, whole=False)
        if (manifest.kinds != FileKind.ADD).any():
            raise _more_than_appending(version.snapshot_id, "an append that removes files")
        yield from map(manifest.file_name, range(len(manifest)))


def _more_than_appending(snapshot: int | None, kind: str) -> UnsupportedFormatError:
    return refusal(f"snapshot {snapshot} between the two is {kind}, which is more than appending rows")
