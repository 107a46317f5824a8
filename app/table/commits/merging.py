"""Merges manifests as the engine's commits do, so that their number stays bounded.

A *minor* merge combines consecutive manifests that together reach the target size, and those at the end of
the list once there are many. An ADD and the DELETE of one file cancel if both are merged. A DELETE whose ADD
is elsewhere stays. A *full* merge is made instead once manifests that are small or remove files add up to a
limit: every entry of a removed file is dropped, wherever it is. Large manifests without removed files stay.

Entries are copied as encoded (:mod:`app.table.avro.writing`). Readers must find the same files before and
after. Where they would not, because manifests record a file twice, nothing is merged. A merge never fails a
commit: manifests that cannot be merged stay.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.errors import CorruptMetadataError
from app.options import ManifestOptions
from app.table.avro.container import MAGIC
from app.table.avro.writing import CopiedFrom, copy_records
from app.table.manifests.live_files import live_rows, removes_files, rows_left
from app.table.manifests.manifest import Manifest
from app.table.manifests.manifest_entry import RECORD

_log = logging.getLogger("paimon_index.commits")


class MergedManifest(NamedTuple):
    """Manifest that is made of other manifests."""

    content: bytes
    manifest: Manifest


@dataclass(frozen=True, slots=True, eq=False)
class Merge:
    """Manifests to merge, and the rows that remain of each. Both ascending."""

    numbers: list[int]
    rows: list[NDArray[np.int64]]


def merge_manifests(
    sizes: Sequence[int],
    manifests: Sequence[Manifest],
    options: ManifestOptions,
    read: Callable[[Sequence[int]], Sequence[bytes]],
) -> list[int | MergedManifest]:
    """Merge a table's manifests. Return, in order, the numbers of manifests that stay, and new manifests."""
    untouched: list[int | MergedManifest] = [*range(len(manifests))]
    made: dict[int, list[MergedManifest]] = {}
    gone: set[int] = set()
    for merge in planned_merges(sizes, manifests, options):
        # Manifests without remaining rows are not read: index rebuilds can leave gigabytes of them.
        remaining = [
            (number, rows) for number, rows in zip(merge.numbers, merge.rows, strict=True) if len(rows)
        ]
        files = read([number for number, _ in remaining])
        if any(data[: len(MAGIC)] != MAGIC for data in files):
            continue
        try:
            merged = _merged(
                [
                    CopiedFrom(data, rows, len(manifests[number]))
                    for data, (number, rows) in zip(files, remaining, strict=True)
                ],
                options,
            )
        except CorruptMetadataError as error:
            # Whatever is wrong with them, the commit itself does not need them merged.
            _log.warning("%d manifests are not merged: %s", len(merge.numbers), error)
            continue
        gone.update(merge.numbers)
        made[merge.numbers[0]] = merged
    if not made:
        return untouched
    result: list[int | MergedManifest] = []
    for number in range(len(manifests)):
        result += made.get(number, []) if number in gone else [number]
    after = [manifests[part] if isinstance(part, int) else part.manifest for part in result]
    if _count_live(after) != _count_live(manifests):
        _log.warning(
            "manifests are not merged: they add or remove files more than once, and merged ones would have "
            "other files"
        )
        return untouched
    _log.info("%d manifests are merged: %d become %d", len(gone), len(manifests), len(result))
    return result


def planned_merges(
    sizes: Sequence[int], manifests: Sequence[Manifest], options: ManifestOptions
) -> list[Merge]:
    """Choose the manifests that :func:`merge_manifests` merges."""
    full = _full_merge(sizes, manifests, options)
    if full is not None:
        return [full]
    runs: list[list[int]] = [[]]
    run_bytes = 0
    for number, size in enumerate(sizes):
        runs[-1].append(number)
        run_bytes += size
        if run_bytes >= options.target_bytes:
            runs.append([])
            run_bytes = 0
    if len(runs[-1]) < options.merge_min_count:
        runs.pop()
    return [Merge(run, rows_left([manifests[number] for number in run])) for run in runs if len(run) > 1]


def _full_merge(
    sizes: Sequence[int], manifests: Sequence[Manifest], options: ManifestOptions
) -> Merge | None:
    is_unsettled = [
        size < options.target_bytes or removes_files(manifest)
        for size, manifest in zip(sizes, manifests, strict=True)
    ]
    unsettled_bytes = sum(size for size, unsettled in zip(sizes, is_unsettled, strict=True) if unsettled)
    if unsettled_bytes < options.full_merge_bytes:
        return None
    live = live_rows(manifests)
    numbers = [
        number
        for number, manifest in enumerate(manifests)
        if is_unsettled[number] or len(live[number]) < len(manifest)
    ]
    return Merge(numbers, [live[number] for number in numbers]) if len(numbers) > 1 else None


def _merged(files: Sequence[CopiedFrom], options: ManifestOptions) -> list[MergedManifest]:
    contents = copy_records(files, RECORD, options.compression, options.target_bytes)
    return [MergedManifest(content, Manifest.read(content)) for content in contents]


def _count_live(manifests: Sequence[Manifest]) -> int:
    return sum(map(len, live_rows(manifests)))
