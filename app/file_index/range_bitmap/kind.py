"""The kind ``range-bitmap``.

==============  ====================  ===========  =======================================================
kind            option                default      meaning
==============  ====================  ===========  =======================================================
range-bitmap    ``chunk-size``        16 kb        bound on the further keys of a chunk of the dictionary;
                                                   0 b for BOOLEAN, TINYINT and SMALLINT
==============  ====================  ===========  =======================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from typing_extensions import override

from app.errors import RequestError
from app.file_index.keys.key_column import KeyColumn
from app.file_index.keys.keys import KeySpace, key_space
from app.file_index.kind import ColumnProfile, Kind, Proposal, describe_bounds
from app.file_index.payloads import Cursors
from app.file_index.range_bitmap import range_bitmap
from app.file_index.range_bitmap.range_bitmap import RangeBitmap
from app.file_index.range_bitmap.stack import RangeBitmapHeads, RangeBitmapStack
from app.options import INT32_MAX, memory_size
from app.types import (
    FLOATING_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    WHOLE_ROOTS,
    BytesColumn,
    DataType,
    Json,
    TypeRoot,
)
from app.types.roaring import Buffer


@dataclass(frozen=True, slots=True)
class RangeBitmapOptions:
    """Layout of a range-bitmap's dictionary. Raises RequestError if there is no such layout."""

    # Largest size of a chunk's further keys; None for the default of the column's type.
    chunk_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.chunk_bytes is not None and not 0 <= self.chunk_bytes <= INT32_MAX:
            raise RequestError(f"chunk-size must be from 0 b to 2 gb, found {self.chunk_bytes} b")


class RangeBitmapKind(Kind[RangeBitmap, RangeBitmapOptions]):
    """The kind. See :mod:`app.file_index.range_bitmap.range_bitmap`."""

    __slots__ = ()

    roots: ClassVar = (
        WHOLE_ROOTS | {TypeRoot.BOOLEAN, TypeRoot.DECIMAL} | FLOATING_ROOTS | STRING_ROOTS | TIMESTAMP_ROOTS
    )
    options_class: ClassVar[type] = RangeBitmapOptions
    option_names: ClassVar[tuple[str, ...]] = ("chunk-size",)
    directory_bytes: ClassVar[int] = 2

    @override
    def takes(self, data_type: DataType) -> bool:
        if not super().takes(data_type):
            return False
        space = key_space(data_type)
        is_wide_decimal = data_type.root is TypeRoot.DECIMAL and not data_type.is_compact_decimal
        return space is not None and not space.lossy and not is_wide_decimal

    @override
    def stack(self, payloads: BytesColumn, space: KeySpace, *, strict: bool = False) -> RangeBitmapStack:
        return RangeBitmapStack.read(payloads, space, strict=strict)

    @override
    def parse_options(self, written: Mapping[str, str]) -> RangeBitmapOptions:
        size = written.get("chunk-size")
        return RangeBitmapOptions(None if size is None else memory_size("chunk-size", size))

    @override
    def write(self, column: KeyColumn, options: RangeBitmapOptions) -> bytes:
        return range_bitmap.write(column, options.chunk_bytes)

    @override
    def describe(self, index: RangeBitmap, data_type: DataType) -> dict[str, Json]:
        return {
            "version": range_bitmap.VERSION,
            "row_count": index.row_count,
            "cardinality": index.cardinality,
            "null_count": len(index.null_rows()),
            **describe_bounds(index.bounds, data_type),
        }

    @override
    def describe_untyped(self, payload: Buffer) -> dict[str, Json]:
        heads = RangeBitmapHeads.read(Cursors.of(BytesColumn.of([payload]), strict=True))
        row_count, cardinality = int(heads.row_counts[0]), int(heads.cardinalities[0])
        return {"version": range_bitmap.VERSION, "row_count": row_count, "cardinality": cardinality}

    @override
    def propose(self, profile: ColumnProfile) -> Proposal[RangeBitmapOptions] | None:
        if profile.data_type.root in STRING_ROOTS:
            return None
        return Proposal(30, "many values that have an order", RangeBitmapOptions())


RANGE_BITMAP: Final[Kind[Any, Any]] = RangeBitmapKind("range-bitmap")
