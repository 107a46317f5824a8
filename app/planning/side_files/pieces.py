"""Pieces of global index files: rounds of reads, each for all searches in flight.

Decoded pieces share a cache with file indexes. Their bytes are kept on disk if there is a disk cache.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import Any, Final, NamedTuple

from pyroaring import BitMap

from app.errors import (
    CorruptIndexError,
    DeadlineExceededError,
    LimitExceededError,
    MemoryShortError,
    PaimonIndexError,
    UnsupportedFormatError,
)
from app.global_index import Piece, Search
from app.observation import FileFormat, observer
from app.planning.version.version import IndexSource
from app.types.roaring import bitmap_bytes
from app.work import LEDGER, Claim, check_deadline, remaining_seconds

_EXPANSION: Final = 6
"""Bytes that a byte of a file takes once it is decoded, unless blocks turn out to expand to more."""
_ERROR_BYTES: Final = 1_000
_SHARE_OF_TIME: Final = 0.5
_LATE: Final = "its search took half of the request's time, and these rows are kept: narrow the condition"


class FileSearch(NamedTuple):
    """A search of one file, which has not begun.

    ``form``: determines, with the bytes, what a piece is decoded to. So it is part of the cache key.
    """

    path: str
    form: str
    begin: Callable[[], Search]


class SearchResult(NamedTuple):
    """Rows that a search found or the error that ended it, and how many pieces and bytes it requested."""

    rows: BitMap | PaimonIndexError
    pieces: int
    nbytes: int


@dataclass(slots=True)
class _Pending:
    """A search in flight.

    ``held_bytes``: estimated memory held between two reads. ``failure``: error of a piece that it requested.
    """

    number: int
    of_file: FileSearch
    search: Search
    pieces: Sequence[Piece] = ()
    requested_pieces: int = 0
    requested_bytes: int = 0
    held_bytes: int = 0
    failure: PaimonIndexError | None = None

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class _Damage:
    """A piece that can never be decoded, cached so that no later plan tries."""

    error: PaimonIndexError
    nbytes: int = _ERROR_BYTES


@dataclass(slots=True)
class _Results:
    """Results by number of search. Until a search ends, its result is the error of a late one.

    ``found_bytes``: estimated memory of all rows found.
    """

    listed: list[SearchResult] = field(default_factory=list)
    found_bytes: int = 0

    def end(self, search: _Pending, rows: BitMap | PaimonIndexError) -> None:
        self.found_bytes += bitmap_bytes(rows) if isinstance(rows, BitMap) else _ERROR_BYTES
        self.listed[search.number] = SearchResult(rows, search.requested_pieces, search.requested_bytes)


def run_searches(source: IndexSource, searches: Iterable[FileSearch], claim: Claim) -> list[SearchResult]:
    """Run searches, as many side by side as fit into a portion of memory.

    After half of the request's remaining time, searches that have not ended get a DeadlineExceededError.

    ``searches``: taken as their turn comes, since there may be tens of thousands.
    ``claim``: covers what the searches hold, and the rows that they have found.

    Raises DeadlineExceededError if the request's time ran out. Raises MemoryShortError if there is no memory
    now.
    """
    results = _Results()
    late = SearchResult(DeadlineExceededError(_LATE), 0, 0)
    waiting = iter(searches)
    pending: list[_Pending] = []
    remaining = remaining_seconds()
    until = math.inf if remaining is None else time.monotonic() + _SHARE_OF_TIME * remaining
    loads = _Loads(source, claim)
    while time.monotonic() <= until:
        check_deadline()
        held_bytes = sum(each.held_bytes for each in pending)
        loads.held_bytes = results.found_bytes + held_bytes
        size = held_bytes + _EXPANSION * sum(each.size for each in pending)
        while not pending or size <= LEDGER.portion:
            of_file = next(waiting, None)
            if of_file is None:
                break
            begun = _Pending(len(results.listed), of_file, of_file.begin())
            results.listed.append(late)
            _advance(begun, None, results, pending)
            # A search reads the end of its file first, and then holds an index block of about this size.
            size += 2 * _EXPANSION * begun.size
        if not pending:
            break
        round_, pending = pending, []
        pieces = loads.decode([(each.of_file, piece) for each in round_ for piece in each.pieces])
        for each in round_:
            of_search = islice(pieces, len(each.pieces))
            _advance(each, _usable(each, of_search), results, pending)
            # Skips the pieces that a failed search has not read.
            deque(of_search, 0)
    return results.listed + [late for _ in waiting]


def _advance(
    search: _Pending, decoded: Iterator[Any] | None, results: _Results, pending: list[_Pending]
) -> None:
    """Feed a search the pieces that it requested. Requeue it if it requests more."""
    try:
        search.pieces = search.search.send(decoded)  # type: ignore[arg-type] # None begins a search
    except StopIteration as end:
        results.end(search, end.value)
    except (MemoryShortError, DeadlineExceededError):
        raise
    except PaimonIndexError as error:
        results.end(search, search.failure or _unusable(error, search.of_file.path, 0))
    else:
        search.requested_pieces += len(search.pieces)
        search.requested_bytes += search.size
        pending.append(search)


def _usable(search: _Pending, decoded: Iterator[Any]) -> Iterator[Any]:
    """Pass decoded pieces on to a search. The first unusable one ends the search."""
    is_held = len(search.pieces) == 1
    for piece in decoded:
        if isinstance(piece, PaimonIndexError):
            search.failure = piece
            raise CorruptIndexError("expected a piece that can be used")
        # A search holds the end of its file and its index block, which it requests one by one.
        search.held_bytes += piece.nbytes if is_held else 0
        yield piece


@dataclass(slots=True)
class _Loads:
    """Loads of one run of searches.

    Its claim covers what searches hold, and the loaded pieces. A load claims memory before it begins, and
    never waits for memory afterwards. So a run that holds a claim may wait for a piece that another loads.
    """

    source: IndexSource
    claim: Claim
    held_bytes: int = 0
    expansion: float = _EXPANSION

    def decode(self, pieces: Sequence[tuple[FileSearch, Piece]]) -> Iterator[Any]:
        """Yield decoded pieces, or errors, in order. Load as many at once as fit into memory."""
        sizes = [piece.size for _, piece in pieces]
        start, most = 0, len(pieces)
        while start < len(pieces):
            check_deadline()
            stop = start + self._fitting(sizes[start : start + most])
            try:
                loaded = _load(self.source, pieces[start:stop], self._grow_to)
                taken = sum(piece.nbytes for piece in loaded if not isinstance(piece, PaimonIndexError))
                self._grow_to(taken)
            except (MemoryShortError, LimitExceededError):
                if stop - start == 1:
                    raise
                # They expand to more than was expected: fewer are tried.
                most = (stop - start) // 2
                continue
            self.expansion = max(_EXPANSION, taken / (sum(sizes[start:stop]) or 1))
            start, most = stop, len(pieces)
            # Frees each piece once its search has read it.
            loaded.reverse()
            while loaded:
                yield loaded.pop()

    def _grow_to(self, size: int) -> None:
        self.claim.grow_to(self.held_bytes + size)

    def _fitting(self, sizes: Sequence[int]) -> int:
        """Claim memory for as many of the first pieces as fit, at least one. Return their number."""
        ends = [*accumulate(sizes)]
        count = max(1, bisect_right(ends, LEDGER.portion / self.expansion))
        while True:
            try:
                self._grow_to(int(self.expansion * ends[count - 1]))
            except (MemoryShortError, LimitExceededError):
                if count == 1:
                    raise
                count //= 2
            else:
                return count


def _load(
    source: IndexSource, pieces: Sequence[tuple[FileSearch, Piece]], grow_to: Callable[[int], None]
) -> list[Any]:
    """Load pieces or their errors. ``grow_to`` claims the bytes decoded so far, after each piece."""
    keys = [
        f"{source.warehouse.name}\n{of_file.path}\n{piece.offset} {piece.size} {piece.form} {of_file.form}"
        for of_file, piece in pieces
    ]
    by_key = dict(zip(keys, pieces, strict=True))

    def read(missing: Sequence[str]) -> Iterator[Any]:
        loads = [by_key[key] for key in missing]
        ranges = [
            (of_file.path, piece.offset, piece.size) for of_file, piece in loads if piece.content is None
        ]
        # Index files are named after random UUIDs: a path is never used again.
        contents = iter(source.warehouse.read_ranges(ranges, immutable=True))
        taken = 0
        for of_file, piece in loads:
            check_deadline()
            content = next(contents) if piece.content is None else piece.content
            decoded = _decode(content, of_file.path, piece)
            taken += 0 if isinstance(decoded, PaimonIndexError) else decoded.nbytes
            grow_to(taken)
            yield decoded

    kept: dict[str, Any] = source.caches.file_indexes.get_or_load_many(
        keys, read, line=source.warehouse.name, is_kept=lambda piece: not isinstance(piece, PaimonIndexError)
    )
    return [piece.error if isinstance(piece := kept[key], _Damage) else piece for key in keys]


def _decode(content: bytes | PaimonIndexError, path: str, piece: Piece) -> Any:
    """Decode a piece. Return the damage or the error of one that cannot be used."""
    if isinstance(content, PaimonIndexError):
        return content
    if len(content) != piece.size:
        error = CorruptIndexError(f"expected {piece.size} bytes, found {len(content)}")
        return _Damage(_unusable(error, path, piece.offset))
    try:
        return piece.read(content)
    except (MemoryShortError, DeadlineExceededError):
        raise
    except (CorruptIndexError, UnsupportedFormatError) as error:
        return _Damage(_unusable(error, path, piece.offset))
    except PaimonIndexError as error:
        return error.with_traceback(None)


def _unusable(error: PaimonIndexError, path: str, offset: int) -> PaimonIndexError:
    observer().undecodable(FileFormat.GLOBAL_INDEX)
    # Frames of a traceback would keep the bytes of the piece alive.
    return error.at(path, offset) if isinstance(error, CorruptIndexError) else error.with_traceback(None)
