"""Byte strings as a column: offsets into a shared buffer. A field at a fixed offset is read by one gather."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.errors import CorruptFileError
from app.work import MappedBytes

NULL_LENGTH: Final = -1

# With fewer strings the way of copying does not matter.
_MANY: Final = 64
# Strings packed for Arrow at a time: packing takes several times their memory.
_AT_ONCE: Final = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class BytesColumn:
    """Byte strings, some of which may be null."""

    # Shared buffer, uint8.
    data: NDArray[np.uint8]
    # int64, shape (n,): offset of each string in `data`; 0 where null.
    starts: NDArray[np.int64]
    # int64, shape (n,): bytes of each string; -1 where null.
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, strings: Iterable[bytes | memoryview | None]) -> Self:
        """Convert single strings."""
        listed = list(strings)
        lengths = np.array([NULL_LENGTH if value is None else len(value) for value in listed], np.int64)
        data = np.frombuffer(b"".join(value for value in listed if value is not None), np.uint8)
        ends = np.cumsum(np.maximum(lengths, 0))
        return cls(data, np.where(lengths < 0, 0, ends - lengths), lengths)

    @classmethod
    def nulls(cls, count: int) -> Self:
        """Return a column of nulls, which takes no memory."""
        start, length = np.broadcast_to(np.int64(0), count), np.broadcast_to(np.int64(NULL_LENGTH), count)
        return cls(np.zeros(0, np.uint8), start, length)

    @classmethod
    def from_arrow(cls, array: pa.Array) -> Self:
        """Wrap an Arrow array of (large) binary or string. The bytes are shared, not copied."""
        if array.null_count == len(array):
            return cls.nulls(len(array))
        large = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
        width = np.int64 if large else np.int32
        _, offsets_buffer, data_buffer = array.buffers()
        offsets = np.frombuffer(offsets_buffer, width, len(array) + 1, array.offset * width().itemsize)
        starts = offsets[:-1].astype(np.int64)
        lengths = offsets[1:].astype(np.int64) - starts
        if array.null_count:
            null = np.asarray(array.is_null())
            starts[null], lengths[null] = 0, NULL_LENGTH
        data = np.zeros(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
        return cls(data, starts, lengths)

    @classmethod
    def concat(cls, columns: Sequence[Self]) -> Self:
        """Concatenate one or more columns. A single one is shared."""
        if len(columns) == 1:
            return columns[0]
        before = np.cumsum([0, *(len(column.data) for column in columns)])[:-1]
        starts = [column.starts + shift for column, shift in zip(columns, before, strict=True)]
        lengths = np.concatenate([column.lengths for column in columns])
        data = np.concatenate([column.data for column in columns])
        return cls(data, np.where(lengths < 0, 0, np.concatenate(starts)), lengths)

    @classmethod
    def joined(cls, columns: Iterable[Self]) -> Self:
        """Concatenate columns that are made one by one. None is held while the next is made."""
        data, starts, lengths = bytearray(), [], []
        for column in columns:
            starts.append(np.where(column.lengths < 0, 0, column.starts + len(data)))
            lengths.append(column.lengths)
            # A large bytearray grows in place, page by page.
            data += column.data.data
            del column
        return cls(np.frombuffer(data, np.uint8), np.concatenate(starts), np.concatenate(lengths))

    @classmethod
    def gathered(cls, columns: Sequence[Self]) -> Self:
        """Concatenate one or more columns into a buffer without unused bytes."""
        strings: list[memoryview] = []
        for column in columns:
            shared = np.ascontiguousarray(column.data).data
            ends = column.starts + np.maximum(column.lengths, 0)
            strings += [shared[at:end] for at, end in zip(column.starts.tolist(), ends.tolist(), strict=True)]
        lengths = np.concatenate([column.lengths for column in columns])
        ends = np.cumsum(np.maximum(lengths, 0))
        data = np.frombuffer(b"".join(strings), np.uint8)
        return cls(data, np.where(lengths < 0, 0, ends - lengths), lengths)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, row: int) -> bytes | None:
        view = self.view(row)
        return None if view is None else bytes(view)

    def __iter__(self) -> Iterator[bytes | None]:
        data = self.data.data
        for start, length in zip(self.starts.tolist(), self.lengths.tolist(), strict=True):
            yield None if length < 0 else bytes(data[start : start + length])

    @property
    def nbytes(self) -> int:
        """Bytes of memory, including the buffer, which other columns may share."""
        return self.data.nbytes + self.starts.nbytes + self.lengths.nbytes

    @property
    def is_null(self) -> NDArray[np.bool_]:
        """Mask of nulls, shape (n,)."""
        return self.lengths < 0

    def view(self, row: int) -> memoryview | None:
        """Return one string without a copy, or None if it is null."""
        length = int(self.lengths[row])
        if length < 0:
            return None
        start = int(self.starts[row])
        return self.data[start : start + length].data

    def take(self, rows: NDArray[np.integer] | slice) -> Self:
        """Select ``rows``, in that order. The buffer stays shared."""
        return type(self)(self.data, self.starts[rows], self.lengths[rows])

    def without(self, rows: NDArray[np.bool_]) -> Self:
        """Set the masked ``rows``, shape (n,), to null. The buffer stays shared."""
        return type(self)(
            self.data, np.where(rows, 0, self.starts), np.where(rows, NULL_LENGTH, self.lengths)
        )

    def ends_with(self, suffix: bytes) -> NDArray[np.bool_]:
        """Mask strings that end with ``suffix``, which is not empty. Shape (n,), False for nulls."""
        ending = np.zeros(len(self), np.bool_)
        long_enough = np.flatnonzero(self.lengths >= len(suffix))
        strings = self.take(long_enough)
        ends = strings.gather(strings.lengths - len(suffix), len(suffix))
        ending[long_enough] = (ends == np.frombuffer(suffix, np.uint8)).all(axis=1)
        return ending

    def gather(self, offsets: NDArray[np.int64] | int, width: int) -> NDArray[np.uint8]:
        """Copy ``width`` bytes of each string from ``offsets`` on, shape (n, width).

        The caller must have checked that they are inside the strings. Bytes of nulls are undefined.
        """
        if len(self.data) < width:
            return np.zeros((len(self), width), np.uint8)
        # One opaque item per window: NumPy copies these much faster than rows of single bytes.
        opaque = np.dtype((np.void, width))
        if isinstance(offsets, int) and (step := self._step) is not None:
            first = int(self.starts[0]) + offsets
            even: NDArray[np.void] = np.ndarray((len(self),), opaque, self.data, first, strides=(step,))
            return even.copy().view(np.uint8).reshape(len(self), width)
        windows: NDArray[np.void] = np.ndarray((len(self.data) - width + 1,), opaque, self.data, strides=(1,))
        at = self.starts + offsets
        null = self.is_null
        if null.any():
            at[null] = 0
        gathered: NDArray[np.uint8] = windows[at].view(np.uint8).reshape(len(self), width)
        return gathered

    @property
    def _step(self) -> int | None:
        """Distance between starts if it is constant over many strings, else None."""
        if len(self) < _MANY or self.lengths.min() < 0:
            return None
        step = int(self.starts[1] - self.starts[0])
        return step if step > 0 and bool((np.diff(self.starts) == step).all()) else None

    def packed(self) -> Self:
        """Copy the strings into a buffer without unused bytes.

        Raises CorruptFileError if together they are longer than strings of this buffer can be.
        """
        lengths = np.maximum(self.lengths, 0)
        starts = np.cumsum(lengths) - lengths
        width = int(lengths[0]) if len(self) else 0
        if width and (lengths == width).all():
            data = self.gather(0, width).reshape(-1)
        else:
            size = int(lengths.sum())
            if not 0 <= size <= len(self) * len(self.data):
                raise CorruptFileError(
                    f"expected {len(self)} strings in {len(self.data)} bytes, found {size}"
                )
            index = np.int32 if max(size, len(self.data)) <= np.iinfo(np.int32).max else np.int64
            positions = np.repeat((self.starts - starts).astype(index), lengths)
            positions += np.arange(size, dtype=index)
            data = self.data[positions]
        return type(self)(data, np.where(self.is_null, 0, starts), self.lengths)

    def to_arrow(self) -> pa.LargeBinaryArray:
        """Convert to an Arrow array. Bytes are copied unless the strings are adjacent."""
        null = self.is_null
        if null.all():
            return pa.nulls(len(self), pa.large_binary())
        lengths = np.maximum(self.lengths, 0)
        offsets = np.zeros(len(self) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        size = int(offsets[-1])
        shifts = self.starts - offsets[:-1]
        first = int(shifts[0]) if len(self) else 0
        if ((shifts == first) | (lengths == 0)).all():
            data = self.data[first : first + size]
        else:
            data = self.packed().data
        # Arrow does not check offsets against the buffer.
        if len(data) != size:
            raise CorruptFileError(f"expected {size} bytes of strings, found {len(data)}")
        valid = pa.py_buffer(np.packbits(~null, bitorder="little")) if null.any() else None
        buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
        return pa.Array.from_buffers(pa.large_binary(), len(self), buffers, int(null.sum()))

    def distinct(self) -> tuple[Self, NDArray[np.uint32]]:
        """Return the distinct strings, ascending bytewise, and the rank of each string. None may be null."""
        parts = [self.take(slice(at, at + _AT_ONCE)).to_arrow() for at in range(0, len(self), _AT_ONCE)]
        encoded = pa.chunked_array(parts, pa.large_binary()).dictionary_encode()
        # All chunks share one dictionary.
        dictionary = encoded.chunk(0).dictionary if parts else pa.array([], pa.large_binary())
        order = np.asarray(pc.array_sort_indices(dictionary))
        ranks = np.empty(len(order), np.uint32)
        ranks[order] = np.arange(len(order), dtype=np.uint32)
        codes = [ranks[np.asarray(chunk.indices)] for chunk in encoded.chunks]
        return self.from_arrow(dictionary.take(order)), np.concatenate([ranks[:0], *codes])


def own_bytes(array: NDArray[Any]) -> int:
    """Return the memory of an array in bytes: one item if it is broadcast from one, 0 if it is mapped."""
    if not any(array.strides):
        return min(array.itemsize, array.nbytes)
    # The system manages the memory of mapped files, and processes share it.
    holder: object = array
    while isinstance(holder, np.ndarray) and not isinstance(holder, MappedBytes):
        holder = holder.base
    return 0 if isinstance(holder, MappedBytes) else array.nbytes
