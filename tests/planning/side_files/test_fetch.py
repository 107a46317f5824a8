"""Index files beside data files that are damaged, or that storage does not give."""

import struct
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from app.errors import LimitExceededError
from app.file_index import container
from app.file_index.index_kinds import BITMAP
from app.file_index.stacked_index import FileIndex
from app.planning.service import IndexService
from app.planning.side_files.fetch import Fronts
from app.storage import Readers, Warehouse
from app.work.ledger import LEDGER
from tests.examples import share
from tests.planning.tables_beside import CAT, ROWS, Beside, MakeBeside, Read
from tests.tables import names_of, payload, unreadable


@dataclass(frozen=True)
class Damage:
    """What happened to an index file, and what the warning tells of it."""

    change: Callable[[bytes], bytes]
    told: str


def _cut(to: int) -> Callable[[bytes], bytes]:
    return lambda content: content[:to]


def _overwritten(at: int, wrong: bytes) -> Callable[[bytes], bytes]:
    return lambda content: content[:at] + wrong + content[at + len(wrong) :]


def _in_the_payload(content: bytes) -> bytes:
    (found,) = FileIndex.read(content).entries["cat"]
    return _overwritten(found.start, b"\x07")(content)


def _claiming_much(content: bytes) -> bytes:
    (found,) = FileIndex.read(content).entries["cat"]
    extent = struct.Struct(">ii")
    at = content.index(extent.pack(found.start, found.length))
    return _overwritten(at, extent.pack(found.start, 1 << 29))(content)


DAMAGES = {
    "a payload longer than memory": Damage(_claiming_much, "payload"),
    "empty": Damage(_cut(0), "magic"),
    "cut in its head": Damage(_cut(30), "head length"),
    "cut in the payload that is asked": Damage(_cut(-20), "payload"),
    "cut before it": Damage(_cut(100_000), "payload"),
    "without magic": Damage(_overwritten(0, b"????"), "magic"),
    "a head of no length": Damage(_overwritten(12, bytes(4)), "head length"),
    "a payload of another version": Damage(_in_the_payload, "version"),
    "a head of any length": Damage(_overwritten(12, b"\x7f\xff\xff\xff"), "head length"),
}


@pytest.fixture(params=["store", "local"])
def service(beside: Beside, request: pytest.FixtureRequest) -> Iterator[IndexService]:
    if request.param == "store":
        yield beside.service
    else:
        with closing(beside.local_service()) as service:
            yield service


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("explain", share([False, True], 2))
def test_a_damaged_file_keeps_its_data_file_and_is_named(
    beside: Beside, service: IndexService, damage: Damage, explain: bool
) -> None:
    path = beside.made.side_file("3")
    path.write_bytes(damage.change(path.read_bytes()))

    plan = beside.made.plan(service, "cat = 1", explain=explain)

    assert names_of(plan.files) == ["1", "3"]
    assert unreadable(plan) == ["3"]
    (warning,) = plan.warnings
    assert "bucket-0/3.index" in warning
    assert damage.told in warning


@pytest.mark.parametrize("part", ["front", "payload"])
@pytest.mark.parametrize("explain", [False, True])
def test_what_storage_failed_to_give_is_asked_for_again(beside: Beside, part: str, explain: bool) -> None:
    def fail(read: Read) -> None:
        if read.file == "3" and (read.start > 0) == (part == "payload"):
            raise ConnectionResetError("dropped")

    beside.reads.before = fail
    for _ in range(2):
        plan = beside.made.plan(beside.service, "cat = 1", explain=explain)
        assert names_of(plan.files) == ["1", "3"]
        assert unreadable(plan) == ["3"]
        assert ["ConnectionResetError" in warning for warning in plan.warnings] == [True]
    beside.reads.before = lambda _: None
    beside.reads.taken()

    healed = beside.made.plan(beside.service, "cat = 1", explain=explain)

    assert names_of(healed.files) == ["1"]
    assert not healed.warnings
    assert {read.file for read in beside.reads.taken()} == {"3"}


def test_a_missing_file_is_looked_for_again(beside: Beside) -> None:
    path = beside.made.side_file("3")
    content = path.read_bytes()
    path.unlink()

    plan = beside.made.plan(beside.service, "cat = 1")

    assert names_of(plan.files) == ["1", "3"]
    assert unreadable(plan) == ["3"]
    assert "bucket-0/3.index" in plan.warnings[0]
    path.write_bytes(content)
    assert beside.kept("cat = 1") == ["1"]


def test_damage_that_nobody_asks_for_is_nobodys_concern(beside: Beside) -> None:
    path = beside.made.side_file("3")
    path.write_bytes(path.read_bytes()[:-20])

    assert beside.kept("id = 3") == ["3"]


def test_a_head_that_is_longer_than_a_front_is_read_as_a_whole(make_beside: MakeBeside) -> None:
    """As where a map has indexes on hundreds of keys."""
    beside = make_beside(_with_long_head)

    assert beside.kept("place = 3 AND cat = 3") == ["3"]
    lengths = [read.end - read.start for read in beside.reads.taken() if read.start == 0]
    assert len(lengths) == 2
    assert lengths[1] > lengths[0]
    with closing(beside.local_service()) as service:
        assert names_of(beside.made.plan(service, "place = 3 AND cat = 3").files) == ["3"]
        assert not names_of(beside.made.plan(service, "place = 3 AND cat = 4").files)


def _with_long_head(file: int) -> bytes:
    return container.write(
        {f"more[{number:04}]": [("bitmap", None)] for number in range(4000)}
        | {"cat": [("bitmap", payload(BITMAP, [file % 10] * ROWS, CAT))]}
    )


def test_what_there_can_never_be_memory_for_is_a_failure(
    tmp_path: Path, limit_memory: Callable[[int], None]
) -> None:
    contents = {row: row.to_bytes(2) * 3_500 for row in range(2_000)}
    for row, content in contents.items():
        (tmp_path / f"{row}").write_bytes(content)
    limit_memory(10 << 20)

    def paths_of(rows: NDArray[np.int64]) -> list[str]:
        return [str(row) for row in rows.tolist()]

    # One thread reads, so that nothing but what was read takes memory.
    with closing(Readers(1, warehouse="w")) as readers, LEDGER.claim("loads") as claim:
        warehouse = Warehouse("w", str(tmp_path), readers=readers)
        rows = np.arange(2_000)
        taken = Fronts.take(warehouse, paths_of, rows, np.zeros(3, np.uint8), claim, 0)
        assert claim.size <= 10 << 20

    held = {row: content for row, content in zip(rows.tolist(), taken.contents, strict=True) if content}
    assert held
    assert all(content == contents[row] for row, content in held.items())
    assert {row for row, why in taken.failures.items() if isinstance(why, LimitExceededError)} == {
        row for row in rows.tolist() if row not in held
    }
