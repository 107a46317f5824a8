"""Decoded records: what a reader expects of them, whichever format they are in, and their columns.

Types have Avro's names. Columns are of numbers and of byte strings. They share the memory of records that
were decoded in one piece wherever their form allows: one of them keeps all of that memory alive. Of records
in several pieces they are copies.
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

Integer = TypeVar("Integer", bound=np.integer)

_MEMORY_PER_ITEM: Final = 16


@dataclass(frozen=True, slots=True, eq=False)
class OptionalIntegers:
    """Integers, int64, shape (n,), and which of them are known, bool, shape (n,); the others are 0."""

    values: NDArray[np.int64]
    known: NDArray[np.bool_]

    @classmethod
    def of(cls, array: pa.Array) -> Self:
        """From an Arrow array of integers or nulls."""
        if array.null_count == len(array):
            return cls(np.zeros(len(array), np.int64), np.zeros(len(array), np.bool_))
        if not array.null_count:
            return cls(np.asarray(array).astype(np.int64, copy=False), np.ones(len(array), np.bool_))
        values = np.asarray(array.fill_null(0)).astype(np.int64, copy=False)
        return cls(values, np.asarray(array.is_valid()))

    def __getitem__(self, row: int) -> int | None:
        return int(self.values[row]) if self.known[row] else None

    def take(self, rows: NDArray[np.integer]) -> Self:
        """Those of ``rows``, in that order."""
        return type(self)(self.values[rows], self.known[rows])

    def tolist(self) -> list[int | None]:
        """The integers, None where not known."""
        pairs = zip(self.values.tolist(), self.known.tolist(), strict=True)
        return [value if known else None for value, known in pairs]


@dataclass(frozen=True, slots=True, eq=False)
class NameLists:
    """Lists of names, of which few differ; codes are int32, shape (n,): which of ``lists``, -1 for none."""

    codes: NDArray[np.int32]
    lists: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, array: pa.ListArray) -> Self:
        """From an Arrow array of lists of strings or nulls."""
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
    """Records of one type, column by column; a column may be absent if it is nullable.

    There is one piece of them or more, as Arrow has them; none of the records is null.
    """

    pieces: Sequence[pa.StructArray]

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    @property
    def nbytes(self) -> int:
        """Bytes of memory of all columns, those that nobody asked for included."""
        return sum(piece.get_total_buffer_size() for piece in self.pieces)

    @property
    def nbytes_with_copies(self) -> int:
        """As :attr:`nbytes`, with the copies that columns of several pieces are."""
        return self.nbytes * min(len(self.pieces), 2)

    def integers(self, name: str, dtype: type[Integer]) -> NDArray[Integer]:
        """A column of integers, shape (n,)."""
        columns = [np.asarray(piece.field(name)) for piece in self.pieces]
        return np.concatenate(columns).astype(dtype, copy=False)

    def optional_integers(self, name: str) -> OptionalIntegers:
        """A column of integers or nulls."""
        return OptionalIntegers.of(self._nullable(name, pa.int64()))

    def strings(self, name: str) -> BytesColumn:
        """A column of byte strings, or of strings as UTF-8, or of nulls."""
        if not self._has(name):
            return BytesColumn.from_arrow(pa.nulls(len(self), pa.binary()))
        return BytesColumn.concat([BytesColumn.from_arrow(piece.field(name)) for piece in self.pieces])

    def objects(self, name: str) -> list[Any]:
        """A column of any type as objects, records as dictionaries, None where null."""
        objects: list[Any] = self._nullable(name, pa.null()).to_pylist()
        return objects

    def coded_bytes(self, name: str) -> tuple[NDArray[np.int32], tuple[bytes, ...]]:
        """A column of byte strings, of which few differ: which one each is, and the different ones."""
        encoded = self._nullable(name, pa.binary()).dictionary_encode()
        return np.asarray(encoded.indices), tuple(encoded.dictionary.to_pylist())

    def lists(self, name: str, items: pa.DataType) -> pa.ListArray:
        """A column of lists or nulls; ``items`` is their type where the column is absent."""
        return self._nullable(name, pa.list_(items))

    def records(self, name: str) -> RecordColumns:
        """A column of records."""
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
    """Records without a column of nullable byte strings, and the column.

    Several pieces are copied and let go of one by one, since the column may be nearly all of a large file.
    """
    coming = iter(pieces)
    ahead = list(islice(coming, 2))
    if len(ahead) == 1:
        records, column = _take_out(ahead[0], path)
        return RecordColumns([records]), column
    rest: list[pa.StructArray] = []

    def columns() -> Iterator[BytesColumn]:
        while ahead:
            records, column = _take_out(ahead.pop(0), path)
            # The memory of a piece is held until nobody needs any of it.
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
    """Bytes of memory of some records, and of where each item of their lists starts and ends."""
    size: int = records.get_total_buffer_size()
    return size + _MEMORY_PER_ITEM * _list_items(records)


def _list_items(array: pa.Array) -> int:
    """How many items the lists in an Arrow array have together, those inside of records included."""
    if pa.types.is_struct(array.type):
        return sum(_list_items(array.field(at)) for at in range(array.type.num_fields))
    if pa.types.is_list(array.type):
        return len(array.values) + _list_items(array.values)
    return 0


def list_codes(array: pa.ListArray) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Numbers lists of strings so that equal lists have one number; null counts as empty.

    The number of each list, shape (n,), and for each number the first row that has it.
    """
    names = array.values.dictionary_encode().indices.cast(pa.int32())
    # The numbers of a list's names, one behind the other, are the bytes of one string.
    offsets = np.asarray(array.offsets).astype(np.int64) * np.int32().itemsize
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(np.asarray(names)))]
    codes = np.asarray(
        pa.Array.from_buffers(pa.large_binary(), len(array), buffers).dictionary_encode().indices
    )
    _, examples = np.unique(codes, return_index=True)
    return codes, examples


@dataclass(frozen=True, slots=True)
class Nullable:
    """A union with null."""

    inner: Expected


@dataclass(frozen=True, slots=True)
class ArrayOf:
    """An array."""

    items: Expected


@dataclass(frozen=True, slots=True, eq=False)
class RecordOf:
    """A record with at least these fields, save nullable ones."""

    fields: Mapping[str, Expected]


@dataclass(frozen=True, slots=True)
class AsWritten:
    """A simple type of which nothing is expected: that of a field which only the writer of a file knows."""

    schema: bytes


Expected: TypeAlias = "str | Nullable | ArrayOf | RecordOf | AsWritten"
