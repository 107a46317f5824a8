"""Pieces of global index files: rounds of reads, each for all searches in flight.

Decoded pieces share a cache with file indexes; their bytes are kept on disk if there is a disk cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pyroaring import BitMap

from app.errors import (
    CorruptIndexError,
    DeadlineExceededError,
    MemoryShortError,
    PaimonIndexError,
    UnsupportedFormatError,
)
from app.global_index import Piece, Search
from app.observation import FileFormat, observer
from app.planning.version.version import IndexSource
from app.work import check_deadline

_BYTES_OF_A_ROUND: Final = 32 << 20
_EXPANSION: Final = 6
"""Bytes that a byte of a file takes once it is decoded."""


class FileSearch(NamedTuple):
    """A search of one file.

    ``form``: decides with the bytes what a piece is decoded to, and so is part of its key.
    """

    path: str
    form: str
    search: Search


class SearchResult(NamedTuple):
    """Rows of a search, or the error that ended it; and the pieces that it asked for, with their bytes."""

    rows: BitMap | PaimonIndexError
    pieces: int
    nbytes: int


@dataclass(slots=True)
class _Pending:
    number: int
    of_file: FileSearch
    pieces: Sequence[Piece]
    asked_pieces: int = 0
    asked_bytes: int = 0

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)


def run_searches(source: IndexSource, searches: Sequence[FileSearch]) -> list[SearchResult]:
    """Runs searches side by side, each to its end.

    Raises:
        DeadlineExceededError: the request's time ran out.
        MemoryShortError: there is no memory now.
    """
    results = [SearchResult(BitMap(), 0, 0)] * len(searches)
    pending: list[_Pending] = []
    for number, search in enumerate(searches):
        _advance(_Pending(number, search, ()), None, results, pending)
    while pending:
        check_deadline()
        count, size = 0, 0
        while count < len(pending) and (not count or size + pending[count].size <= _BYTES_OF_A_ROUND):
            size += pending[count].size
            count += 1
        round_, pending = pending[:count], pending[count:]
        decoded = iter(_load(source, [(each.of_file, piece) for each in round_ for piece in each.pieces]))
        for each in round_:
            _advance(each, [next(decoded) for _ in each.pieces], results, pending)
    return results


def _advance(
    search: _Pending, decoded: Sequence[Any] | None, results: list[SearchResult], pending: list[_Pending]
) -> None:
    """Sends a search the pieces that it named, and queues it again if it names more."""
    of_file, asked = search.of_file, (search.asked_pieces, search.asked_bytes)
    failure = next((piece for piece in decoded or () if isinstance(piece, PaimonIndexError)), None)
    if failure is not None:
        results[search.number] = SearchResult(failure, *asked)
        return
    try:
        search.pieces = of_file.search.send(decoded)  # type: ignore[arg-type] # None begins a search
    except StopIteration as end:
        results[search.number] = SearchResult(end.value, *asked)
    except (CorruptIndexError, UnsupportedFormatError) as error:
        results[search.number] = SearchResult(_unusable(error, of_file.path, 0), *asked)
    else:
        search.asked_pieces += len(search.pieces)
        search.asked_bytes += search.size
        pending.append(search)


def _load(source: IndexSource, pieces: Sequence[tuple[FileSearch, Piece]]) -> list[Any]:
    """Pieces in the form that their searches read them in, or the errors that kept them from it."""
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
        # Index files are named after random UUIDs: a path is never given again.
        contents = iter(source.warehouse.read_ranges(ranges, immutable=True))
        for of_file, piece in loads:
            check_deadline()
            content = next(contents) if piece.content is None else piece.content
            yield _decode(content, of_file.path, piece)

    kept: dict[str, Any] = source.caches.file_indexes.get_or_load_many(
        keys,
        read,
        expected_bytes=lambda key: _EXPANSION * by_key[key][1].size,
        line=source.warehouse.name,
        is_kept=lambda piece: not isinstance(piece, PaimonIndexError),
    )
    return [kept[key] for key in keys]


def _decode(content: bytes | PaimonIndexError, path: str, piece: Piece) -> Any:
    """Decodes a piece; returns the error of one that cannot be used."""
    if isinstance(content, PaimonIndexError):
        return content
    if len(content) != piece.size:
        error = CorruptIndexError(f"expected {piece.size} bytes, found {len(content)}")
        return _unusable(error, path, piece.offset)
    try:
        return piece.read(content)
    except (MemoryShortError, DeadlineExceededError):
        raise
    except PaimonIndexError as error:
        return _unusable(error, path, piece.offset)


def _unusable(error: PaimonIndexError, path: str, offset: int) -> PaimonIndexError:
    observer().undecodable(FileFormat.GLOBAL_INDEX)
    return error.at(path, offset) if isinstance(error, CorruptIndexError) else error
