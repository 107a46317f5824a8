"""Decoded metadata records as columns, and descriptions of the records that a reader expects.

Types have Avro's names. Columns hold numbers or byte strings. Where their form allows, columns of records
that were decoded in one piece share its memory, so one column keeps all of it alive. Records in several
pieces are copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Self, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.types import BytesColumn

_Integer = TypeVar("_Integer", bound=np.integer)

_MEMORY_PER_ITEM: Final = 16


@dataclass(frozen=True, slots=True, eq=False)
class OptionalIntegers:
    """Integers, int64, shape (n,), with a mask ``known``, bool, shape (n,). Unknown ones are 0."""

    values: NDArray[np.int64]
    known: NDArray[np.bool_]

    @classmethod
    def of(cls, array: pa.Array) -> Self:
        """Convert an Arrow array of integers and nulls."""
        if array.null_count == len(array):
            return cls(np.zeros(len(array), np.int64), np.zeros(len(array), np.bool_))
        if not array.null_count:
            return cls(np.asarray(array).astype(np.int64, copy=False), np.ones(len(array), np.bool_))
        values = np.asarray(array.fill_null(0)).astype(np.int64, copy=False)
        return cls(values, np.asarray(array.is_valid()))

    def __getitem__(self, row: int) -> int | None:
        return int(self.values[row]) if self.known[row] else None

    def take(self, rows: NDArray[np.integer]) -> Self:
        """Select ``rows``, in that order."""
        return type(self)(self.values[rows], self.known[rows])

    def tolist(self) -> list[int | None]:
        """Return Python integers, None where unknown."""
        pairs = zip(self.values.tolist(), self.known.tolist(), strict=True)
        return [value if known else None for value, known in pairs]


@dataclass(frozen=True, slots=True, eq=False)
class NameLists:
    """Lists of names, few of them distinct. ``codes``, int32, shape (n,), index ``lists``, -1 for no list."""

    codes: NDArray[np.int32]
    lists: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, array: pa.ListArray) -> Self:
        """Convert an Arrow array of lists of strings, or nulls."""
        if array.null_count == len(array):
            return cls(np.full(len(array), -1, np.int32), ())
        codes, examples = list_codes(array)
        lists = tuple(tuple(names or ()) for names in array.take(pa.array(examples)).to_pylist())
        return cls(np.where(np.asarray(array.is_valid()), codes, np.int32(-1)), lists)

    def __getitem__(self, row: int) -> tuple[str, ...] | None:
        code = self.codes[row]
        return None if code < 0 else self.lists[code]


@dataclass(frozen=True, slots=True, eq=False)
class RecordColumns:
    """Records of one type, column by column. A nullable column may be absent.

    Arrow delivers one piece of them or more. No record is null.
    """

    pieces: Sequence[pa.StructArray]

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    @property
    def nbytes(self) -> int:
        """Memory of all columns in bytes, used or not."""
        return sum(piece.get_total_buffer_size() for piece in self.pieces)

    @property
    def nbytes_with_copies(self) -> int:
        """:attr:`nbytes`, and the copies that columns of several pieces take."""
        return self.nbytes * min(len(self.pieces), 2)

    def integers(self, name: str, dtype: type[_Integer]) -> NDArray[_Integer]:
        """Return a column of integers, shape (n,)."""
        columns = [np.asarray(piece.field(name)) for piece in self.pieces]
        return np.concatenate(columns).astype(dtype, copy=False)

    def optional_integers(self, name: str) -> OptionalIntegers:
        """Return a column of integers and nulls."""
        return OptionalIntegers.of(self._nullable(name, pa.int64()))

    def strings(self, name: str) -> BytesColumn:
        """Return a column of byte strings or UTF-8 strings, or nulls."""
        if not self._has(name):
            return BytesColumn.from_arrow(pa.nulls(len(self), pa.binary()))
        return BytesColumn.concat([BytesColumn.from_arrow(piece.field(name)) for piece in self.pieces])

    def objects(self, name: str) -> list[Any]:
        """Return a column of any type as Python objects: records as dictionaries, None for null."""
        objects: list[Any] = self._nullable(name, pa.null()).to_pylist()
        return objects

    def coded_bytes(self, name: str) -> tuple[NDArray[np.int32], tuple[bytes, ...]]:
        """Dictionary-encode a column of byte strings: codes, shape (n,), and the distinct strings."""
        encoded = self._nullable(name, pa.binary()).dictionary_encode()
        return np.asarray(encoded.indices), tuple(encoded.dictionary.to_pylist())

    def lists(self, name: str, items: pa.DataType) -> pa.ListArray:
        """Return a column of lists or nulls. ``items`` is their type if the column is absent."""
        return self._nullable(name, pa.list_(items))

    def records(self, name: str) -> RecordColumns:
        """Return a column of records."""
        return RecordColumns([piece.field(name) for piece in self.pieces])

    def _has(self, name: str) -> bool:
        place: int = self.pieces[0].type.get_field_index(name)
        return place >= 0

    def _nullable(self, name: str, absent: pa.DataType) -> pa.Array:
        if not self._has(name):
            return pa.nulls(len(self), absent)
        columns = [piece.field(name) for piece in self.pieces]
        return columns[0] if len(columns) == 1 else pa.concat_arrays(columns)


def take_out(pieces: Iterable[pa.StructArray], *path: str) -> tuple[RecordColumns, BytesColumn]:
    """Split a column of nullable byte strings off records."""
    # The column may be nearly all of a large file: pieces are copied and freed one by one.
    coming = iter(pieces)
    ahead = list(islice(coming, 2))
    if len(ahead) == 1:
        records, column = _take_out(ahead[0], path)
        return RecordColumns([records]), column
    rest: list[pa.StructArray] = []

    def columns() -> Iterator[BytesColumn]:
        while ahead:
            records, column = _take_out(ahead.pop(0), path)
            # Copied, since a view would keep the memory of the whole piece.
            rest.append(pa.concat_arrays([records.slice(0, 0), records]) if len(column.data) else records)
            yield column
            del records, column
            ahead.extend(islice(coming, 1))

    column = BytesColumn.joined(columns())
    return RecordColumns(rest), column


def _take_out(records: pa.StructArray, path: Sequence[str]) -> tuple[pa.StructArray, BytesColumn]:
    name, *rest = path
    if records.type.get_field_index(name) < 0:
        return records, BytesColumn.from_arrow(pa.nulls(len(records), pa.binary()))
    fields = {member.name: records.field(member.name) for member in records.type}
    taken = fields.pop(name)
    if rest:
        fields[name], column = _take_out(taken, rest)
    else:
        column = BytesColumn.from_arrow(taken)
    return pa.StructArray.from_arrays(list(fields.values()), names=list(fields)), column


def memory_of(records: pa.StructArray) -> int:
    """Return memory of records in bytes, with the offsets that lists of them will take."""
    size: int = records.get_total_buffer_size()
    return size + _MEMORY_PER_ITEM * _list_items(records)


def _list_items(array: pa.Array) -> int:
    if pa.types.is_struct(array.type):
        return sum(_list_items(array.field(at)) for at in range(array.type.num_fields))
    if pa.types.is_list(array.type):
        return len(array.values) + _list_items(array.values)
    return 0


def list_codes(array: pa.ListArray) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Give numbers to lists of strings so that equal lists have one number. Null counts as empty.

    Return the number of each list, shape (n,), and for each number the first row that has it.
    """
    names = array.values.dictionary_encode().indices.cast(pa.int32())
    # The numbers of a list's names, one after the other, are the bytes of one string.
    offsets = np.asarray(array.offsets).astype(np.int64) * np.int32().itemsize
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(np.asarray(names)))]
    codes = np.asarray(
        pa.Array.from_buffers(pa.large_binary(), len(array), buffers).dictionary_encode().indices
    )
    _, examples = np.unique(codes, return_index=True)
    return codes, examples


@dataclass(frozen=True, slots=True)
class Nullable:
    """Union with null."""

    inner: Expected


@dataclass(frozen=True, slots=True)
class ArrayOf:
    """Array of items of one type."""

    items: Expected


@dataclass(frozen=True, slots=True, eq=False)
class RecordOf:
    """Record with at least these fields. Nullable ones may be missing."""

    fields: Mapping[str, Expected]


@dataclass(frozen=True, slots=True)
class AsWritten:
    """Simple type of a field that only the writer's schema has: kept as it is, not interpreted."""

    schema: bytes


Expected: TypeAlias = "str | Nullable | ArrayOf | RecordOf | AsWritten"
