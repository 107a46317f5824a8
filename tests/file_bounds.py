"""Bounds of a column in some files, written down file by file."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from app.predicates.verdicts import UNKNOWN_COUNT, ColumnBounds
from app.types import DataType, TypeRoot, Value
from app.types.data_types import BINARY_ROOTS, FLOATING_ROOTS, STRING_ROOTS
from app.types.values import INT64, Values


@dataclass(frozen=True)
class FileBounds:
    """What is known of a column in one file; None stands for unknown."""

    low: Value | None
    high: Value | None
    null_count: int | None
    row_count: int
    may_hold_nan: bool = False


def value_array(data_type: DataType, values: Sequence[Value | None]) -> Values:
    """Values of a type as an array, with something or other for None."""
    if data_type.root in STRING_ROOTS | BINARY_ROOTS:
        return pa.array(values, pa.large_binary())
    filled = [0 if value is None else value for value in values]
    if data_type.root is TypeRoot.BOOLEAN:
        return np.array(filled, np.bool_)
    if data_type.root in FLOATING_ROOTS:
        return np.array(filled, np.float64)
    fits = all(INT64.min <= int(value) <= INT64.max for value in filled)
    return np.array(filled, np.int64 if fits else object)


def column_bounds(data_type: DataType, files: Sequence[FileBounds]) -> ColumnBounds:
    return ColumnBounds(
        value_array(data_type, [each.low for each in files]),
        value_array(data_type, [each.high for each in files]),
        np.array([each.low is not None for each in files], np.bool_),
        np.array([each.high is not None for each in files], np.bool_),
        np.array([UNKNOWN_COUNT if each.null_count is None else each.null_count for each in files], np.int64),
        np.array([each.row_count for each in files], np.int64),
        np.array([each.may_hold_nan for each in files], np.bool_),
        np.zeros(len(files), np.bool_),
    )


def by_file(bounds: ColumnBounds) -> list[FileBounds]:
    """Return the bounds written down file by file."""
    columns = zip(
        bounds.low.tolist(),
        bounds.has_low.tolist(),
        bounds.high.tolist(),
        bounds.has_high.tolist(),
        bounds.null_count.tolist(),
        bounds.row_count.tolist(),
        bounds.may_hold_nan.tolist(),
        strict=True,
    )
    return [
        FileBounds(
            low if has_low else None,
            high if has_high else None,
            None if null_count == UNKNOWN_COUNT else null_count,
            row_count,
            may_hold_nan,
        )
        for low, has_low, high, has_high, null_count, row_count, may_hold_nan in columns
    ]
