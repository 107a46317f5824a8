"""Large values of one column, which never pass through the decoder.

Decoding copies every value several times while it holds the interpreter's lock. Embedded indexes are nearly
all of the bytes of a manifest that has them, so they are lifted out of the expanded blocks beforehand:
whatever looks like one, by the bytes it starts with and the length in front of it, is replaced by a *token*:

======= ==============================================
bytes   value
======= ==============================================
16      the mark, drawn at random for this one file
4       u32 BE, how many values were lifted before
======= ==============================================

* A token that the decoder gives back as a value of the column stands where the decoder expected a length and
  that many bytes: it would have read the value that was there, and everything behind it, just so.
* No writer can have known the mark. If not every token comes back, each in its turn, then something else
  looked like a value of the column, and the file has to be decoded as it is.

So both ways give the same columns, whatever the file.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from app.errors import CorruptMetadataError
from app.table.avro.blocks import Block, encode_long
from app.table.records.columns import RecordColumns
from app.types.bytes_column import BytesColumn, GrowingBytes

SMALLEST_BYTES: Final = 1024
"""Smaller values are decoded sooner than they are found."""

_MARK_BYTES: Final = 16
_NUMBER_BYTES: Final = 4
_TOKEN_BYTES: Final = _MARK_BYTES + _NUMBER_BYTES
_TOKEN_LENGTH: Final = encode_long(_TOKEN_BYTES)
_CONTINUED: Final = 0x80
_MAX_LENGTH_BYTES: Final = 5
_MOVED_TOGETHER_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class ColumnApart:
    """A nullable column of byte strings, many of which are large.

    Attributes:
        path: names of the fields that lead to it.
        prefix: what its large values start with, usually.
    """

    path: tuple[str, ...]
    prefix: bytes

    def take_out(self, records: RecordColumns) -> tuple[RecordColumns, BytesColumn]:
        """Records without the column, whose memory they keep alive no longer; and the column."""
        pieces, columns = zip(*(_take_out(piece, self.path) for piece in records.pieces), strict=True)
        return RecordColumns(pieces), BytesColumn.concat(columns)


class LiftedValues:
    """The values that were lifted out of the blocks of one file.

    Args:
        prefix: what they start with.
        capacity: how many bytes there will be, about.
    """

    def __init__(self, prefix: bytes, capacity: int) -> None:
        self._prefix = prefix
        self._mark = secrets.token_bytes(_MARK_BYTES)
        self._token = _TOKEN_LENGTH + self._mark
        self._values = GrowingBytes(capacity)
        self._waiting: list[memoryview] = []
        self._waiting_bytes = 0
        self._lengths: list[int] = []

    def lighten(self, block: Block) -> Block:
        """The block with tokens for what looks like values."""
        if len(block.expanded) < SMALLEST_BYTES * block.count:
            # Few of its records can have a large value, and a search takes half as long as decoding.
            return block
        expanded = bytes(block.expanded)
        find, prefix, token = expanded.find, self._prefix, self._token
        at = find(prefix)
        if at < 0:
            return block
        view, size = memoryview(expanded), len(expanded)
        parts: list[bytes | memoryview] = []
        done, number = 0, len(self._lengths)
        while at >= 0:
            start, length = _length_before(expanded, at)
            if start >= done and SMALLEST_BYTES <= length <= size - at:
                parts += (view[done:start], token, number.to_bytes(_NUMBER_BYTES, "big"))
                done, number = at + length, number + 1
                self._lengths.append(length)
                self._waiting.append(view[at:done])
                at = done - 1
            at = find(prefix, at + 1)
        self._waiting_bytes += size
        if self._waiting_bytes >= _MOVED_TOGETHER_BYTES:
            self._move()
        parts.append(view[done:])
        return Block(block.offset, block.count, b"".join(parts), block.stored_bytes)

    def put_back(self, decoded: BytesColumn) -> BytesColumn:
        """The column with values for its tokens.

        Raises:
            CorruptMetadataError: not every token is there, in order.
        """
        if not self._lengths:
            return decoded
        self._move()
        rows = np.flatnonzero(decoded.lengths == _TOKEN_BYTES)
        tokens = decoded.take(rows).gather(0, _TOKEN_BYTES)
        is_token = (tokens[:, :_MARK_BYTES] == np.frombuffer(self._mark, np.uint8)).all(axis=1)
        numbers = np.ascontiguousarray(tokens[is_token, _MARK_BYTES:]).view(">u4").reshape(-1)
        if not np.array_equal(numbers, np.arange(len(self._lengths))):
            raise CorruptMetadataError("values are not where they seemed to be")
        lifted = np.array(self._lengths)
        starts, lengths = decoded.starts + len(self._values), decoded.lengths.copy()
        starts[rows[is_token]], lengths[rows[is_token]] = np.cumsum(lifted) - lifted, lifted
        self._values.extend(decoded.data)
        return BytesColumn(self._values.packed(), np.where(lengths < 0, 0, starts), lengths)

    def _move(self) -> None:
        """Lets go of the blocks that values were lifted out of."""
        self._values.extend(np.frombuffer(b"".join(self._waiting), np.uint8))
        self._waiting, self._waiting_bytes = [], 0


def _length_before(expanded: bytes, end: int) -> tuple[int, int]:
    """The number that ends at ``end`` as ``(where it starts, number)``; -1 for what is no length."""
    start = end - 1
    if start < 0 or (number := expanded[start]) >= _CONTINUED:
        return -1, -1
    while start > 0 and (byte := expanded[start - 1]) >= _CONTINUED and end - start < _MAX_LENGTH_BYTES:
        start -= 1
        number = number << 7 | byte & 0x7F
    return start, -1 if number & 1 else number >> 1


def _take_out(records: pa.StructArray, path: Sequence[str]) -> tuple[pa.StructArray, BytesColumn]:
    name, *rest = path
    if records.type.get_field_index(name) < 0:
        return records, BytesColumn.from_arrow(pa.nulls(len(records), pa.binary()))
    fields = {each.name: records.field(each.name) for each in records.type}
    taken = fields.pop(name)
    if rest:
        fields[name], column = _take_out(taken, rest)
    else:
        column = BytesColumn.from_arrow(taken)
    return pa.StructArray.from_arrays(list(fields.values()), names=list(fields)), column
