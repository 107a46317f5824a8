"""Records of a manifest, of many files at once.

A record is encoded field by field in the order of :data:`benchmarks.avro_schemas.MANIFEST`. What differs
from file to file has the same width in all of them, so that records are the rows of a matrix of bytes. They
come in parts, since the embedded index is the one thing that does not fit:

======  ======================================================================
part    holds
======  ======================================================================
head    everything before the embedded index
index   the union's branch; with an index also its length and bytes
tail    what stands behind; the same for all files
======  ======================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.types import DataField, Value
from app.types.binary_row.row import serialize_row
from benchmarks.avro_files import long
from benchmarks.events import (
    CAT,
    DAY,
    FILES_PER_DAY,
    FIRST_DAY,
    ID,
    IDS,
    NOTE,
    NUMBERS,
    SCORE,
    SCORES,
    Indexed,
    Layout,
)

Bytes: TypeAlias = "NDArray[np.uint8]"

VERSION: Final = 2
EMPTY_ROW: Final = serialize_row((), ())
WRITTEN_MILLIS: Final = 1_700_000_000_000

_EPOCH_ORDINAL: Final = 719_163
_GOLDEN: Final = 0x9E3779B97F4A7C15
_CATEGORIES: Final = 1_000_000_000
_ARITY_BYTES: Final = 4
_SLOT_BYTES: Final = 8
_SMALLEST_FILE: Final = 1 << 20
_FILE_SIZES: Final = (1 << 27) - _SMALLEST_FILE
"""Zigzag numbers from twice the smallest size up to twice these take four bytes."""
_SIZE_BYTES: Final = 4

_PRESENT, _ABSENT = long(1), long(0)
_NO_COLUMNS: Final = 2 * (long(len(EMPTY_ROW)) + EMPTY_ROW)
_NO_STATISTICS: Final = _NO_COLUMNS + _PRESENT + long(0)
_TAIL: Final = _PRESENT + long(0) + 4 * _ABSENT
"""_FILE_SOURCE, _VALUE_STATS_COLS, _EXTERNAL_PATH, _FIRST_ROW_ID, _WRITE_COLS."""


def file_name(number: int) -> str:
    """Return the name of a data file."""
    # Digits that no codec can shrink, as the engine's random ones are.
    digits = f"{number * _GOLDEN % (1 << 64):016x}{number:016x}"
    return f"data-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}-0.parquet"


def day_of(number: int, files_per_day: int = FILES_PER_DAY) -> int:
    """Return the partition of a data file, in days since 1970-01-01."""
    return FIRST_DAY.toordinal() - _EPOCH_ORDINAL + number // files_per_day


def partition_row(day: int) -> bytes:
    """Return the serialized row of a partition."""
    return serialize_row((day,), (DAY.type,))


def lowest_number(layout: Layout, column: int, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the smallest value of column ``c<column>`` in each of these files; int64, as many as files."""
    if column == 0:
        return numbers % layout.files_per_day * layout.number_span
    # The finaliser of splitmix64, so that columns and files have nothing to do with each other.
    mixed = numbers.astype(np.uint64) * np.uint64(_GOLDEN) + np.uint64(column)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ mixed >> np.uint64(shift)) * np.uint64(factor)
    return ((mixed >> np.uint64(32)) % np.uint64(NUMBERS - layout.number_span)).astype(np.int64)


def heads(layout: Layout, start: int, stop: int) -> list[bytes]:
    """Return what stands before the embedded index of the files ``start`` to ``stop``."""
    numbers = np.arange(start, stop)
    days = day_of(0) + numbers // layout.files_per_day
    parts: list[bytes | Bytes] = [
        long(VERSION) + long(0),
        _rows(partition_row(0), {0: days}, len(numbers)),
        long(0) + long(-1),
        _strings([file_name(number) for number in range(start, stop)]),
        _sizes(numbers),
        long(layout.rows) + _NO_COLUMNS + _NO_STATISTICS,
        *_statistics(layout, numbers, days),
        long(0) + long(layout.rows - 1) + long(0) + long(0),
    ]
    if layout.indexed is not Indexed.NOTHING and not layout.is_embedded:
        parts += [long(1), _strings([f"{file_name(number)}.index" for number in range(start, stop)])]
    parts.append(long(0) + _PRESENT + long(WRITTEN_MILLIS) + _PRESENT + long(0))
    matrix = np.concatenate([_repeated(part, len(numbers)) for part in parts], axis=1)
    return [row.tobytes() for row in matrix]


def index_and_tail(index: bytes | None) -> bytes:
    """Return what stands behind the head: the embedded index, or none, and the tail."""
    if index is None:
        return _ABSENT + _TAIL
    return _PRESENT + long(len(index)) + index + _TAIL


def _statistics(layout: Layout, numbers: NDArray[np.int64], days: NDArray[np.int64]) -> list[bytes | Bytes]:
    """Smallest and largest values, and null counts."""
    columns = layout.columns
    types = [column.type for column in columns]
    narrow = {
        columns.index(column): lowest_number(layout, number, numbers)
        for number, column in enumerate(columns[DAY.id + 1 :])
    }
    if layout.has_narrow_cat:
        narrow[CAT.id] = lowest_number(layout, len(columns), numbers)
    wide: dict[DataField, Value] = {ID: IDS, CAT: _CATEGORIES, NOTE: b"z", SCORE: SCORES}
    least: dict[DataField, Value] = {NOTE: b"a"}
    lowest = serialize_row([least.get(column, 0) for column in columns], types)
    highest = serialize_row([wide.get(column, 0) for column in columns], types)
    spans = {column: low + layout.number_span - 1 for column, low in narrow.items()}
    counts = long(len(columns)) + len(columns) * (_PRESENT + long(0)) + long(0)
    return [
        _rows(lowest, {DAY.id: days, **narrow}, len(numbers)),
        _rows(highest, {DAY.id: days, **spans}, len(numbers)),
        _PRESENT + counts,
    ]


def _rows(row: bytes, slots: Mapping[int, NDArray[np.int64]], count: int) -> Bytes:
    """Length and bytes of a serialized row for each file, with these 32-bit integers in these slots."""
    fields = int.from_bytes(row[:_ARITY_BYTES])
    null_bytes = (fields + 71) // 64 * 8
    prefix = long(len(row))
    matrix = _repeated(prefix + row, count).copy()
    for slot, values in slots.items():
        at = len(prefix) + _ARITY_BYTES + null_bytes + _SLOT_BYTES * slot
        matrix[:, at : at + 4] = values.astype("<i4").view(np.uint8).reshape(-1, 4)
    return matrix


def _strings(strings: list[str]) -> Bytes:
    """Length and bytes of strings of one length."""
    encoded = np.array([string.encode() for string in strings])
    matrix = encoded.view(np.uint8).reshape(len(strings), -1)
    prefix = _repeated(long(matrix.shape[1]), len(strings))
    return np.concatenate([prefix, matrix], axis=1)


def _sizes(numbers: NDArray[np.int64]) -> Bytes:
    """Return some size of each file, as a number that takes four bytes."""
    zigzag = 2 * (_SMALLEST_FILE + numbers * 7919 % _FILE_SIZES)
    sevens = np.stack([zigzag >> (7 * place) & 0x7F for place in range(_SIZE_BYTES)], axis=1)
    sevens[:, :-1] |= 0x80
    return sevens.astype(np.uint8)


def _repeated(part: bytes | Bytes, count: int) -> Bytes:
    if isinstance(part, bytes):
        return np.broadcast_to(np.frombuffer(part, np.uint8), (count, len(part)))
    return part
