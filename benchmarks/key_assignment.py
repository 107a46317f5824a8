"""Buckets for the keys of a dynamic-bucket writer, and the hash index that it writes of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from app.bucket_index import DynamicBucketIndexMaintainer, HashBucketAssigner, Hashes, PartitionIndex
from app.options.table_options import DynamicBucketOptions
from benchmarks.manifest_records import EMPTY_ROW
from benchmarks.workload import Suite, Target, Workload

KEYS: Final = 1_000_000
_TARGET_ROWS: Final = 200_000
_NEW: Final = Target(3_000)
_KNOWN: Final = Target(1_000)


def suites() -> Iterator[Suite]:
    """Keys that are new, and keys that are known."""
    yield Suite("bucket assignment", _workloads)


def _workloads(directory: Path) -> Iterator[Workload]:  # noqa: ARG001 - suites are alike
    hashes = np.random.default_rng(KEYS).integers(-(1 << 31), 1 << 31, KEYS, np.int32)
    yield Workload("assign keys that are new", KEYS, partial(_assign_new, hashes), target=_NEW)
    known = _assigner()
    known.assign(EMPTY_ROW, hashes)
    yield Workload("assign keys that are known", KEYS, lambda: _assign(known, hashes), target=_KNOWN)
    yield Workload("hash index of new keys", KEYS, partial(_hash_index, hashes))


def _assigner() -> HashBucketAssigner:
    options = {"dynamic-bucket.target-row-num": str(_TARGET_ROWS)}
    [assigner] = DynamicBucketOptions.parse(options).assigners(1)
    return HashBucketAssigner(assigner, lambda _: PartitionIndex.merge([]))


def _assign_new(hashes: Hashes) -> None:
    _assign(_assigner(), hashes)


def _assign(assigner: HashBucketAssigner, hashes: Hashes) -> None:
    # A number that is returned would be taken for files that are kept.
    assigner.assign(EMPTY_ROW, hashes)


def _hash_index(hashes: Hashes) -> None:
    maintainer = DynamicBucketIndexMaintainer()
    maintainer.record(hashes)
    maintainer.content()
