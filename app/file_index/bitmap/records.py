"""Where the records of many bitmap indexes start: a key each, and some bytes behind it."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from app.errors import CorruptIndexError
from app.file_index.bitmap import entries as bitmap_entries
from app.file_index.payloads.cursor import Cursor
from app.file_index.payloads.cursors import NO_LONGER_WORTH_A_STEP, integers, runs_of
from app.file_index.shared.directory import StoredKeys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from app.file_index.keys.keys import KeySpace
    from app.file_index.payloads.cursors import Cursors

_LENGTH = struct.Struct(">i")


def measure_records(
    cursors: Cursors, space: KeySpace, counts: NDArray[np.int64], tail_bytes: int
) -> StoredKeys:
    """Finds the next ``counts[i]`` records of each string, and moves the cursors behind them.

    Args:
        cursors: at the first record of each string; strings that end too early are no longer sound.
        space: how keys are stored.
        counts: records of each string; no more than its bytes can hold.
        tail_bytes: bytes of a record behind its key.

    Returns:
        The records of sound strings; the owner of each is the string's position.
    """
    if space.width is None:
        return _walk(cursors, space, counts, tail_bytes)
    starts = cursors.at
    cursors.skip(counts * (space.width + tail_bytes))
    return StoredKeys(*runs_of(starts, np.where(cursors.sound, counts, 0), space.width + tail_bytes))


def behind_keys(data: NDArray[np.uint8], stored: StoredKeys, space: KeySpace) -> NDArray[np.int64]:
    """Where each record goes on after its key."""
    if space.width is not None:
        return stored.places + space.width
    return stored.places + _LENGTH.size + integers(data, stored.places, _LENGTH.format)


def _walk(cursors: Cursors, space: KeySpace, counts: NDArray[np.int64], tail_bytes: int) -> StoredKeys:
    """Records whose keys tell how long they are: the first one of every string, then the second ..."""
    counts = np.where(cursors.sound, counts, 0)
    owners, slots = runs_of(np.cumsum(counts) - counts, counts, 1)
    places = np.zeros(len(slots), np.int64)
    first = np.cumsum(counts) - counts
    strings, step = np.flatnonzero(counts), 0
    walkers = cursors.take(strings)
    while len(strings) > NO_LONGER_WORTH_A_STEP:
        places[first[strings] + step] = walkers.at
        walkers.skip(walkers.count(each_bytes=1) + tail_bytes)
        step += 1
        goes_on = walkers.sound & (counts[strings] > step)
        if not goes_on.all():
            cursors.put(strings, walkers)
            strings, walkers = strings[goes_on], walkers.take(np.flatnonzero(goes_on))
    view = cursors.data.data
    for at, string in enumerate(strings.tolist()):
        cursor = Cursor(view[: cursors.ends[string]], int(walkers.at[at]))
        left = slice(first[string] + step, first[string] + counts[string])
        try:
            places[left] = bitmap_entries.measure_records(cursor, space, counts[string] - step, tail_bytes)
        except CorruptIndexError:
            walkers.sound[at] = False
        walkers.at[at] = cursor.position
    cursors.put(strings, walkers)
    return StoredKeys(owners, places).only(cursors.sound)
