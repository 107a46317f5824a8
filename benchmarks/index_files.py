"""File indexes alone: cold decoding of many files' indexes, and the rows of one large file.

Where the engine's own benchmark has run, its files and predicates are used, so that both answer the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

import numpy as np

from app.file_index import container
from app.file_index.bitmap import bitmap
from app.file_index.bloom_filter import bloom_filter
from app.file_index.evaluation import decide_files, evaluate, find_rows
from app.file_index.findings import FileDecisions
from app.file_index.index_kinds import BITMAP, BLOOM_FILTER, RANGE_BITMAP
from app.file_index.range_bitmap import range_bitmap
from app.file_index.stacked_index import FileIndex, StackedIndex
from app.predicates.model import BoundLeaf, Operator
from app.types import DataField, DataType, TypeRoot
from app.types.bytes_column import BytesColumn
from benchmarks.index_bodies import keys_of
from benchmarks.workload import Suite, Target, Unit, Workload

LARGE_FILE_ROWS: Final = 1_000_000
DECODED_FILES: Final = 1_000
DISTINCT_FILES: Final = 100
ROWS: Final = 10_000

_LONG: Final = DataField(0, "c", DataType(TypeRoot.BIGINT))
_INT: Final = DataField(0, "c", DataType(TypeRoot.INT))
CONDITIONS: Final = {
    ("bloom", "equal"): BoundLeaf(Operator.EQUAL, _LONG, (123_456,)),
    ("bitmap", "equal"): BoundLeaf(Operator.EQUAL, _INT, (150,)),
    ("range", "equal"): BoundLeaf(Operator.EQUAL, _INT, (1_500,)),
    ("range", "between"): BoundLeaf(Operator.BETWEEN, _INT, (1_400, 1_600)),
}
"""By kind and predicate, as the engine's benchmark calls them."""

_LARGE_FILE_VALUES: Final = 10_000
_RANGE_SHARE: Final = 100
_ROWS_TARGET: Final = Target(1)


def suites() -> Iterator[Suite]:
    """Measure decoding, and the selection of rows."""
    yield Suite("cold indexes", _decoding)
    yield Suite("rows of one file", _row_selection)


def rows_name(kind: str, predicate: str) -> str:
    """Return what results call the rows of each file by one kind of index."""
    return f"from bytes, {kind} {predicate}, rows of each file"


def files_name(kind: str, predicate: str) -> str:
    """Return what results call the evaluation of one kind of index, all files at once."""
    return f"from bytes, {kind} {predicate}, which files"


def index_directory(directory: Path) -> Path:
    """Where the engine's benchmark puts its files."""
    return directory / "index-bench"


def _decoding(directory: Path) -> Iterator[Workload]:
    for (kind, predicate), leaf in CONDITIONS.items():
        contents = _contents(index_directory(directory) / kind, kind)
        yield Workload(
            files_name(kind, predicate),
            len(contents),
            partial(_kept_files, BytesColumn.of(contents), leaf),
            unit=Unit.NANOSECONDS_EACH,
        )
        yield Workload(
            rows_name(kind, predicate),
            len(contents),
            partial(_kept_files, BytesColumn.of(contents), leaf, find_rows),
            unit=Unit.NANOSECONDS_EACH,
        )


def _contents(directory: Path, kind: str) -> list[bytes]:
    """Index files of one kind: the engine's if it wrote some, or else such as it would write."""
    if directory.exists():
        return [path.read_bytes() for path in sorted(directory.iterdir())]
    written = [_write(kind, number) for number in range(DISTINCT_FILES)]
    return [bytes(bytearray(written[number % DISTINCT_FILES])) for number in range(DECODED_FILES)]


def _write(kind: str, number: int) -> bytes:
    """Values around seven times the file's number, so that a predicate meets some files and misses others."""
    random = Random(number)
    match kind:
        case "bloom":
            keys = [number * ROWS // 2 + random.randrange(ROWS) for _ in range(ROWS)]
            payload = bloom_filter.write(keys_of(keys, _LONG), ROWS, 0.02)
            index = BLOOM_FILTER
        case "bitmap":
            values = [number % 100 + random.randrange(200) for _ in range(ROWS)]
            payload = bitmap.write(keys_of(values, _INT))
            index = BITMAP
        case _:
            values = [number * 7 + random.randrange(2_000) for _ in range(ROWS)]
            payload = range_bitmap.write(keys_of(values, _INT))
            index = RANGE_BITMAP
    return container.write({"c": [(index, payload)]})


def _kept_files(
    contents: BytesColumn, leaf: BoundLeaf, ask: Callable[..., FileDecisions] = decide_files
) -> int:
    """As the planner asks: of indexes that lie together in memory, as those of a manifest do."""
    files = np.arange(len(contents))
    decisions = ask(leaf, StackedIndex.read(contents), files, np.full(len(contents), -1))
    return len(contents) - int(decisions.skip.sum())


def _row_selection(directory: Path) -> Iterator[Workload]:  # noqa: ARG001 - suites are alike
    random = Random(LARGE_FILE_ROWS)
    values = [random.randrange(_LARGE_FILE_VALUES) for _ in range(LARGE_FILE_ROWS)]
    content = container.write({"c": [(RANGE_BITMAP, range_bitmap.write(keys_of(values, _INT)))]})
    index = FileIndex.read(content)

    def between() -> BoundLeaf:
        width = _LARGE_FILE_VALUES // _RANGE_SHARE
        low = random.randrange(_LARGE_FILE_VALUES - width)
        return BoundLeaf(Operator.BETWEEN, _INT, (low, low + width - 1))

    yield Workload(
        "rows of a file, range bitmap BETWEEN",
        LARGE_FILE_ROWS,
        lambda: evaluate(between(), index, row_count=LARGE_FILE_ROWS),
        target=_ROWS_TARGET,
    )
    yield Workload(
        "rows of a file, range bitmap BETWEEN, from bytes",
        LARGE_FILE_ROWS,
        lambda: evaluate(between(), FileIndex.read(content), row_count=LARGE_FILE_ROWS),
    )
