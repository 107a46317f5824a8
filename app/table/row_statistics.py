"""Bounds and null counts of some columns, as manifests store them.

Two serialized rows (:mod:`app.types.binary_row`) and an array, with one slot per column: ``_MIN_VALUES
bytes``, ``_MAX_VALUES bytes``, ``_NULL_COUNTS [null, array<[null, long]>]``. Which columns these are, the
surrounding record says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from app.errors import CorruptMetadataError
from app.table.avro_schema import ArrayOf, Nullable, RecordOf
from app.types.binary_row import read_row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.types import DataType, Value

STATISTICS = RecordOf(
    {"_MIN_VALUES": "bytes", "_MAX_VALUES": "bytes", "_NULL_COUNTS": Nullable(ArrayOf(Nullable("long")))}
)
"""The Avro record, for the records that contain it."""

_MEMORY = 250
_MEMORY_PER_COUNT = 16


@dataclass(frozen=True, slots=True)
class RowStatistics:
    """Statistics as stored; the rows are decoded when somebody asks.

    Attributes:
        min_values: serialized row of lower bounds.
        max_values: serialized row of upper bounds.
        null_counts: nulls of each column, None where not counted; empty if nothing was.
    """

    min_values: bytes
    max_values: bytes
    null_counts: tuple[int | None, ...]

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """From a decoded Avro record."""
        counts = record.get("_NULL_COUNTS")
        return cls(record["_MIN_VALUES"], record["_MAX_VALUES"], tuple(counts or ()))

    @property
    def nbytes(self) -> int:
        """About how much memory the object takes."""
        rows = len(self.min_values) + len(self.max_values)
        return _MEMORY + rows + _MEMORY_PER_COUNT * len(self.null_counts)

    def decode(self, types: Sequence[DataType]) -> list[tuple[Value | None, Value | None, int | None]]:
        """``(lower bound, upper bound, null count)`` of each column, None where unknown.

        Raises:
            CorruptMetadataError: there are not as many columns as types, or a value lies outside of its row.
        """
        if self.null_counts and len(self.null_counts) != len(types):
            raise CorruptMetadataError(
                f"expected null counts of {len(types)} columns, found {len(self.null_counts)}"
            )
        counts = self.null_counts or (None,) * len(types)
        return list(
            zip(read_row(self.min_values, types), read_row(self.max_values, types), counts, strict=True)
        )
