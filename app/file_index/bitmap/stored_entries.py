"""The heads and entries of many bitmap indexes, read side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from app.file_index.bitmap.bitmap import VERSION_1, VERSION_2
from app.file_index.bitmap.entries import OFFSET, OFFSET_AND_LENGTH
from app.file_index.bitmap.records import behind_keys, measure_records
from app.file_index.payloads.cursors import Cursors, integers
from app.file_index.shared.directory import StoredKeys
from app.types.roaring import COOKIE_WITH_RUNS, COOKIE_WITHOUT_RUNS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from app.file_index.keys.keys import KeySpace
    from app.types.bytes_column import BytesColumn

_COOKIES: Final = (COOKIE_WITHOUT_RUNS, COOKIE_WITH_RUNS)


@dataclass(frozen=True, slots=True, eq=False)
class StoredEntries:
    """What m indexes say before their bitmaps; numbers of indexes that are not sound mean nothing.

    Attributes:
        versions: int64, shape (m,).
        row_counts: int64, shape (m,): rows of each file.
        flags: int64, shape (m,): 1 where there are null rows.
        keys: the key of each entry, with its file and place.
        sound: bool, shape (m,): which indexes can be read.
    """

    versions: NDArray[np.int64]
    row_counts: NDArray[np.int64]
    flags: NDArray[np.int64]
    keys: StoredKeys
    sound: NDArray[np.bool_]

    @classmethod
    def read(cls, payloads: BytesColumn, space: KeySpace) -> Self:
        """Reads all heads and entries. A null is not sound."""
        cursors = Cursors.of(payloads)
        versions = cursors.i8()
        cursors.expect((versions == VERSION_1) | (versions == VERSION_2))
        row_counts, cardinalities = cursors.count(), cursors.count(each_bytes=OFFSET.size)
        flags = cursors.i8()
        cursors.expect((cardinalities <= row_counts) & ((flags == 0) | (flags == 1)))
        # A row has a value or it has none.
        cursors.expect((cardinalities + flags > 0) | (row_counts == 0))
        first, second = (np.flatnonzero(cursors.sound & (versions == version)) for version in (1, 2))
        plain, blocked = cursors.take(first), cursors.take(second)
        of_first = _plain_keys(plain, space, cardinalities[first], flags[first]).of(first)
        of_second = _blocked_keys(blocked, space, cardinalities[second], flags[second]).of(second)
        cursors.put(first, plain)
        cursors.put(second, blocked)
        stored = StoredKeys(
            np.concatenate([of_first.owners, of_second.owners]),
            np.concatenate([of_first.places, of_second.places]),
        )
        return cls(versions, row_counts, flags, stored, cursors.sound)


def _plain_keys(
    cursors: Cursors, space: KeySpace, counts: NDArray[np.int64], flags: NDArray[np.int64]
) -> StoredKeys:
    """The keys of version 1; the cursors end up at the body."""
    in_body = _null_rows_in_body(cursors, flags)
    cursors.skip(flags * OFFSET.size)
    stored = measure_records(cursors, space, counts, OFFSET.size)
    offsets = integers(cursors.data, behind_keys(cursors.data, stored, space), OFFSET.format)
    in_body[stored.owners[offsets >= 0]] = True
    # Nothing else tells a wrong number of entries: the first bitmap stands right behind the last entry.
    body = cursors.take(np.arange(len(counts)))
    starts_well = np.isin(body.u32_le() & 0xFFFF, _COOKIES)
    cursors.expect(np.where(in_body, starts_well, cursors.remaining == 0))
    return stored


def _null_rows_in_body(cursors: Cursors, flags: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether the null rows are a bitmap in the body; the cursors stay where they are."""
    peeking = cursors.take(np.arange(len(flags)))
    in_body: NDArray[np.bool_] = (flags == 1) & (peeking.i32() >= 0)
    return in_body


def _blocked_keys(
    cursors: Cursors, space: KeySpace, counts: NDArray[np.int64], flags: NDArray[np.int64]
) -> StoredKeys:
    """The keys of version 2; the cursors end up at the body."""
    data = cursors.data
    cursors.skip(flags * OFFSET_AND_LENGTH.size)
    listed = measure_records(cursors, space, cursors.count(each_bytes=OFFSET.size), OFFSET.size)
    sizes = cursors.count(each_bytes=1)
    areas = cursors.at
    cursors.skip(sizes)
    offsets = integers(data, behind_keys(data, listed, space), OFFSET.format)
    of_block = listed.owners
    inside = cursors.sound[of_block] & (offsets >= 0) & (offsets < sizes[of_block])
    starts = areas[of_block]
    blocks = Cursors(data, np.where(inside, starts + offsets, 0), starts + sizes[of_block], inside)
    held = blocks.count(each_bytes=OFFSET_AND_LENGTH.size)
    blocks.expect(held > 0)
    # Blocks that overlap could hold more entries, and more bytes of keys, than there is room for.
    fits = np.bincount(of_block, held, len(counts)) == counts
    blocks.expect(fits[of_block])
    stored = measure_records(blocks, space, held, OFFSET_AND_LENGTH.size)
    fits &= np.bincount(of_block, blocks.at - starts - offsets, len(counts)) <= sizes
    cursors.expect(fits & (np.bincount(of_block, ~blocks.sound, len(counts)) == 0))
    return stored.of(of_block).only(cursors.sound)
