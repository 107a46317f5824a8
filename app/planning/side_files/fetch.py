"""What is taken of index files: small ones as a whole, of others heads and the payloads that are asked."""

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
"""Gives the paths of some rows' index files; few are needed a second time."""

FRONT_BYTES: Final = 64 << 10
"""What the first read of an index file asks for: of a store, a second call takes longer than more bytes."""

UNKNOWN_SIZE: Final = 1 << 62
"""In place of a file's size, where it is larger than its front."""

SMALL_BYTES: Final = 8 << 10
"""Files up to this size are kept as a whole; a head takes some hundred bytes."""

_MOST_FRONT_BYTES: Final = 64 << 20
"""Fronts that are held until their payloads were taken; payloads of the others are read again."""

_CLAIM_BYTES: Final = 1 << 20
"""What is claimed at a time."""

_LONGEST_HEAD: Final = 16 << 20
_HEAD_LENGTH = struct.Struct(">i")
_HEAD_LENGTH_AT: Final = 12


@dataclass(frozen=True, slots=True, eq=False)
class Fronts:
    """The beginnings of n index files.

    Attributes:
        contents: shape (n,): small files as a whole, of others their heads; null where there is none. Its
            data begin with what was there before.
        sizes: int64, shape (n,): bytes of the files, or :data:`UNKNOWN_SIZE`.
        fronts: all that was read of files that are not small, by row, as far as there was room.
    """

    contents: BytesColumn
    sizes: NDArray[np.int64]
    fronts: dict[int, bytes]
    failures: Mapping[int, PaimonIndexError]

    @staticmethod
    def most_bytes() -> int:
        """Bytes of :attr:`fronts`."""
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
        """Reads the first bytes of files.

        Args:
            before: data that those of ``contents`` begin with.
            claim: on memory for much of it, which may grow; files for which there can never be any are
                failures.
            room: bytes of fronts that are held.

        Raises:
            DeadlineExceededError: the request's time ran out.
            MemoryShortError: others have the memory.
        """
        sizes: list[int] = []
        fronts: dict[int, bytes] = {}
        failures: dict[int, PaimonIndexError] = {}
        longer: dict[int, int] = {}
        contents = _Contents(before, len(rows), room, claim)
        read = warehouse.read_ranges([(path, 0, FRONT_BYTES) for path in paths_of(rows)])
        for at, (row, front) in enumerate(zip(rows.tolist(), read, strict=True)):
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
                # A length that cannot be is left to the reader of heads, which tells what is wrong with it.
                content = front[: max(length, _HEAD_LENGTH_AT + _HEAD_LENGTH.size)]
            if (refusal := contents.put(at, content)) is not None:
                failures[row] = refusal
        paths = paths_of(rows[list(longer)]) if longer else ()
        heads = warehouse.read_ranges(
            [(path, 0, length) for path, length in zip(paths, longer.values(), strict=True)]
        )
        for at, head in zip(longer, heads, strict=True):
            why = head if isinstance(head, PaimonIndexError) else contents.put(at, head)
            if why is not None:
                failures[int(rows[at])] = why
        return cls(contents.column(), np.array(sizes, np.int64), fronts, failures)


class _Contents:
    """A column of ``count`` strings that grows in place, behind what was there before.

    The claim is on ``others`` bytes beside it.
    """

    def __init__(self, before: NDArray[np.uint8], count: int, others: int, claim: Claim) -> None:
        self._data = bytearray(before)
        self._starts = np.zeros(count, np.int64)
        self._lengths = np.full(count, NULL_LENGTH, np.int64)
        self._others = others
        self._claim = claim

    def put(self, at: int, content: bytes) -> LimitExceededError | None:
        """Adds a string; why it is not added if there can never be room. Raises MemoryShortError."""
        needed = len(self._data) + len(content) + self._others
        if needed > self._claim.size:
            try:
                self._claim.grow_to(needed + _CLAIM_BYTES)
            except LimitExceededError as error:
                return error
        self._starts[at], self._lengths[at] = len(self._data), len(content)
        self._data += content
        return None

    def column(self) -> BytesColumn:
        """All of them."""
        return BytesColumn(np.frombuffer(self._data, np.uint8), self._starts, self._lengths)


@dataclass(frozen=True, slots=True, eq=False)
class Payloads:
    """Payloads of n index files.

    ``found``: by column and kind, shape (n,): null where a file has no such index within its bytes.
    ``failures``: why files cannot be used, by position among the n.
    """

    found: Mapping[tuple[str, str], BytesColumn]
    failures: Mapping[int, PaimonIndexError]

    @classmethod
    def fetch(
        cls,
        warehouse: Warehouse,
        paths_of: PathsOf,
        rows: NDArray[np.int64],
        fronts: Sequence[bytes | None],
        heads: Heads,
        places: NDArray[np.int64],
        wanted: WantedIndexes,
    ) -> Self:
        """The payloads of the asked indexes of files.

        Args:
            rows: int64, shape (n,): of the files in their manifest.
            fronts: the first bytes of each, which need not be read again; None where they are not at hand.
            places: int64, shape (n,): which of the heads are theirs.

        Raises:
            DeadlineExceededError: the request's time ran out.
        """
        asked: list[tuple[tuple[str, str], int, int, int]] = []
        for column, kind in sorted(wanted):
            extents = heads.extents(column, kind)
            files = np.flatnonzero(extents.within(heads.sizes)[places])
            starts, lengths = extents.starts[places[files]], extents.lengths[places[files]]
            extent = zip(files.tolist(), starts.tolist(), lengths.tolist(), strict=True)
            asked += [((column, kind), *each) for each in extent]
        at_hand = [_part(fronts[at], start, length) for _, at, start, length in asked]
        missing = [each for each, part in zip(asked, at_hand, strict=True) if part is None]
        paths = paths_of(rows[[at for _, at, _, _ in missing]]) if missing else ()
        rest = iter(
            warehouse.read_ranges(
                [(path, start, size) for path, (_, _, start, size) in zip(paths, missing, strict=True)]
            )
        )
        payloads: dict[tuple[str, str], list[bytes | None]] = {key: [None] * len(rows) for key in wanted}
        failures: dict[int, PaimonIndexError] = {}
        for (index, at, start, length), part in zip(asked, at_hand, strict=True):
            content = next(rest) if part is None else part
            if isinstance(content, PaimonIndexError):
                failures[at] = content
            elif len(content) != length:
                told = f"expected {length} bytes of a payload, found {len(content)}"
                (path,) = paths_of(rows[[at]])
                failures[at] = CorruptIndexError(told, path=path, offset=start)
            else:
                payloads[index][at] = content
        return cls({index: _column(strings) for index, strings in payloads.items()}, failures)


def _column(payloads: Sequence[bytes | None]) -> BytesColumn:
    """The column of some payloads.

    They lie in an array of NumPy, which asks the system for huge pages: bloom filters are probed all over it.
    """
    lengths = np.array([NULL_LENGTH if each is None else len(each) for each in payloads], np.int64)
    starts = np.cumsum(np.maximum(lengths, 0)) - np.maximum(lengths, 0)
    data = np.empty(np.maximum(lengths, 0).sum(), np.uint8)
    view = data.data
    for start, payload in zip(starts.tolist(), payloads, strict=True):
        if payload is not None:
            view[start : start + len(payload)] = payload
    return BytesColumn(data, np.where(lengths < 0, 0, starts), lengths)


def _part(front: bytes | None, start: int, length: int) -> bytes | None:
    """A range of a file whose first bytes are at hand; None where they do not hold all of it."""
    if front is None:
        return None
    part = front[start : start + length]
    return part if len(part) == length or len(front) < FRONT_BYTES else None
