"""Casts bounds of a column to the type that the column has now.

A cast must be monotone, so that bounds stay bounds, and lossless, so that bounds of old files agree with the
values that a reader sees in them:

=====================  ==============================================================================
from                   to
=====================  ==============================================================================
integers               wider integers; DECIMAL with enough digits; FLOAT and DOUBLE that hold them all
FLOAT                  DOUBLE
DECIMAL                DECIMAL with at least as many digits before and after the point
CHAR, VARCHAR          either, not shorter
BINARY, VARBINARY      either, not shorter
DATE                   TIMESTAMP
TIME, timestamps       the same kind with at least as many fraction digits
=====================  ==============================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from app.types import BINARY_ROOTS, INTEGER_BITS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, TypeRoot
from app.types.civil_time import MILLIS_PER_DAY, NANOS_PER_MILLI
from app.types.values import INT64, Values

Cast: TypeAlias = "Callable[[Values], Values]"

# Digits that hold every integer of the type; integers that a floating type holds without a gap.
_INTEGER_DIGITS = {TypeRoot.TINYINT: 3, TypeRoot.SMALLINT: 5, TypeRoot.INT: 10, TypeRoot.BIGINT: 19}
_EXACT_BITS = {TypeRoot.FLOAT: 25, TypeRoot.DOUBLE: 54}


def bounds_cast(written: DataType, present: DataType) -> Cast | None:
    """Return the cast from bounds of one type to another. Return None if no cast is safe."""
    if written.same_kind(present):
        return _unchanged
    if written.root in INTEGER_BITS:
        return _cast_integer(written, present)
    if written.root in STRING_ROOTS or written.root in BINARY_ROOTS:
        alike = STRING_ROOTS if written.root in STRING_ROOTS else BINARY_ROOTS
        return _unchanged if present.root in alike and present.precision >= written.precision else None
    if written.root in TIMESTAMP_ROOTS or written.root is TypeRoot.TIME:
        same = present.root is written.root and present.precision >= written.precision
        return _unchanged if same else None
    match written.root, present.root:
        case TypeRoot.FLOAT, TypeRoot.DOUBLE:
            return _unchanged
        case TypeRoot.DECIMAL, TypeRoot.DECIMAL:
            shift = present.scale - written.scale
            fits = shift >= 0 and present.precision - present.scale >= written.precision - written.scale
            return _multiplied(10**shift) if fits else None
        case TypeRoot.DATE, TypeRoot.TIMESTAMP:
            return _multiplied(MILLIS_PER_DAY * NANOS_PER_MILLI)
        case _:
            return None


def _cast_integer(written: DataType, present: DataType) -> Cast | None:
    bits = INTEGER_BITS[written.root]
    if present.root in INTEGER_BITS:
        return _unchanged if INTEGER_BITS[present.root] >= bits else None
    if present.root in _EXACT_BITS:
        return _to_floating if _EXACT_BITS[present.root] >= bits else None
    if (
        present.root is TypeRoot.DECIMAL
        and present.precision - present.scale >= _INTEGER_DIGITS[written.root]
    ):
        return _multiplied(10**present.scale)
    return None


def _multiplied(factor: int) -> Cast:
    limit = INT64.max // factor

    def cast(bounds: Values) -> Values:
        # Products beyond int64 are Python integers instead.
        if bounds.dtype == np.int64 and limit and ((bounds >= -limit) & (bounds <= limit)).all():
            return bounds * factor
        return bounds.astype(object) * factor

    return cast


def _to_floating(bounds: Values) -> Values:
    return bounds.astype(np.float64)


def _unchanged(bounds: Values) -> Values:
    return bounds
