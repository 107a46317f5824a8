"""Pieces of global index files: many searches are fed at once, each round in one go.

Pieces are kept decoded beside file indexes, and their bytes on the disk where there is a directory for them.
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
"""Bytes that one of a file takes when it is decoded."""


class Asked(NamedTuple):
    """A search of one file; ``form``: what else than their bytes decides what its pieces are read as."""

    path: str
    form: str
    search: Search


@dataclass(slots=True)
class _Pending:
    number: int
    asked: Asked
    pieces: Sequence[Piece]

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)


def run_searches(source: IndexSource, searches: Sequence[Asked]) -> list[BitMap | PaimonIndexError]:
    """The rows that each search finds, or why it finds none.

    Raises:
        DeadlineExceededError: the request's time ran out.
        MemoryShortError: there is no memory now.
    """
    found: list[BitMap | PaimonIndexError] = [BitMap()] * len(searches)
    pending: list[_Pending] = []
    for number, asked in enumerate(searches):
        _advance(_Pending(number, asked, ()), None, found, pending)
    while pending:
        check_deadline()
        count, size = 0, 0
        while count < len(pending) and (not count or size + pending[count].size <= _BYTES_OF_A_ROUND):
            size += pending[count].size
            count += 1
        fed, pending = pending[:count], pending[count:]
        decoded = iter(_load(source, [(one.asked, piece) for one in fed for piece in one.pieces]))
        for one in fed:
            _advance(one, [next(decoded) for _ in one.pieces], found, pending)
    return found


def _advance(
    one: _Pending,
    decoded: Sequence[Any] | None,
    found: list[BitMap | PaimonIndexError],
    pending: list[_Pending],
) -> None:
    """Sends a search what it asked for, and puts it behind those that go on."""
    search, path = one.asked.search, one.asked.path
    failure = next((each for each in decoded or () if isinstance(each, PaimonIndexError)), None)
    if failure is not None:
        found[one.number] = failure
        return
    try:
        pieces = search.send(decoded)  # type: ignore[arg-type] # None begins a search
    except StopIteration as end:
        found[one.number] = end.value
    except (CorruptIndexError, UnsupportedFormatError) as error:
        found[one.number] = _unusable(error, path, 0)
    else:
        pending.append(_Pending(one.number, one.asked, pieces))


def _load(source: IndexSource, wanted: Sequence[tuple[Asked, Piece]]) -> list[Any]:
    keys = [
        f"{source.warehouse.name}\n{asked.path}\n{piece.offset} {piece.size} {piece.form} {asked.form}"
        for asked, piece in wanted
    ]
    by_key = dict(zip(keys, wanted, strict=True))

    def read(missing: Sequence[str]) -> Iterator[Any]:
        some = [by_key[key] for key in missing]
        ranges = [(asked.path, piece.offset, piece.size) for asked, piece in some if piece.content is None]
        # Index files are named after random UUIDs: a path is never given again.
        contents = iter(source.warehouse.read_ranges(ranges, immutable=True))
        for asked, piece in some:
            check_deadline()
            content = next(contents) if piece.content is None else piece.content
            yield _decode(content, asked.path, piece)

    kept: dict[str, Any] = source.caches.file_indexes.get_or_load_many(
        keys,
        read,
        expected_bytes=lambda key: _EXPANSION * by_key[key][1].size,
        line=source.warehouse.name,
        is_kept=lambda piece: not isinstance(piece, PaimonIndexError),
    )
    return [kept[key] for key in keys]


def _decode(content: bytes | PaimonIndexError, path: str, piece: Piece) -> Any:
    """What a piece is read as, or why it cannot be."""
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
