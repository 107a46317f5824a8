"""The kind ``bitmap``.

==============  ====================  ===========  =======================================================
kind            option                default      meaning
==============  ====================  ===========  =======================================================
bitmap          ``version``           2            1 or 2
bitmap          ``index-block-size``  16 kb        version 2: bound on the size of a block of entries
==============  ====================  ===========  =======================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from typing_extensions import override

from app.errors import RequestError
from app.file_index.bitmap import bitmap
from app.file_index.bitmap.bitmap import DEFAULT_BLOCK_BYTES, VERSION_1, VERSION_2, BitmapIndex
from app.file_index.bitmap.stack import BitmapHeads, BitmapStack
from app.file_index.keys.key_column import KeyColumn
from app.file_index.keys.keys import KeySpace
from app.file_index.kind import ColumnProfile, Kind, Proposal, describe_bounds
from app.file_index.payloads import Cursors
from app.options import INT32_MAX, memory_size, whole_number
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

_FEW_VALUES: Final = 500
_ROWS_PER_VALUE: Final = 4


@dataclass(frozen=True, slots=True)
class BitmapOptions:
    """Layout of a bitmap index. Raises RequestError if there is no such layout."""

    version: int = VERSION_2
    # Version 2: largest size of a block of entries.
    block_bytes: int = DEFAULT_BLOCK_BYTES

    def __post_init__(self) -> None:
        if self.version not in (VERSION_1, VERSION_2):
            raise RequestError(f"version must be {VERSION_1} or {VERSION_2}, found {self.version}")
        if not 0 < self.block_bytes <= INT32_MAX:
            raise RequestError(f"index-block-size must be from 1 b to 2 gb, found {self.block_bytes} b")


class BitmapKind(Kind[BitmapIndex, BitmapOptions]):
    """The kind. See :mod:`app.file_index.bitmap.bitmap`."""

    __slots__ = ()

    roots: ClassVar = WHOLE_ROOTS | {TypeRoot.BOOLEAN} | FLOATING_ROOTS | STRING_ROOTS | TIMESTAMP_ROOTS
    options_class: ClassVar[type] = BitmapOptions
    option_names: ClassVar[tuple[str, ...]] = ("version", "index-block-size")
    directory_bytes: ClassVar[int] = 1

    @override
    def stack(self, payloads: BytesColumn, space: KeySpace, *, strict: bool = False) -> BitmapStack:
        return BitmapStack.read(payloads, space, strict=strict)

    @override
    def parse_options(self, written: Mapping[str, str]) -> BitmapOptions:
        size = written.get("index-block-size", f"{DEFAULT_BLOCK_BYTES} b")
        version = whole_number("version", written.get("version", str(VERSION_2)))
        return BitmapOptions(version, memory_size("index-block-size", size))

    @override
    def write(self, column: KeyColumn, options: BitmapOptions) -> bytes:
        return bitmap.write(column, options.version, options.block_bytes)

    @override
    def describe(self, index: BitmapIndex, data_type: DataType) -> dict[str, Json]:
        return {
            "version": index.version,
            "row_count": index.row_count,
            "cardinality": index.cardinality,
            "null_count": len(index.null_rows()),
            **describe_bounds(index.entries.bounds(), data_type),
        }

    @override
    def describe_untyped(self, payload: Buffer) -> dict[str, Json]:
        heads = BitmapHeads.read(Cursors.of(BytesColumn.of([payload]), strict=True))
        return {
            "version": int(heads.versions[0]),
            "row_count": int(heads.row_counts[0]),
            "cardinality": int(heads.cardinalities[0]),
            "has_nulls": bool(heads.flags[0]),
        }

    @override
    def propose(self, profile: ColumnProfile) -> Proposal[BitmapOptions] | None:
        few = profile.distinct <= _FEW_VALUES and profile.distinct * _ROWS_PER_VALUE <= profile.values
        if not few and profile.data_type.root is not TypeRoot.BOOLEAN:
            return None
        return Proposal(40, "few values", BitmapOptions())


BITMAP: Final[Kind[Any, Any]] = BitmapKind("bitmap")
