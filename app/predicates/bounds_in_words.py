"""Bounds as text that explains why a file was kept or skipped.

====================================================  =================================================
``city min 'Bonn' max 'Köln' < 'Wien'``               the upper bound decided
``city max 'Köln' min 'Bonn' > 'Aachen'``             the lower bound decided
``city min 'Bonn' max 'Köln'``                        they decided together, or did not decide
``city is NULL in 3 of 90 rows``                      the test is one of NULL, or every row is NULL
``city has no bounds``                                the writer left none
====================================================  =================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.predicates.like import literal_prefix
from app.predicates.model import NULL_TESTS, SHOWN_CHARACTERS, BoundLeaf, Operator, shown_value
from app.predicates.verdicts import UNKNOWN_COUNT, ColumnBounds, Verdict, Verdicts
from app.types import STRING_ROOTS, TIMESTAMP_ROOTS, WHOLE_ROOTS, DataField, TypeRoot, Value
from app.types.values import Values, less, starts_with

_ClockUnit: TypeAlias = Literal["s", "ms", "us", "ns"]

# Only equal bounds prove anything about these tests.
_BY_BOTH: Final = frozenset({Operator.NOT_EQUAL, Operator.NOT_IN, Operator.ENDS_WITH, Operator.CONTAINS})
_BELOW_ONLY: Final = frozenset({Operator.GREATER_THAN, Operator.GREATER_OR_EQUAL})
_ABOVE_ONLY: Final = frozenset({Operator.LESS_THAN, Operator.LESS_OR_EQUAL})
_PREFIX_TESTS: Final = frozenset({Operator.STARTS_WITH, Operator.LIKE})
# Sign between an upper bound that excludes every row and the literal; others use less-than.
_BELOW: Final = {Operator.GREATER_THAN: "<="}
_ABOVE: Final = {Operator.LESS_THAN: ">="}
# Nanoseconds per unit, coarsest first.
_CLOCK_UNITS: Final[Mapping[_ClockUnit, int]] = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def bound_texts(leaf: BoundLeaf, bounds: ColumnBounds, verdicts: Verdicts) -> list[str]:
    """Describe the bounds of a test's column in each file, and which bound proved that no row matches.

    ``verdicts``, shape (n,), are what the bounds prove.
    """
    name = leaf.field.name
    all_null = (bounds.null_count == bounds.row_count) & (bounds.row_count > 0)
    by_nulls = all_null | ((leaf.operator in NULL_TESTS) & (bounds.null_count != UNKNOWN_COUNT))
    has_ends = ~by_nulls & (bounds.has_low | bounds.has_high)
    if has_ends.all():
        return _ends(leaf, bounds, verdicts)
    # A plan may explain very many files, so whole columns are rendered at once.
    texts = np.full(len(bounds), f"{name} has no bounds", object)
    nulls, rows = bounds.null_count[by_nulls].tolist(), bounds.row_count[by_nulls].tolist()
    texts[by_nulls] = [
        f"{name} is NULL in {missing:,} of {all_rows:,} rows"
        for missing, all_rows in zip(nulls, rows, strict=True)
    ]
    if has_ends.any():
        texts[has_ends] = _ends(leaf, bounds.take(np.flatnonzero(has_ends)), verdicts[has_ends])
    lines: list[str] = texts.tolist()
    return lines


def point_texts(field: DataField, bounds: ColumnBounds) -> list[str]:
    """Describe the single value of each file or partition, where both bounds equal it."""
    bounded = np.flatnonzero(bounds.has_low)
    texts = np.full(len(bounds), f"{field.name} is NULL", object)
    texts[bounded] = [f"{field.name} is {value}" for value in _shown(bounds.low.take(bounded), field)]
    lines: list[str] = texts.tolist()
    return lines


def _ends(leaf: BoundLeaf, bounds: ColumnBounds, verdicts: Verdicts) -> list[str]:
    name, none = leaf.field.name, verdicts == Verdict.NONE
    lows = _known(bounds.low, bounds.has_low, leaf.field)
    highs = _known(bounds.high, bounds.has_high, leaf.field)
    if bounds.has_low.all() and bounds.has_high.all():
        # The usual case, and the quickest.
        texts = [f"{name} min {low} max {high}" for low, high in zip(lows, highs, strict=True)]
    else:
        texts = [
            f"{name}{_part('min', low)}{_part('max', high)}" for low, high in zip(lows, highs, strict=True)
        ]
    if not leaf.literals or not none.any():
        return texts
    first, last = leaf.literals[0], leaf.literals[-1]
    below = none & bounds.has_high & _is_below(leaf.operator, bounds.high, first)
    above = none & bounds.has_low & ~below & _is_above(leaf.operator, bounds.low, last)
    end = f" {_BELOW.get(leaf.operator, '<')} {shown_value(first, leaf.field)}"
    for at in np.flatnonzero(below).tolist():
        texts[at] += end
    end = f" {_ABOVE.get(leaf.operator, '>')} {shown_value(last, leaf.field)}"
    for at in np.flatnonzero(above).tolist():
        texts[at] = f"{name}{_part('max', highs[at])} min {lows[at]}{end}"
    return texts


def _part(label: str, text: str | None) -> str:
    return "" if text is None else f" {label} {text}"


def _is_below(operator: Operator, highs: Values, literal: Value) -> NDArray[np.bool_]:
    """Mask files whose upper bound alone excludes every row from a test by ``literal``."""
    if operator in _BY_BOTH or operator in _ABOVE_ONLY:
        return np.zeros(len(highs), np.bool_)
    if operator is Operator.GREATER_THAN:
        return ~less(literal, highs)
    return less(highs, _prefix(operator, literal))


def _is_above(operator: Operator, lows: Values, literal: Value) -> NDArray[np.bool_]:
    """Mask files whose lower bound alone excludes every row from a test by ``literal``."""
    if operator in _BY_BOTH or operator in _BELOW_ONLY:
        return np.zeros(len(lows), np.bool_)
    if operator is Operator.LESS_THAN:
        return ~less(lows, literal)
    prefix = _prefix(operator, literal)
    if isinstance(prefix, bytes) and isinstance(lows, pa.LargeBinaryArray) and operator in _PREFIX_TESTS:
        return less(prefix, lows) & ~starts_with(lows, prefix)
    return less(prefix, lows)


def _prefix(operator: Operator, literal: Value) -> Value:
    is_pattern = operator is Operator.LIKE and isinstance(literal, bytes)
    return literal_prefix(literal) if is_pattern else literal  # type: ignore[arg-type] # narrowed by a name


def _known(values: Values, known: NDArray[np.bool_], field: DataField) -> Sequence[str | None]:
    if known.all():
        return _shown(values, field)
    texts = np.full(len(known), None, object)
    texts[known] = _shown(values.take(np.flatnonzero(known)), field)
    lines: list[str | None] = texts.tolist()
    return lines


def _shown(values: Values, field: DataField) -> Sequence[str]:
    root = field.type.root
    if isinstance(values, pa.LargeBinaryArray):
        if root in STRING_ROOTS:
            return [_quoted(text) for text in values.to_pylist()]
    elif values.dtype == np.int64 and root in WHOLE_ROOTS - {TypeRoot.DATE, TypeRoot.TIME}:
        return list(map(str, values.tolist()))
    elif values.dtype == np.int64 and root in TIMESTAMP_ROOTS:
        zone = "Z" if root is TypeRoot.TIMESTAMP_LTZ else ""
        unit = next(unit for unit, nanos in _CLOCK_UNITS.items() if not (values % nanos).any())
        texts: list[str] = np.datetime_as_string(values.view("M8[ns]"), unit).tolist()
        if unit != "s":
            texts = [text.rstrip("0").removesuffix(".") for text in texts]
        return [f"'{text}{zone}'" for text in texts]
    distinct, places = _distinct(values)
    shown = np.array([shown_value(value, field) for value in distinct], object)
    lines: list[str] = shown[places].tolist()
    return lines


def _distinct(values: Values) -> tuple[Sequence[Value], NDArray[np.int64]]:
    if isinstance(values, pa.LargeBinaryArray):
        encoded = values.dictionary_encode()
        return encoded.dictionary.to_pylist(), np.asarray(encoded.indices)
    distinct, places = np.unique(values, return_inverse=True)
    return distinct.tolist(), places


def _quoted(text: bytes) -> str:
    shown = text.decode(errors="replace")
    return f"'{shown}'" if len(shown) <= SHOWN_CHARACTERS else f"'{shown[:SHOWN_CHARACTERS]}...'"
