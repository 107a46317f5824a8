"""Fetches parts of index files: their fronts, and payloads that lie behind those."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.errors import CorruptIndexError, PaimonIndexError
from app.file_index.index_kinds import WantedIndexes
from app.file_index.stacked.index import Heads
from app.storage import Warehouse
from app.types.bytes_column import NULL_LENGTH, BytesColumn, GrowingBytes

Ahead = Mapping[str, NDArray[np.uint8] | PaimonIndexError]

FRONT_BYTES: Final = 8 << 10
"""What the first request for a local file reads, and what is kept of a file as a whole; a head takes some
hundred bytes."""

STORE_FRONT_BYTES: Final = 64 << 10
"""What the first request for a file of an object store reads: a second one takes longer than more bytes."""

UNKNOWN_SIZE: Final = 1 << 62
"""In place of a file's size, where it is larger than its front."""

_LONGEST_HEAD: Final = 16 << 20
_JOINED_BYTES: Final = 256 << 20
"""Of payloads that are read together more is never taken on the word of their heads."""

_HEAD_LENGTH = struct.Struct(">i")
_HEAD_LENGTH_AT: Final = 12


@dataclass(frozen=True, slots=True, eq=False)
class Fronts:
    """The beginnings of n files: small files as a whole, of others their heads.

    Attributes:
        room: holds them, and perhaps those of other files.
        starts: int64, shape (n,): where they are in it.
        lengths: int64, shape (n,): how long they are; -1 where one could not be read.
        sizes: int64, shape (n,): bytes of the files, or :data:`UNKNOWN_SIZE`.
        failures: why files could not be read, by position.
    """

    room: GrowingBytes
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    sizes: NDArray[np.int64]
    failures: Mapping[int, PaimonIndexError]

    @property
    def contents(self) -> BytesColumn:
        """The beginnings, shape (n,)."""
        return BytesColumn(self.room.data, self.starts, self.lengths)


@dataclass(frozen=True, slots=True, eq=False)
class Payloads:
    """Payloads of some files.

    Attributes:
        found: by column and kind, shape (n,): null where a file has no such index within its bytes.
        failures: why files cannot be used, by position among those asked for.
    """

    found: Mapping[tuple[str, str], BytesColumn]
    failures: Mapping[int, PaimonIndexError]


def fetch_fronts(
    warehouse: Warehouse, paths: Sequence[str], room: GrowingBytes, scratch: NDArray[np.uint8]
) -> Fronts:
    """The fronts of the files at ``paths``.

    Args:
        warehouse: where they lie.
        paths: of the files.
        room: what they are put into.
        scratch: what is read into, at least :data:`FRONT_BYTES` for each file.

    Raises:
        DeadlineExceededError: the request's time ran out.
    """
    counts = warehouse.read_ranges_into(
        [(path, 0, FRONT_BYTES) for path in paths], scratch.data[: FRONT_BYTES * len(paths)], immutable=True
    )
    read = [
        count if isinstance(count, PaimonIndexError) else scratch[at * FRONT_BYTES :][:count]
        for at, count in enumerate(counts)
    ]
    return take_fronts(warehouse, paths, read, FRONT_BYTES, room)


def fetch_ahead(warehouse: Warehouse, paths: Sequence[str]) -> Ahead:
    """The first :data:`STORE_FRONT_BYTES` of the files at ``paths``, by path.

    Raises:
        DeadlineExceededError: the request's time ran out.
    """
    read = warehouse.read_ranges([(path, 0, STORE_FRONT_BYTES) for path in paths], immutable=True)
    return {
        path: found if isinstance(found, PaimonIndexError) else np.frombuffer(found, np.uint8)
        for path, found in zip(paths, read, strict=True)
    }


def take_fronts(
    warehouse: Warehouse,
    paths: Sequence[str],
    read: Sequence[NDArray[np.uint8] | PaimonIndexError],
    front_bytes: int,
    room: GrowingBytes,
) -> Fronts:
    """What is kept of the first bytes of files: small files as a whole, of others their heads.

    Args:
        warehouse: where they lie.
        paths: of the files.
        read: the first bytes of each, or why there are none.
        front_bytes: how many were asked for; less is all of a file.
        room: what is kept is put into it.

    Raises:
        DeadlineExceededError: the request's time ran out, where a head is longer than what was read.
    """
    starts, sizes = np.zeros((2, len(paths)), np.int64)
    lengths = np.full(len(paths), NULL_LENGTH, np.int64)
    failures: dict[int, PaimonIndexError] = {}
    longer: dict[int, int] = {}

    def found(at: int, front: NDArray[np.uint8], size: int) -> None:
        starts[at], lengths[at], sizes[at] = len(room), len(front), size
        room.extend(front)

    for at, front in enumerate(read):
        if isinstance(front, PaimonIndexError):
            failures[at] = front
            continue
        is_whole = len(front) < front_bytes
        if is_whole and len(front) < FRONT_BYTES:
            found(at, front, len(front))
            continue
        (length,) = _HEAD_LENGTH.unpack_from(front.data, _HEAD_LENGTH_AT)
        if len(front) < length <= _LONGEST_HEAD and not is_whole:
            longer[at] = length
        else:
            # A length that cannot be is left to the reader of heads, which tells what is wrong with it.
            size = len(front) if is_whole else UNKNOWN_SIZE
            found(at, front[: max(length, _HEAD_LENGTH_AT + _HEAD_LENGTH.size)], size)
    heads = warehouse.read_ranges([(paths[at], 0, length) for at, length in longer.items()], immutable=True)
    for at, head in zip(longer, heads, strict=True):
        if isinstance(head, PaimonIndexError):
            failures[at] = head
        else:
            found(at, np.frombuffer(head, np.uint8), UNKNOWN_SIZE)
    return Fronts(room, starts, lengths, sizes, failures)


def fetch_payloads(
    warehouse: Warehouse,
    paths: Sequence[str],
    heads: Heads,
    places: NDArray[np.int64],
    wanted: WantedIndexes,
    ahead: Ahead,
) -> Payloads:
    """The payloads of the asked indexes of some files.

    Args:
        warehouse: where they lie.
        paths: of these files.
        heads: of these and other files.
        places: which of the heads are theirs.
        wanted: which indexes.
        ahead: what was read of these files just now; it is not read again.

    Raises:
        DeadlineExceededError: the request's time ran out.
    """
    ranges: list[tuple[str, int, int]] = []
    files_of: dict[tuple[str, str], NDArray[np.int64]] = {}
    for column, kind in sorted(wanted):
        extents = heads.extents(column, kind)
        files = files_of[column, kind] = np.flatnonzero(extents.within(heads.sizes)[places])
        starts, lengths = extents.starts[places[files]].tolist(), extents.lengths[places[files]].tolist()
        ranges += zip([paths[at] for at in files.tolist()], starts, lengths, strict=True)
    data, ends, counts = _read_joined(warehouse, ranges, ahead)
    failures: dict[int, PaimonIndexError] = {}
    payloads: dict[tuple[str, str], BytesColumn] = {}
    first = 0
    for index, files in files_of.items():
        last = first + len(files)
        starts, lengths = np.zeros(len(places), np.int64), np.full(len(places), NULL_LENGTH, np.int64)
        starts[files], lengths[files] = ends[first:last] - ends[first], np.diff(ends[first : last + 1])
        for at, one, count in zip(files.tolist(), ranges[first:last], counts[first:last], strict=True):
            why = _unusable(one, count)
            if why is not None:
                failures[at] = why
                starts[at], lengths[at] = 0, NULL_LENGTH
        payloads[index] = BytesColumn(data[ends[first] : ends[last]], starts, lengths)
        first = last
    return Payloads(payloads, failures)


def _unusable(wanted: tuple[str, int, int], count: int | PaimonIndexError) -> PaimonIndexError | None:
    path, start, length = wanted
    if isinstance(count, PaimonIndexError):
        return count
    if count == length:
        return None
    return CorruptIndexError(f"expected {length} bytes of a payload, found {count}", path=path, offset=start)


def _read_joined(
    warehouse: Warehouse, ranges: Sequence[tuple[str, int, int]], ahead: Ahead
) -> tuple[NDArray[np.uint8], NDArray[np.int64], list[int | PaimonIndexError]]:
    """What is read of n ranges, one behind the other.

    Returns:
        The bytes; where each range begins in them, and the last one ends, shape (n + 1,); and how many bytes
        there were of each, or why there are none.
    """
    ends = np.cumsum([0, *(length for _, _, length in ranges)])
    if not ahead and ends[-1] <= _JOINED_BYTES:
        data = np.empty(ends[-1], np.uint8)
        return data, ends, warehouse.read_ranges_into(ranges, data.data, immutable=True)
    # Memory is only taken for what is there.
    at_hand = [_at_hand(ahead, *one) for one in ranges]
    missing = [one for one, part in zip(ranges, at_hand, strict=True) if part is None]
    rest = iter(warehouse.read_ranges(missing, immutable=True))
    read = [next(rest) if part is None else part for part in at_hand]
    found = [b"" if isinstance(each, PaimonIndexError) else each for each in read]
    ends = np.cumsum([0, *map(len, found)])
    counts = [each if isinstance(each, PaimonIndexError) else len(each) for each in read]
    return np.frombuffer(b"".join(found), np.uint8), ends, counts


def _at_hand(ahead: Ahead, path: str, start: int, length: int) -> bytes | None:
    """A range of what was read of a file just now; None if that does not hold all of it."""
    front = ahead.get(path)
    if front is None or isinstance(front, PaimonIndexError):
        return None
    part = front[start : start + length]
    return part.tobytes() if len(part) == length or len(front) < STORE_FRONT_BYTES else None
