"""Stored records that begin with a key, many at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from app.file_index.keys.arrow_keys import ArrowKeys
from app.file_index.keys.keys import FloatingKeys, KeySpace
from app.types import BytesColumn

_NUMBER: Final = np.dtype(">i4")


@dataclass(frozen=True, slots=True, eq=False)
class KeyRecords:
    """n records back to back. ``bounds``: int64, shape (n + 1,): starts and end, or their common width."""

    data: NDArray[np.uint8]
    bounds: NDArray[np.int64] | int

    def __len__(self) -> int:
        return len(self.data) // self.bounds if isinstance(self.bounds, int) else len(self.bounds) - 1

    def starts(self, records: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the start of each of ``records``. Record n stands for the end of the last one."""
        return records * self.bounds if isinstance(self.bounds, int) else self.bounds[records]

    def behind_fitting(self, first: int, size: int) -> int:
        """Return the record after those that fit ``size`` bytes from ``first`` on. ``first`` may be n."""
        if isinstance(self.bounds, int):
            return min(first + size // self.bounds, len(self))
        return int(self.bounds.searchsorted(self.bounds[first] + size, "right")) - 1


def stored_keys(keys: ArrowKeys, space: KeySpace) -> KeyRecords:
    """Return the stored form of each key."""
    return key_records(keys, space, np.zeros((len(keys), 0), np.int64))


def key_records(
    keys: ArrowKeys, space: KeySpace, tails: NDArray[np.integer], lead: bytes = b""
) -> KeyRecords:
    """Encode records of ``lead``, key and row of ``tails``, shape (n, k), which become big-endian i32."""
    if isinstance(keys, BytesColumn):
        return _string_records(keys, tails, lead)
    bits = space.reorder(keys) if isinstance(space, FloatingKeys) else keys
    fields: list[Any] = [
        ("lead", np.uint8, (len(lead),)),
        ("key", bits.dtype.newbyteorder(">")),
        ("tail", _NUMBER, tails.shape[1:]),
    ]
    records = np.empty(len(keys), fields)
    records["lead"] = np.frombuffer(lead, np.uint8)
    records["key"] = bits
    records["tail"] = tails
    return KeyRecords(records.view(np.uint8), records.itemsize)


def _string_records(keys: BytesColumn, tails: NDArray[np.integer], lead: bytes) -> KeyRecords:
    heads = np.empty(len(keys), [("lead", np.uint8, (len(lead),)), ("length", _NUMBER)])
    heads["lead"] = np.frombuffer(lead, np.uint8)
    heads["length"] = keys.lengths
    tail_bytes = tails.shape[1] * _NUMBER.itemsize
    bounds = np.zeros(len(keys) + 1, np.int64)
    np.cumsum(heads.itemsize + keys.lengths + tail_bytes, out=bounds[1:])
    data = np.empty(int(bounds[-1]), np.uint8)
    if len(keys):
        _windows(data, heads.itemsize)[bounds[:-1]] = heads.view(f"V{heads.itemsize}")
        _copy_strings(keys, data, bounds[:-1] + heads.itemsize)
    if len(keys) and tail_bytes:
        ends = np.ascontiguousarray(tails, _NUMBER).view(f"V{tail_bytes}")[:, 0]
        _windows(data, tail_bytes)[bounds[1:] - tail_bytes] = ends
    return KeyRecords(data, bounds)


def _copy_strings(strings: BytesColumn, data: NDArray[np.uint8], to: NDArray[np.int64]) -> None:
    by_length = np.argsort(strings.lengths, kind="stable")
    lengths, begins = np.unique(strings.lengths[by_length], return_index=True)
    for length, rows in zip(lengths.tolist(), np.split(by_length, begins[1:]), strict=True):
        if length:
            source = _windows(strings.data, length)
            _windows(data, length)[to[rows]] = source[strings.starts[rows]]


def _windows(data: NDArray[np.uint8], width: int) -> NDArray[np.void]:
    """Return every stretch of ``width`` bytes of a buffer as a writable, opaque item."""
    return np.ndarray((len(data) - width + 1,), np.dtype((np.void, width)), data, strides=(1,))
