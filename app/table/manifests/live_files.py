"""Derives the live files of a snapshot from manifest entries.

An ADD counts unless some DELETE has its identity, whatever the order of manifests: a file never returns under
a deleted identity. The identity is partition, bucket, level, name, extra files, embedded index and external
path. The level belongs to it because a file that moves up a level is deleted and added under its old name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.table.manifests.manifest import Manifest
from app.table.manifests.manifest_entry import FileKind
from app.table.records.columns import list_codes
from app.types import BytesColumn


class _Identities(NamedTuple):
    """Identities of entries of one manifest, each of shape (k,), detached from it so that it can be freed."""

    partitions: pa.LargeBinaryArray
    buckets: NDArray[np.int32]
    levels: NDArray[np.int32]
    names: pa.LargeBinaryArray
    extra_files: pa.LargeListArray
    embedded: pa.LargeBinaryArray
    external_paths: pa.LargeBinaryArray

    @classmethod
    def of(cls, manifest: Manifest, rows: NDArray[np.int64]) -> Self:
        return cls(
            _partitions(manifest, rows),
            manifest.buckets[rows],
            manifest.levels[rows],
            _strings(manifest.file_names, rows),
            _extra_files(manifest, rows),
            _strings(manifest.embedded_indexes, rows),
            _strings(manifest.external_paths, rows),
        )


def live_rows(manifests: Sequence[Manifest]) -> list[NDArray[np.int64]]:
    """Return, for each manifest, rows of live files, ascending."""
    return live_and_removing(manifests)[0]


def live_and_removing(manifests: Sequence[Manifest]) -> tuple[list[NDArray[np.int64]], list[int]]:
    """Return, for each manifest, rows of live files, ascending, and the numbers of manifests with a DELETE.

    Manifests are iterated once, and once more if files were removed; none is held longer.
    """
    compared = _compare(manifests)
    return compared.live, [*compared.removals]


def rows_left(manifests: Sequence[Manifest]) -> list[NDArray[np.int64]]:
    """Cancel every DELETE against the ADD that it removes, and return the remaining rows, ascending.

    These are ADDs of live files, and DELETEs whose ADD is in none of these manifests.
    """
    compared = _compare(manifests)
    if not compared.removals:
        return compared.live
    ends = np.cumsum([len(rows) for rows in compared.removals.values()])[:-1]
    needless = np.split(_is_in(compared.removing, compared.suspected), ends)
    remaining = list(compared.live)
    for (number, rows), is_needless in zip(compared.removals.items(), needless, strict=True):
        remaining[number] = np.sort(np.concatenate([remaining[number], rows[~is_needless]]))
    return remaining


class _Compared(NamedTuple):
    live: list[NDArray[np.int64]]
    removals: dict[int, NDArray[np.int64]]
    suspected: pa.FixedSizeBinaryArray
    removing: pa.FixedSizeBinaryArray


def _compare(manifests: Sequence[Manifest]) -> _Compared:
    added: list[NDArray[np.int64]] = []
    removals: dict[int, NDArray[np.int64]] = {}
    deletions: dict[int, _Identities] = {}
    for number, manifest in enumerate(manifests):
        added.append(_rows_of_kind(manifest, FileKind.ADD))
        deleted = _rows_of_kind(manifest, FileKind.DELETE)
        if len(deleted):
            removals[number] = deleted
            deletions[number] = _Identities.of(manifest, deleted)
    if not deletions:
        nothing = pa.array([], pa.binary(0))
        return _Compared(added, {}, nothing, nothing)
    deleted_names = pa.chunked_array([manifest.names for manifest in deletions.values()])
    # Compare full identities only where a name also occurs in a deletion: most do not.
    suspects: list[NDArray[np.int64]] = []
    suspected: list[_Identities] = []
    for manifest, rows in zip(manifests, added, strict=True):
        suspects.append(rows[_is_in(_strings(manifest.file_names, rows), deleted_names)])
        suspected.append(_Identities.of(manifest, suspects[-1]))
    identities = _numbered([*suspected, *deletions.values()])
    count = sum(map(len, suspects))
    suspected_identities, removing = identities[:count], identities[count:]
    undone = _is_in(suspected_identities, removing)
    ends = np.cumsum([len(rows) for rows in suspects])[:-1]
    live = [
        np.setdiff1d(rows, suspect[gone], assume_unique=True)
        for rows, suspect, gone in zip(added, suspects, np.split(undone, ends), strict=True)
    ]
    return _Compared(live, removals, suspected_identities, removing)


def removes_files(manifest: Manifest) -> bool:
    """Return True if a manifest has a DELETE."""
    return len(_rows_of_kind(manifest, FileKind.DELETE)) > 0


def _rows_of_kind(manifest: Manifest, kind: FileKind) -> NDArray[np.int64]:
    return np.flatnonzero(manifest.kinds == kind.value)


def _numbered(entries: Sequence[_Identities]) -> pa.FixedSizeBinaryArray:
    """Encode identities of entries as fixed-size strings, equal where the identities are."""
    parts = [
        _codes(part.partitions for part in entries),
        np.concatenate([part.buckets for part in entries]),
        np.concatenate([part.levels for part in entries]),
        _codes(part.names for part in entries),
        list_codes(pa.concat_arrays([part.extra_files for part in entries]))[0],
        _codes(part.embedded for part in entries),
        _codes(part.external_paths for part in entries),
    ]
    numbers = np.column_stack(parts).astype(np.int32)
    width = numbers.shape[1] * numbers.itemsize
    return pa.Array.from_buffers(pa.binary(width), len(numbers), [None, pa.py_buffer(numbers)])


def _codes(arrays: Iterable[pa.Array]) -> NDArray[np.int32]:
    """Give numbers to strings across arrays so that equal ones have one number. Null counts as a string."""
    return np.asarray(pa.concat_arrays(arrays).dictionary_encode(null_encoding="encode").indices)


def _partitions(manifest: Manifest, rows: NDArray[np.int64]) -> pa.LargeBinaryArray:
    return pa.array(manifest.partitions, pa.large_binary()).take(pa.array(manifest.partition_codes[rows]))


def _extra_files(manifest: Manifest, rows: NDArray[np.int64]) -> pa.LargeListArray:
    lists = pa.LargeListArray.from_arrays(manifest.extra_file_starts, manifest.extra_files.to_arrow())
    # Arrow trusts offsets, and would read beyond the strings.
    lists.validate(full=True)
    return lists.take(pa.array(rows))


def _strings(column: BytesColumn, rows: NDArray[np.int64]) -> pa.LargeBinaryArray:
    return column.to_arrow().take(pa.array(rows))


def _is_in(array: pa.Array, among: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
    return np.asarray(pc.is_in(array, value_set=among))
