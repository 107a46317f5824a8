"""The kind ``bsi``. It has no options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from typing_extensions import override

from app.file_index.bsi import bsi
from app.file_index.bsi.bsi import BitSlicedIntegers
from app.file_index.bsi.stack import BsiStack
from app.file_index.keys.key_column import KeyColumn
from app.file_index.keys.keys import KeySpace
from app.file_index.kind import ColumnProfile, Kind, Proposal, describe_bounds
from app.types import TIMESTAMP_ROOTS, WHOLE_ROOTS, BytesColumn, DataType, Json, TypeRoot
from app.types.roaring import Buffer


@dataclass(frozen=True, slots=True)
class BsiOptions:
    """The empty set of options."""


class BsiKind(Kind[BitSlicedIntegers, BsiOptions]):
    """The kind. See :mod:`app.file_index.bsi.bsi`."""

    __slots__ = ()

    roots: ClassVar = WHOLE_ROOTS | {TypeRoot.DECIMAL} | TIMESTAMP_ROOTS
    options_class: ClassVar[type] = BsiOptions

    @override
    def stack(self, payloads: BytesColumn, space: KeySpace, *, strict: bool = False) -> BsiStack:
        return BsiStack.read(payloads, strict=strict)

    @override
    def parse_options(self, written: Mapping[str, str]) -> BsiOptions:
        return BsiOptions()

    @override
    def write(self, column: KeyColumn, options: BsiOptions) -> bytes:
        return bsi.write(column)

    @override
    def describe(self, index: BitSlicedIntegers, data_type: DataType) -> dict[str, Json]:
        return {**self._counts(index), **describe_bounds(index.bounds(), data_type)}

    @override
    def describe_untyped(self, payload: Buffer) -> dict[str, Json]:
        return self._counts(BsiStack.read(BytesColumn.of([payload]), strict=True).of_file(0))

    @override
    def propose(self, profile: ColumnProfile) -> Proposal[BsiOptions]:
        return Proposal(10, "many values, too wide for other indexes", BsiOptions())

    @staticmethod
    def _counts(index: BitSlicedIntegers) -> dict[str, Json]:
        return {"version": bsi.VERSION, "row_count": index.row_count, "null_count": len(index.null_rows())}


BSI: Final[Kind[Any, Any]] = BsiKind("bsi")
