"""Index files that a process has read need not be read by those that start later."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from app.planning.side_files.segments import BodySegment, HeadSegment, KeptSegments
from app.storage import DiskTier
from app.storage.disk_entry import Piece
from app.storage.disk_tier import KeptArrays
from app.types.bytes_column import BytesColumn
from tests.planning.copied_tables import open_service
from tests.planning.made_tables import names_of
from tests.planning.side_files.test_segments import ASKED, COUNT, index, with_fronts
from tests.planning.tables_beside import FILES, Beside, large, small

FILTERS = {
    "cat = 3": ["3"],
    "id = 4": ["4"],
    "id = 2 AND cat = 2": ["2"],
    "place >= 1 AND (cat = 0 OR id = 5)": ["5"],
    "cat = 8": [],
}


class Restarted:
    """A table with indexes beside its files, and services that come one after the other."""

    def __init__(self, directory: Path, index: Callable[[int], bytes]) -> None:
        self.warehouse, self.cache = directory / "warehouse", directory / "cache"
        self.warehouse.mkdir()
        self.beside = Beside.write(self.warehouse, index)

    def kept(self, *filters: str) -> list[list[str]]:
        """What a process that starts anew keeps of the table."""
        found = []
        with closing(open_service(self.warehouse, disk=DiskTier(self.cache, 1 << 30))) as service:
            for each in filters:
                plan = self.beside.made.plan(service, each)
                assert not plan.warnings
                found.append(names_of(plan.files))
        return found

    def entries(self, magic: bytes) -> list[Path]:
        return [path for path in self.cache.rglob("*") if path.is_file() and path.read_bytes()[:4] == magic]

    def lose_index_files(self) -> None:
        """Nothing is left of them but segments."""
        for path in self.beside.made.directory.rglob("*.index"):
            path.unlink()
        for entry in self.entries(b"PIC1"):
            entry.unlink()


@pytest.fixture(params=[large, small], ids=["large", "small"])
def restarted(tmp_path: Path, request: pytest.FixtureRequest) -> Restarted:
    return Restarted(tmp_path, request.param)


def test_a_process_that_starts_later_reads_no_index_file(restarted: Restarted) -> None:
    assert restarted.kept(*FILTERS) == list(FILTERS.values())
    restarted.lose_index_files()

    assert restarted.kept(*FILTERS) == list(FILTERS.values())


def test_what_is_not_kept_yet_is_read_and_kept_as_well(restarted: Restarted) -> None:
    assert restarted.kept("place IN (1, 5) AND cat = 1", "place = 2 AND id = 2") == [["1"], ["2"]]

    assert restarted.kept(*FILTERS) == list(FILTERS.values())
    restarted.lose_index_files()

    assert restarted.kept(*FILTERS) == list(FILTERS.values())


def test_damaged_segments_are_read_again(restarted: Restarted) -> None:
    restarted.kept(*FILTERS)
    for entry in restarted.entries(b"ARR1"):
        written = entry.read_bytes()
        if b"index files" in written:
            # Mapped files are never written to, but replaced.
            entry.unlink()
            entry.write_bytes(written[:-100] + bytes(byte ^ 1 for byte in written[-100:]))

    assert restarted.kept(*FILTERS) == list(FILTERS.values())


def payloads_of(column: BytesColumn) -> dict[tuple[str, str], BytesColumn]:
    return {(name, str(kind)): column for name, kind in ASKED}


def segments(directory: Path) -> KeptSegments:
    tier = DiskTier(directory, 1 << 30)
    piece = Piece("w", "db.db/t/manifest/manifest-1", 1, 0, None)
    return KeptSegments(lambda name: KeptArrays(tier, piece, name, "w"))


def test_a_few_new_heads_are_no_reason_to_write_all_anew(tmp_path: Path) -> None:
    kept = segments(tmp_path)
    segment = kept.keep_heads(0, with_fronts(HeadSegment.none(COUNT), [0, 1, 2, 3]))

    one_more = kept.keep_heads(0, with_fronts(segment, [5]))
    assert (one_more.kept, kept.heads(0, COUNT).known) == (4, 4)
    two_more = kept.keep_heads(0, with_fronts(one_more, [4]))
    assert (two_more.kept, kept.heads(0, COUNT).known) == (6, 6)


def test_indexes_of_other_questions_and_places_are_kept_apart(tmp_path: Path) -> None:
    kept = segments(tmp_path)
    heads = with_fronts(HeadSegment.none(COUNT), range(COUNT)).heads
    places = np.array([0, 3])
    payloads = payloads_of(BytesColumn.of([index(0)[-3:], index(3)[-3:]]))
    segment = BodySegment.none(COUNT).with_payloads(heads, places, payloads)

    kept.keep_body(8, COUNT, segment)

    found = kept.body(8, COUNT, ASKED, heads)
    assert np.flatnonzero(found.fetched).tolist() == [0, 3]
    assert {key: list(column) for key, column in (found.index.fetched or {}).items()} == {
        key: list(column) for key, column in (segment.index.fetched or {}).items()
    }
    fewer = frozenset(sorted(ASKED)[:1])
    for other in (kept.body(0, COUNT, ASKED, heads), kept.body(8, 2 * COUNT, ASKED, heads)):
        assert not other.known
    assert not kept.body(8, COUNT, fewer, heads).known


def test_indexes_whose_heads_are_not_known_are_left_out(tmp_path: Path) -> None:
    kept = segments(tmp_path)
    heads = with_fronts(HeadSegment.none(COUNT), range(FILES)).heads
    payloads = payloads_of(BytesColumn.of([b"abc"] * COUNT))
    kept.keep_body(0, COUNT, BodySegment.none(COUNT).with_payloads(heads, np.arange(COUNT), payloads))

    found = kept.body(0, COUNT, ASKED, with_fronts(HeadSegment.none(COUNT), [1, 4]).heads)

    assert np.flatnonzero(found.fetched).tolist() == [1, 4]
