"""The kind ``bsi``; it has no options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from app.file_index.bsi import bsi
from app.file_index.bsi.bsi import BitSlicedIntegers
from app.file_index.bsi.stack import BsiStack
from app.file_index.keys.key_column import KeyColumn
from app.file_index.keys.keys import KeySpace
from app.file_index.kind import ColumnProfile, Kind, Proposal, RowKind, describe_bounds
from app.types import DataType, Json, TypeRoot
from app.types.bytes_column import BytesColumn
from app.types.data_types import TIMESTAMP_ROOTS, WHOLE_ROOTS
from app.types.roaring import Buffer

_ROOTS = WHOLE_ROOTS | {TypeRoot.DECIMAL} | TIMESTAMP_ROOTS


@dataclass(frozen=True, slots=True)
class BsiOptions:
    """A bsi has none."""


class BsiKind(RowKind[BitSlicedIntegers, BsiOptions]):
    """See :mod:`app.file_index.bsi.bsi`."""

    __slots__ = ()

    options_class: ClassVar[type] = BsiOptions

    def takes(self, data_type: DataType) -> bool:
        """See :meth:`Kind.takes`."""
        return data_type.root in _ROOTS

    def read(self, payload: Buffer, space: KeySpace) -> BitSlicedIntegers:  # noqa: ARG002 - keys are integers
        """See :meth:`Kind.read`."""
        return BitSlicedIntegers.read(payload)

    def stack(self, payloads: BytesColumn, space: KeySpace) -> BsiStack:  # noqa: ARG002 - keys are integers
        """See :meth:`Kind.stack`."""
        return BsiStack.read(payloads)

    def parse_options(self, written: Mapping[str, str]) -> BsiOptions:  # noqa: ARG002 - it has none
        """See :meth:`Kind.parse_options`."""
        return BsiOptions()

    def write(self, column: KeyColumn, options: BsiOptions) -> bytes:  # noqa: ARG002 - it has none
        """See :meth:`Kind.write`."""
        return bsi.write(column)

    def describe(self, index: BitSlicedIntegers, data_type: DataType) -> dict[str, Json]:
        """See :meth:`Kind.describe`."""
        return {**self._counts(index), **describe_bounds(index.bounds(), data_type)}

    def describe_untyped(self, payload: Buffer) -> dict[str, Json]:
        """See :meth:`Kind.describe_untyped`."""
        return self._counts(BitSlicedIntegers.read(payload))

    def propose(self, profile: ColumnProfile) -> Proposal[BsiOptions]:  # noqa: ARG002 - what is left
        """For what no other kind takes."""
        return Proposal(10, "many values, too wide for other indexes", BsiOptions())

    @staticmethod
    def _counts(index: BitSlicedIntegers) -> dict[str, Json]:
        return {
            "version": bsi.VERSION,
            "row_count": index.row_count,
            "null_count": len(index.null_rows()),
        }


BSI: Final[Kind[Any, Any]] = BsiKind("bsi")
