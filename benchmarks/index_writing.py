"""Writing indexes of a large data file's columns."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from app.file_index.container import write_index
from app.file_index.index_kinds import BLOOM_FILTER, KINDS, RANGE_BITMAP, IndexKind
from app.file_index.keys.key_column import KeyColumn
from app.types import DataType, parse_type
from benchmarks.workload import Figure, Suite, Target, Unit, Workload

ROWS: Final = 1_000_000
_CATEGORIES: Final = 1_000
_FPP: Final = "0.01"
_INT: Final = parse_type("INT")
_STRING: Final = parse_type("STRING")
_MEMORY: Final = Target(3)
_TARGETS: Final = {BLOOM_FILTER: Target(300), RANGE_BITMAP: Target(1_000)}


def suites() -> Iterator[Suite]:
    """Each kind over numbers that all differ, numbers that repeat, and texts."""
    yield Suite("index writing", _workloads)


def _workloads(directory: Path) -> Iterator[Workload | Figure]:  # noqa: ARG001 - suites are alike
    random = np.random.default_rng(ROWS)
    columns = {
        "numbers": (pa.array(random.permutation(ROWS).astype(np.int32)), _INT),
        "categories": (pa.array(random.integers(0, _CATEGORIES, ROWS).astype(np.int32)), _INT),
        "texts": (pa.array([f"key-{number}" for number in random.permutation(ROWS)]), _STRING),
    }
    for rows, (array, data_type) in columns.items():
        for kind in KINDS.values():
            if kind.takes(data_type):
                is_target = rows == "numbers"
                write = partial(_write, kind, array, data_type)
                yield Workload(
                    f"write {kind}, {rows}", ROWS, write, target=_TARGETS.get(kind) if is_target else None
                )
                yield Figure(
                    f"memory to write {kind}, {rows}, x the column",
                    ROWS,
                    Unit.TIMES,
                    _peak_bytes(write) / array.nbytes,
                    target=_MEMORY if is_target and kind in _TARGETS else None,
                )


def _write(kind: IndexKind, array: pa.Array, data_type: DataType) -> None:
    options = {"items": str(ROWS), "fpp": _FPP} if kind is BLOOM_FILTER else {}
    write_index(kind, KeyColumn.of(array, data_type, "c"), kind.parse_options(options))


def _peak_bytes(run: Callable[[], object]) -> int:
    """Return the most memory that a run takes, what it returns included."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
