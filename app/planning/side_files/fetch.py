"""Fetches from index files: small ones whole, otherwise their heads and the requested payloads."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.errors import CorruptIndexError, LimitExceededError, PaimonIndexError
from app.file_index import Heads, WantedIndexes
from app.storage import Warehouse
from app.types import NULL_LENGTH, BytesColumn
from app.work import LEDGER, Claim

PathsOf: TypeAlias = "Callable[[NDArray[np.int64]], Sequence[str]]"
"""Function that returns the paths of index files by row. Paths are not stored: few are needed twice."""

FRONT_BYTES: Final = 64 << 10
"""Bytes of the first read of an index file: a second call to a store takes longer than more bytes."""

UNKNOWN_SIZE: Final = 1 << 62
"""Stands for the size of a file that is larger than its front."""

SMALL_BYTES: Final = 8 << 10
"""Files up to this size are stored whole; a head takes some hundred bytes."""

# Fronts held until their payloads are taken; beyond this, payloads are read again.
_MOST_FRONT_BYTES: Final = 64 << 20

# A claim grows in steps of this many bytes.
_CLAIM_BYTES: Final = 1 << 20

_LONGEST_HEAD: Final = 16 << 20
_HEAD_LENGTH = struct.Struct(">i")
_HEAD_LENGTH_AT: Final = 12


@dataclass(frozen=True, slots=True, eq=False)
class Fronts:
    """The first bytes of n index files."""

    contents: BytesColumn  # Shape (n,): whole small files, heads of other files; null after a failure.
    sizes: NDArray[np.int64]  # Shape (n,): bytes of the files, or UNKNOWN_SIZE.
    fronts: dict[int, bytes]  # Everything read of larger files, by row, within the limit.
    failures: Mapping[int, PaimonIndexError]

    @staticmethod
    def most_bytes() -> int:
        """Limit of :attr:`fronts`, in bytes."""
        return min(_MOST_FRONT_BYTES, LEDGER.portion)

    @classmethod
    def take(
        cls,
        warehouse: Warehouse,
        paths_of: PathsOf,
        rows: NDArray[np.int64],
        before: NDArray[np.uint8],
        claim: Claim,
        room: int,
    ) -> Self:
        """Read the first bytes of files.

        ``before``: data with which the data of ``contents`` begin.
        ``claim``: grows with the bytes read. A file that can never fit is a failure.
        ``room``: limit of fronts held, in bytes.

        Raises DeadlineExceededError. Raises MemoryShortError if other work has the memory.
        """
        sizes: list[int] = []
        fronts: dict[int, bytes] = {}
        failures: dict[int, PaimonIndexError] = {}
        longer: dict[int, int] = {}
        contents = _Contents(before, len(rows), room, claim)
        responses = warehouse.read_ranges([(path, 0, FRONT_BYTES) for path in paths_of(rows)])
        for at, (row, front) in enumerate(zip(rows.tolist(), responses, strict=True)):
            if isinstance(front, PaimonIndexError):
                sizes.append(0)
                failures[row] = front
                continue
            is_whole = len(front) < FRONT_BYTES
            sizes.append(len(front) if is_whole else UNKNOWN_SIZE)
            content = front
            if len(front) >= SMALL_BYTES:
                (length,) = _HEAD_LENGTH.unpack_from(front, _HEAD_LENGTH_AT)
                if len(front) <= room:
                    fronts[row] = front
                    room -= len(front)
                if len(front) < length <= _LONGEST_HEAD and not is_whole:
                    longer[at] = length
                    continue
                # The reader of heads refuses an impossible length, with a message.
                content = front[: max(length, _HEAD_LENGTH_AT + _HEAD_LENGTH.size)]
            if (refusal := contents.put(at, content)) is not None:
                failures[row] = refusal
        paths = paths_of(rows[list(longer)]) if longer else ()
        heads = warehouse.read_ranges(
            [(path, 0, length) for path, length in zip(paths, longer.values(), strict=True)]
        )
        for at, head in zip(longer, heads, strict=True):
            failure = head if isinstance(head, PaimonIndexError) else contents.put(at, head)
            if failure is not None:
                failures[int(rows[at])] = failure
        return cls(contents.column(), np.array(sizes, np.int64), fronts, failures)


class _Contents:
    """A column of ``count`` strings that grows in place, after data that were there before.

    ``other_bytes``: bytes that the claim covers as well.
    """

    def __init__(self, before: NDArray[np.uint8], count: int, other_bytes: int, claim: Claim) -> None:
        self._data = bytearray(before)
        self._starts = np.zeros(count, np.int64)
        self._lengths = np.full(count, NULL_LENGTH, np.int64)
        self._other_bytes = other_bytes
        self._claim = claim

    def put(self, at: int, content: bytes) -> LimitExceededError | None:
        """Add a string. Return the error if there can never be memory for it. Raises MemoryShortError."""
        needed = len(self._data) + len(content) + self._other_bytes
        if needed > self._claim.size:
            try:
                self._claim.grow_to(needed + _CLAIM_BYTES)
            except LimitExceededError as error:
                return error
        self._starts[at], self._lengths[at] = len(self._data), len(content)
        self._data += content
        return None

    def column(self) -> BytesColumn:
        """Return all strings."""
        return BytesColumn(np.frombuffer(self._data, np.uint8), self._starts, self._lengths)


def fetch_payloads(
    warehouse: Warehouse,
    paths_of: PathsOf,
    rows: NDArray[np.int64],
    fronts: Sequence[bytes | None],
    heads: Heads,
    places: NDArray[np.int64],
    requested: WantedIndexes,
) -> tuple[dict[tuple[str, str], BytesColumn], dict[int, PaimonIndexError]]:
    """Fetch the payloads of the requested indexes of n index files.

    ``rows``: int64, shape (n,): rows of the files in their manifest.
    ``fronts``: first bytes of each file, if held. Payloads in them are not read again.
    ``places``: int64, shape (n,): position of each file's head in ``heads``.

    Return a column of shape (n,) for each column and kind, null where a file has no such index within its
    bytes, and the failures by position among the n files.
    """
    extents_to_take: list[tuple[tuple[str, str], int, int, int]] = []
    for column, kind in sorted(requested):
        extents = heads.extents(column, kind)
        files = np.flatnonzero(extents.within(heads.sizes)[places])
        starts, lengths = extents.starts[places[files]], extents.lengths[places[files]]
        extent = zip(files.tolist(), starts.tolist(), lengths.tolist(), strict=True)
        extents_to_take += [((column, kind), *each) for each in extent]
    held = [_part(fronts[at], start, length) for _, at, start, length in extents_to_take]
    missing = [each for each, part in zip(extents_to_take, held, strict=True) if part is None]
    paths = paths_of(rows[[at for _, at, _, _ in missing]]) if missing else ()
    rest = iter(
        warehouse.read_ranges(
            [(path, start, size) for path, (_, _, start, size) in zip(paths, missing, strict=True)]
        )
    )
    payloads: dict[tuple[str, str], list[bytes | None]] = {key: [None] * len(rows) for key in requested}
    failures: dict[int, PaimonIndexError] = {}
    for (index, at, start, length), part in zip(extents_to_take, held, strict=True):
        content = next(rest) if part is None else part
        if isinstance(content, PaimonIndexError):
            failures[at] = content
        elif len(content) != length:
            mismatch = f"expected {length} bytes of a payload, found {len(content)}"
            (path,) = paths_of(rows[[at]])
            failures[at] = CorruptIndexError(mismatch, path=path, offset=start)
        else:
            payloads[index][at] = content
    return {index: _column(strings) for index, strings in payloads.items()}, failures


def _column(payloads: Sequence[bytes | None]) -> BytesColumn:
    lengths = np.array([NULL_LENGTH if each is None else len(each) for each in payloads], np.int64)
    starts = np.cumsum(np.maximum(lengths, 0)) - np.maximum(lengths, 0)
    # NumPy asks the system for huge pages, which help since bloom filters are probed at random.
    data = np.empty(np.maximum(lengths, 0).sum(), np.uint8)
    view = data.data
    for start, payload in zip(starts.tolist(), payloads, strict=True):
        if payload is not None:
            view[start : start + len(payload)] = payload
    return BytesColumn(data, np.where(lengths < 0, 0, starts), lengths)


def _part(front: bytes | None, start: int, length: int) -> bytes | None:
    """Return a range of a file from its front. Return None if the front does not hold all of it."""
    if front is None:
        return None
    part = front[start : start + length]
    return part if len(part) == length or len(front) < FRONT_BYTES else None
