"""Large byte strings of one field, lifted out of encoded records so that decoding does not copy them.

A string is found by the bytes that it begins with. In its place the decoder gets a random mark, which no
writer of the file can know. If the decoded field has the mark as often as strings were lifted, each of them
was a value of the field, and the other fields are what they would be without lifting. Otherwise the bytes
were something else, and the file has to be decoded as it is.
"""

from __future__ import annotations

import secrets
from typing import Final

import numpy as np

from app.table.avro.container import AvroBlock, encode_long
from app.table.records.expansion import claim
from app.types import BytesColumn

_MARK_BYTES: Final = 16
# Finding a string takes as long as decoding one of about this many bytes.
_LEAST_BYTES: Final = 1 << 10
_MOST_LENGTH_BYTES: Final = 5
_SPARE: Final = 1.05
_FIRST_BYTES: Final = 4 << 20
# Inverse of the part of a file whose strings predict the size of the rest.
_TELLING: Final = 16
# Bit that is set in each byte of a number but the last.
_MORE: Final = 0x80


class Lifted:
    """Strings lifted out of one file. ``start``: bytes that they begin with. ``size``: bytes of the file."""

    def __init__(self, start: bytes, size: int) -> None:
        self._start = start
        self._size = size
        self._mark = secrets.token_bytes(_MARK_BYTES)
        self._stand_in = encode_long(_MARK_BYTES) + self._mark
        # Large arrays get huge pages.
        self._data = np.empty(0, np.uint8)
        self._lengths: list[int] = []
        self.nbytes = 0

    def without_strings(self, block: AvroBlock) -> AvroBlock:
        """Lift the strings out of a block, if it may have large ones."""
        if len(block.expanded) < _LEAST_BYTES * block.count:
            return block
        expanded = bytes(block.expanded)
        if (least := self.nbytes + len(expanded)) > len(self._data):
            # The first blocks may differ from the others; later the rest is like what was read.
            is_telling = _TELLING * block.offset >= self._size
            expected = int(_SPARE * self._size * least / block.offset) if is_telling else 2 * least
            self._reserve(max(least, min(_FIRST_BYTES, self._size), expected if self.nbytes else 0))
        kept: list[bytes] = []
        behind = 0
        content = np.frombuffer(expanded, np.uint8)
        at = expanded.find(self._start)
        while at >= 0:
            length, prefix = _length(expanded, behind, at)
            end = at + length
            if length < _LEAST_BYTES or end > len(expanded):
                at = expanded.find(self._start, at + 1)
                continue
            kept += expanded[behind:prefix], self._stand_in
            self._data[self.nbytes : self.nbytes + length] = content[at:end]
            self._lengths.append(length)
            self.nbytes += length
            behind = end
            at = expanded.find(self._start, end)
        if not behind:
            return block
        return AvroBlock(block.offset, block.count, b"".join([*kept, expanded[behind:]]))

    def put_back(self, column: BytesColumn) -> BytesColumn | None:
        """Replace the marks of a decoded column by the strings. Return None if marks are missing."""
        if not self._lengths:
            return column
        marked = np.flatnonzero(column.lengths == _MARK_BYTES)
        same = column.take(marked).gather(0, _MARK_BYTES) == np.frombuffer(self._mark, np.uint8)
        marked = marked[same.all(axis=1)]
        if len(marked) != len(self._lengths):
            return None
        self._data.resize(self.nbytes, refcheck=False)
        starts, lengths = column.starts + self.nbytes, column.lengths.copy()
        starts[marked], lengths[marked] = np.cumsum(self._lengths) - self._lengths, self._lengths
        if lengths.sum(where=lengths > 0) > self.nbytes:
            # Some strings were not lifted.
            claim(3 * (self.nbytes + column.nbytes))
            data = np.concatenate([self._data, column.data])
            return BytesColumn.gathered([BytesColumn(data, np.where(lengths < 0, 0, starts), lengths)])
        starts = np.cumsum(np.maximum(lengths, 0)) - np.maximum(lengths, 0)
        return BytesColumn(self._data, np.where(lengths < 0, 0, starts), lengths)

    def _reserve(self, size: int) -> None:
        claim(self.nbytes + size)
        data = np.empty(size, np.uint8)
        data[: self.nbytes] = self._data[: self.nbytes]
        self._data = data


def _length(expanded: bytes, start: int, at: int) -> tuple[int, int]:
    """Return the length that precedes a string, 0 for none, and its offset, which is at least ``start``."""
    first = at - 1
    if first < start or (value := expanded[first]) & _MORE:
        return 0, at
    start = max(start, at - _MOST_LENGTH_BYTES)
    while first > start and (byte := expanded[first - 1]) & _MORE:
        value = value << 7 | byte & ~_MORE
        first -= 1
    return 0 if value & 1 else value >> 1, first
