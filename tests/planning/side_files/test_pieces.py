"""Searches of global indexes side by side: what they hold, what they remember, and when they stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyroaring import BitMap

from app.errors import CorruptIndexError, DeadlineExceededError
from app.global_index import Piece
from app.planning.side_files import pieces
from app.planning.side_files.pieces import FileSearch, SearchResult, run_searches
from app.planning.version.version import IndexSource
from app.types import DataField, parse_type
from app.types.roaring import bitmap_bytes
from app.work import LEDGER, time_limit
from tests.tables import MadeTable, entry, open_service

SIZE = 64 << 10


@dataclass(frozen=True)
class Content:
    nbytes: int

    @classmethod
    def read(cls, content: bytes) -> Content:
        return cls(len(content))


@pytest.fixture
def source(tmp_path: Path) -> Iterator[IndexSource]:
    with closing(open_service(tmp_path)) as service:
        made = MadeTable.make(tmp_path, [DataField(0, "id", parse_type("BIGINT"))])
        made.commit([entry()])
        yield made.version(service).source


def run(source: IndexSource, *searches: FileSearch) -> list[SearchResult]:
    with LEDGER.claim("loads") as claim:
        return run_searches(source, searches, claim)


@dataclass
class Searches:
    """Searches of one piece each after the end of their files; counts those in flight."""

    in_flight: int = 0
    ended: list[int] = field(default_factory=list)
    most: int = 0
    least_claimed: float = float("inf")

    def search(self, number: int) -> FileSearch:
        def rows() -> Any:
            self.in_flight += 1
            self.most = max(self.most, self.in_flight)
            for form in ("tail", "block"):
                (content,) = yield [Piece(0, SIZE, form, Content.read, bytes(SIZE))]
                assert content.nbytes == SIZE
                self.least_claimed = min(self.least_claimed, LEDGER.claimed["loads"])
            self.in_flight -= 1
            self.ended.append(number)
            return BitMap([number])

        return FileSearch(f"file {number}", "", rows)


def test_as_many_searches_are_in_flight_as_fit_and_what_they_hold_is_claimed(
    source: IndexSource, limit_memory: Callable[[int], None]
) -> None:
    limit_memory(256 << 20)
    all_searches = Searches()

    results = run(source, *map(all_searches.search, range(2_000)))

    assert [result.rows for result in results] == [BitMap([number]) for number in range(2_000)]
    assert all_searches.most * SIZE <= LEDGER.portion
    assert all_searches.least_claimed >= SIZE
    assert not LEDGER.claimed["loads"]


def test_searches_begin_in_their_turn_and_what_they_found_is_claimed_until_its_user_ends(
    source: IndexSource, limit_memory: Callable[[int], None]
) -> None:
    limit_memory(256 << 20)
    all_searches, taken = Searches(), []

    def come(count: int) -> Iterator[FileSearch]:
        for number in range(count):
            taken.append(number - len(all_searches.ended))
            yield all_searches.search(number)

    with LEDGER.claim("loads") as claim:
        run_searches(source, come(2_000), claim)
        assert LEDGER.claimed["loads"] >= sum(bitmap_bytes(BitMap([number])) for number in range(1_900))

    assert max(taken) * SIZE <= LEDGER.portion
    assert not LEDGER.claimed["loads"]


def test_a_damaged_piece_is_decoded_once(source: IndexSource) -> None:
    decoded = []

    def read(content: bytes) -> Content:
        decoded.append(content)
        raise CorruptIndexError("expected a block", offset=3)

    def search(read: Callable[[bytes], Content]) -> Any:
        (content,) = yield [Piece(4, SIZE, "block", read, bytes(SIZE))]
        return BitMap([content.nbytes])

    results = [run(source, FileSearch("file", "", partial(search, read))) for _ in range(3)]

    assert {str(result.rows) for (result,) in results} == {"file at byte 7: expected a block"}
    assert len(decoded) == 1


def test_searches_that_take_half_of_the_time_leave_the_rest_undecided(
    source: IndexSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "_SHARE_OF_TIME", 0)

    with time_limit(60):
        (result,) = run(source, Searches().search(0))

    assert isinstance(result.rows, DeadlineExceededError)
    assert "narrow the condition" in str(result.rows)


def test_pieces_go_on_one_by_one_where_memory_is_short(
    source: IndexSource, limit_memory: Callable[[int], None]
) -> None:
    def search(found: list[int]) -> Any:
        decoded: Sequence[Content] = yield [
            Piece(number, SIZE, "block", Content.read, bytes(SIZE)) for number in range(64)
        ]
        found += [content.nbytes for content in decoded]
        return BitMap()

    found: list[int] = []
    limit_memory(256 << 20)
    with LEDGER.claim("plans", int(LEDGER.room) - 12 * SIZE):
        run(source, FileSearch("file", "", partial(search, found)))

    assert found == [SIZE] * 64


def test_pieces_that_expand_to_more_than_was_claimed_for_them_are_loaded_fewer_at_a_time(
    source: IndexSource, limit_memory: Callable[[int], None]
) -> None:
    expanded = Content(1 << 20)

    def search(found: list[int]) -> Any:
        names = [Piece(number, 100, "block", lambda _: expanded, bytes(100)) for number in range(64)]
        found += [content.nbytes for content in (yield names)]
        return BitMap()

    found: list[int] = []
    limit_memory(256 << 20)
    with LEDGER.claim("plans", int(LEDGER.room) - (12 << 20)):
        (result,) = run(source, FileSearch("file", "", partial(search, found)))

    assert isinstance(result.rows, BitMap)
    assert found == [expanded.nbytes] * 64
