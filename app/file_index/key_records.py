"""Stored records that begin with a key, many at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from app.file_index.keys import FloatingKeys
from app.types.bytes_column import BytesColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from app.file_index.arrow_keys import Keys
    from app.file_index.keys import KeySpace

_LENGTH: Final = np.dtype(">i4")


def stored_keys(keys: Keys, space: KeySpace) -> BytesColumn:
    """The stored form of each key; they lie back to back."""
    return key_records(keys, space, np.zeros((len(keys), 0), np.int32))


def key_records(keys: Keys, space: KeySpace, tails: NDArray[np.int32], lead: bytes = b"") -> BytesColumn:
    """Records of a key and some numbers each; they lie back to back.

    Args:
        keys: n of them.
        space: how they are stored.
        tails: shape (n, k): what follows each key, stored in 4 bytes a number, big endian.
        lead: bytes in front of each key.
    """
    if len(keys) == 0:
        return BytesColumn.of([])
    if isinstance(keys, BytesColumn):
        return _string_records(keys, tails, lead)
    bits = space.reorder(keys) if isinstance(space, FloatingKeys) else keys
    fields: list[Any] = [
        ("lead", np.uint8, (len(lead),)),
        ("key", bits.dtype.newbyteorder(">")),
        ("tail", _LENGTH, tails.shape[1:]),
    ]
    records = np.empty(len(keys), fields)
    records["lead"] = np.frombuffer(lead, np.uint8)
    records["key"] = bits
    records["tail"] = tails
    width = records.itemsize
    starts = np.arange(0, len(keys) * width, width)
    return BytesColumn(records.view(np.uint8), starts, np.full(len(keys), width))


def _string_records(keys: BytesColumn, tails: NDArray[np.int32], lead: bytes) -> BytesColumn:
    heads = np.empty(len(keys), [("lead", np.uint8, (len(lead),)), ("length", _LENGTH)])
    heads["lead"] = np.frombuffer(lead, np.uint8)
    heads["length"] = keys.lengths
    ends = np.ascontiguousarray(tails, _LENGTH)
    tail_bytes = tails.shape[1] * _LENGTH.itemsize
    sizes = heads.itemsize + keys.lengths + tail_bytes
    starts = np.cumsum(sizes) - sizes
    data = np.empty(int(sizes.sum()), np.uint8)
    _windows(data, heads.itemsize)[starts] = heads.view(f"V{heads.itemsize}")
    if tail_bytes:
        _windows(data, tail_bytes)[starts + sizes - tail_bytes] = ends.view(f"V{tail_bytes}")[:, 0]
    _copy_strings(keys, data, starts + heads.itemsize)
    return BytesColumn(data, starts, sizes)


def _copy_strings(strings: BytesColumn, data: NDArray[np.uint8], to: NDArray[np.int64]) -> None:
    """Copies each string to its place, all strings of one length at once."""
    by_length = np.argsort(strings.lengths, kind="stable")
    lengths, begins = np.unique(strings.lengths[by_length], return_index=True)
    for length, rows in zip(lengths.tolist(), np.split(by_length, begins[1:]), strict=True):
        if length:
            source = _windows(strings.data, length)
            _windows(data, length)[to[rows]] = source[strings.starts[rows]]


def _windows(data: NDArray[np.uint8], width: int) -> NDArray[np.void]:
    """Every stretch of ``width`` bytes of a buffer as one opaque item; writing to them writes to it."""
    count = max(0, len(data) - width + 1)
    return np.ndarray((count,), np.dtype((np.void, width)), data, strides=(1,))
