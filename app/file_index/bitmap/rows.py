"""The rows of many files by their bitmap indexes: entries are found and bitmaps are measured side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from pyroaring import BitMap

from app.file_index.answers.conditions import NullTest, Points, Span
from app.file_index.answers.row_index import all_rows
from app.file_index.answers.row_stack import SelectingRows
from app.file_index.bitmap.bitmap import VERSION_2
from app.file_index.bitmap.entries import OFFSET
from app.file_index.bitmap.records import behind_keys
from app.file_index.bitmap.stack import BitmapStack
from app.file_index.bitmap.stored_entries import StoredEntries
from app.file_index.bitmap.stored_rows import StoredRows
from app.file_index.keys.keys import after
from app.file_index.payloads.bitmaps import UNKNOWN_LENGTH, StoredBitmaps
from app.file_index.payloads.cursors import integers
from app.file_index.shared.directory import StoredKeys, read_integers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from app.file_index.answers.conditions import Condition

_HEAD_BYTES = 10
"""Version, row count, number of distinct values, flag of null rows."""
_LARGEST = 1 << 63


class SelectingBitmapStack(BitmapStack, SelectingRows):
    """A stack that selects rows."""

    __slots__ = ()

    @classmethod
    def rows(
        cls, parts: Sequence[tuple[Self, NDArray[np.int64]]], condition: Condition
    ) -> list[BitMap | None]:
        """As :meth:`SelectingRows.rows`."""
        return select_rows(StoredRows.of_parts(parts), condition)


def select_rows(stored: StoredRows, condition: Condition) -> list[BitMap | None]:
    """The rows of files that meet a condition.

    Args:
        stored: their indexes.
        condition: what is asked.

    Returns:
        A set for each file; None where the file's own reader has to be asked, since something is wrong.
    """
    match condition:
        case NullTest(null=True):
            return _unions(stored, _References.of_nulls(stored))
        case NullTest():
            return _all_but(stored, _References.of_nulls(stored))
        case Points(negated=True):
            return _all_but(stored, _References.of_nulls(stored), _References.of_keys(stored, condition))
        case _:
            return _unions(stored, _References.of_keys(stored, condition))


@dataclass(frozen=True, slots=True, eq=False)
class _References:
    """Sets of rows that entries stand for, n of them.

    Attributes:
        owners: int64, shape (n,): the file of each, as a position among those that are asked.
        offsets: int64, shape (n,): of its bitmap from the start of the body; ``-1 - row`` for a single row.
        lengths: int64, shape (n,): bytes of the bitmap, where the format tells.
    """

    owners: NDArray[np.int64]
    offsets: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @classmethod
    def of_nulls(cls, stored: StoredRows) -> Self:
        """Those of the null rows."""
        owners = np.flatnonzero(stored.with_nulls)
        return cls._at(stored, owners, stored.payloads.starts.take(owners) + _HEAD_BYTES)

    @classmethod
    def of_keys(cls, stored: StoredRows, condition: Points | Span) -> Self:
        """Those of the keys that are named."""
        find = _text_keys if stored.space.width is None else _integer_keys
        keys = find(stored, condition)
        return cls._at(stored, keys.owners, behind_keys(stored.payloads.data, keys, stored.space))

    @classmethod
    def _at(cls, stored: StoredRows, owners: NDArray[np.int64], places: NDArray[np.int64]) -> Self:
        """The references that are stored at some places."""
        data = stored.payloads.data
        lengths = np.full(len(owners), UNKNOWN_LENGTH)
        told = np.flatnonzero(stored.versions.take(owners) == VERSION_2)
        lengths[told] = integers(data, places.take(told) + OFFSET.size, OFFSET.format)
        return cls(owners, integers(data, places, OFFSET.format), lengths)

    def only(self, chosen: NDArray[np.bool_]) -> _References:
        """The ``chosen`` ones, shape (n,)."""
        return _References(self.owners[chosen], self.offsets[chosen], self.lengths[chosen])

    def exceed(self, room: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which files have more bytes of bitmaps than ``room``, or several whose bytes are not known."""
        untold = self.lengths == UNKNOWN_LENGTH
        several: NDArray[np.bool_] = np.bincount(self.owners[untold], minlength=len(room)) > 1
        # Each row has one key, so bitmaps never overlap.
        return several | (np.bincount(self.owners, np.maximum(self.lengths, 0), len(room)) > room)


def _integer_keys(stored: StoredRows, condition: Points | Span) -> StoredKeys:
    listed = StoredEntries.read(stored.payloads, stored.space).keys
    keys = read_integers(stored.payloads.data, listed.places, stored.space)
    match condition:
        case Points(keys=named) if len(named) == 1:
            chosen = np.equal(keys, named[0])
        case Points(keys=named):
            # What no integer of 64 bits can be is no stored key either.
            held = [key for key in map(int, named) if -_LARGEST <= key < _LARGEST]
            chosen = np.isin(keys, np.array(held, np.int64))
        case Span(start, stop):
            chosen = np.ones(len(keys), bool)
            if start is not None:
                chosen &= keys >= int(start)
            if stop is not None:
                chosen &= keys < int(stop)
    return StoredKeys(listed.owners[chosen], listed.places[chosen])


def _text_keys(stored: StoredRows, condition: Points | Span) -> StoredKeys:
    spans = (
        [(condition.start, condition.stop)]
        if isinstance(condition, Span)
        else [(key, after(key)) for key in condition.keys]
    )
    found = [texts.between(*span) for texts in stored.texts for span in spans]
    nothing = np.zeros(0, np.int64)
    return StoredKeys(
        np.concatenate([nothing, *(owners for owners, _ in found)]),
        np.concatenate([nothing, *(places for _, places in found)]),
    )


def _unions(stored: StoredRows, references: _References) -> list[BitMap | None]:
    """The rows of each file that one of its references stands for."""
    row_counts = stored.row_counts
    found: list[BitMap | None] = [BitMap() for _ in range(len(stored))]
    single = references.offsets < 0
    owners, rows = references.owners[single], -1 - references.offsets[single]
    wrong = set(owners[rows >= row_counts.take(owners)].tolist())
    for owner, row in zip(owners.tolist(), rows.tolist(), strict=True):
        if (set_of_rows := found[owner]) is not None and owner not in wrong:
            set_of_rows.add(row)
    references = references.only(~single)
    owners = references.owners
    room = stored.payloads.starts + stored.payloads.lengths - stored.bodies
    too_many = references.exceed(room)
    wrong.update(np.flatnonzero(too_many).tolist())
    references = references.only(~too_many.take(owners))
    owners = references.owners
    starts = stored.bodies.take(owners)
    bitmaps = StoredBitmaps.measure(
        stored.payloads.data,
        starts + references.offsets,
        starts + room.take(owners),
        references.lengths,
        row_counts.take(owners),
    )
    for number, owner in enumerate(owners.tolist()):
        bitmap, before = bitmaps.decode(number), found[owner]
        if bitmap is None:
            wrong.add(owner)
        elif before:
            before |= bitmap
        else:
            found[owner] = bitmap
    for owner in wrong:
        found[owner] = None
    return found


def _all_but(stored: StoredRows, *left_out: _References) -> list[BitMap | None]:
    """The rows of each file that no reference stands for."""
    found: list[BitMap | None] = [all_rows(count) for count in stored.row_counts.tolist()]
    for references in left_out:
        for at, rows in enumerate(_unions(stored, references)):
            kept = found[at]
            found[at] = None if rows is None or kept is None else kept - rows
    return found
