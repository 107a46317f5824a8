"""The shared tier over stores that work, fail, hang and lie."""

import struct
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from app.storage import RetryPolicy, Warehouse
from app.storage.disk.column_entry import Columns
from app.storage.disk.disk_tier import FORMAT, DiskTier
from app.storage.shared_tier import SharedCacheState, SharedTier
from app.storage.tiers import Tiers
from app.work.ledger import LEDGER
from tests import s3_server
from tests.faulty_store import BUCKET, Fault, Store
from tests.storage.disk.damaged_entries import invert, replace_entries

KEY = b"0123456789abcdef"
NAME, ANOTHER = b"one", b"another"


def column(*values: int) -> dict[str, pa.Array]:
    return {"values": pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), pa.array(values))}


COLUMNS, EXPECTED = column(*range(100_000)), [*range(100_000)]


@contextmanager
def tier(url: str, key: bytes = KEY, options: Any = None, **limits: float) -> Iterator[SharedTier]:
    store = Warehouse("shared", url, retry=RetryPolicy(attempts=1), options=options or {})
    opened = SharedTier(store, key, **limits)  # type: ignore[arg-type] # the limit of bytes is whole
    try:
        yield opened
    finally:
        opened.close()


def offer(url: str, **options: Any) -> None:
    with tier(url, **options) as writer:
        writer.offer(NAME, COLUMNS)
        writer.flush()
        assert writer.statistics().written == 1


def values(shared: SharedTier, key: bytes = NAME) -> list[int] | None:
    entry = shared.get(key)
    return None if entry is None else list(Columns.read(key, entry)["values"].values.to_pylist())


@pytest.fixture(params=["memory", "file", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    match request.param:
        case "memory":
            yield f"memory://{tmp_path.name}/shared", {}
        case "file":
            yield f"{tmp_path}/shared", {}
        case _:
            with s3_server.serve("shared-tier", {}) as options:
                yield "s3://shared-tier/prefix", {"options": options}


def test_what_one_process_leaves_another_has(place: tuple[str, dict[str, Any]]) -> None:
    url, options = place
    with tier(url, **options) as reader:
        assert values(reader) is None
        offer(url, **options)
        assert values(reader) is None, "nobody asks again at once for what is absent"

    with tier(url, **options) as later:
        assert values(later) == EXPECTED
        told = later.statistics()
        assert (told.hits, told.misses, told.failures) == (1, 0, 0)
        later.offer(NAME, COLUMNS)
        later.flush()
        assert later.statistics().written == 0


def test_an_object_is_written_once(tmp_path: Path) -> None:
    offer(str(tmp_path))
    (path,) = (tmp_path / str(FORMAT)).iterdir()
    before = path.stat()

    with tier(str(tmp_path)) as another:
        another.offer(NAME, column(9))
        another.flush()
        assert another.statistics().written == 0
    assert (path.stat().st_mtime_ns, path.stat().st_size) == (before.st_mtime_ns, before.st_size)


def test_what_is_read_is_kept_on_the_disk(tmp_path: Path) -> None:
    with tier(f"{tmp_path}/shared") as shared:
        first = Tiers(store=shared).entry("w", "manifest-1", 1, "form")
        assert first is not None
        first.share(COLUMNS)
        shared.flush()
        entry = Tiers(DiskTier(tmp_path / "disk", 1 << 30), shared).entry("w", "manifest-1", 1, "form")
        assert entry is not None
        assert entry.get() is None
        fetched = entry.fetch()
    assert fetched is not None
    assert fetched.held == 0, "mapped"
    assert entry.is_on_disk
    assert (kept := entry.get()) is not None
    assert kept["values"].values.to_pylist() == EXPECTED


def test_keys_have_objects_of_their_own_at_one_prefix(tmp_path: Path) -> None:
    keys = [KEY, b"fedcba9876543210", b"0123456789abcdeF", b""]
    for key in keys:
        with tier(str(tmp_path), key) as another:
            assert values(another) is None
            another.offer(NAME, COLUMNS)
            another.flush()
    for key in keys:
        with tier(str(tmp_path), key) as again:
            assert values(again) == EXPECTED
            assert again.statistics().corrupt == 0


def test_who_has_another_key_is_not_believed(tmp_path: Path) -> None:
    offer(str(tmp_path))
    with tier(str(tmp_path), b"fedcba9876543210") as writer:
        writer.offer(NAME, COLUMNS)
        writer.flush()
    mine, forged = sorted((tmp_path / str(FORMAT)).iterdir(), key=lambda path: path.stat().st_mtime_ns)
    forged.rename(mine)
    with tier(str(tmp_path)) as reader:
        assert values(reader) is None
        assert reader.statistics().corrupt == 1


@pytest.mark.parametrize("change", [invert, lambda content: content[:-5], lambda _: b"", lambda _: b"x" * 99])
def test_damage_is_a_miss_and_mended(tmp_path: Path, change: Any) -> None:
    offer(str(tmp_path))
    replace_entries(tmp_path, change)

    with tier(str(tmp_path)) as reader:
        assert values(reader) is None
        assert reader.statistics().corrupt == 1
        reader.offer(NAME, COLUMNS)
        reader.flush()
    with tier(str(tmp_path)) as reader:
        assert values(reader) == EXPECTED


def test_large_objects_are_read_in_two_calls(tmp_path: Path) -> None:
    noise = np.random.default_rng(1).integers(0, 1 << 62, 1 << 18).tolist()
    with tier(str(tmp_path)) as shared:
        shared.offer(NAME, column(*noise))
        shared.flush()
        assert values(shared) == noise
        assert shared.statistics().bytes > 1 << 21


@pytest.mark.parametrize("fault", [Fault.SLOW_DOWN, Fault.RESET, Fault.CUT, Fault.HANG])
@pytest.mark.parametrize("is_probed", [False, True], ids=["from the beginning", "after a while"])
def test_a_store_that_fails_is_left_alone(tmp_path: Path, fault: Fault, is_probed: bool) -> None:
    offer(str(tmp_path))
    store = Store.of(tmp_path, lambda key: None if is_probed and "/probe" in key else fault)
    with store.serving() as options, tier(f"s3://{BUCKET}", options=options) as shared:
        started = time.monotonic()
        if is_probed:
            shared.flush()
        assert values(shared) is None
        assert time.monotonic() - started < 2
        asked = store.asked.total()
        for number in range(20):
            assert shared.get(b"%d" % number) is None
        shared.flush()
        shared.offer(NAME, COLUMNS)

        assert store.asked.total() == asked
        told = shared.statistics()
        assert (told.failures, told.misses, told.dropped) == (1, 21, 1)


def test_what_is_offered_before_a_store_has_failed_is_not_written(tmp_path: Path) -> None:
    store = Store.of(tmp_path, lambda _: Fault.RESET)
    with store.serving() as options, tier(f"s3://{BUCKET}", options=options) as shared:
        shared.offer(NAME, COLUMNS)
        shared.flush()

        assert (shared.statistics().written, shared.statistics().dropped) == (0, 1)


def test_after_damage_nothing_is_read_for_a_while(tmp_path: Path) -> None:
    offer(str(tmp_path))
    replace_entries(tmp_path, invert)
    with tier(str(tmp_path)) as writer:
        writer.offer(b"sound", column(1))
        writer.flush()

    with tier(str(tmp_path)) as shared:
        assert values(shared) is None
        assert shared.get(b"sound") is None
        assert (shared.statistics().corrupt, shared.statistics().misses) == (1, 2)


def forge(directory: Path, stored: int) -> None:
    """Write an object without the key, which says that it has so many bytes."""
    (path,) = (directory / str(FORMAT)).iterdir()
    head = struct.pack("<4sQQ", b"PSH2", stored, 1 << 27)
    with path.open("r+b") as file:
        file.write(head)
        file.truncate(stored)


def test_what_nobody_has_signed_is_claimed_until_it_is_not_believed(tmp_path: Path) -> None:
    stored = 40 << 20
    offer(str(tmp_path))
    forge(tmp_path, stored)
    claimed = []
    store = Store.of(tmp_path, lambda _: claimed.append(LEDGER.claimed.get("reads", 0)))
    with store.serving() as options, tier(f"s3://{BUCKET}", options=options) as shared:
        shared.flush()
        nothing = claimed[-1]

        assert values(shared) is None

        assert shared.statistics().corrupt == 1
        assert claimed[-1] - nothing >= stored
        assert LEDGER.claimed.get("reads", 0) == nothing


@pytest.mark.parametrize(("stored", "memory"), [(60 << 20, 100 << 20), (200 << 20, 8 << 20)])
def test_nothing_is_read_twice_nor_what_says_that_it_is_larger_than_any_object(
    tmp_path: Path, stored: int, memory: int
) -> None:
    offer(str(tmp_path))
    forge(tmp_path, stored)
    with tier(str(tmp_path)) as shared:
        tracemalloc.start()
        assert values(shared) is None
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()

        assert shared.statistics().corrupt == 1
        assert most < memory


def test_a_slow_store_is_left_alone(tmp_path: Path) -> None:
    offer(str(tmp_path))
    with tier(str(tmp_path), slow_seconds=0.0) as shared:
        assert values(shared) is None
        shared.offer(ANOTHER, column(1))
        told = shared.statistics()
        assert (told.failures, told.misses, told.dropped) == (1, 1, 1)


def test_a_store_that_answers_again_is_asked_again(tmp_path: Path) -> None:
    offer(str(tmp_path))
    faults = iter([Fault.RESET])
    store = Store.of(tmp_path, lambda _: next(faults, None))
    with store.serving() as options, tier(f"s3://{BUCKET}", options=options, rest_seconds=0.0) as shared:
        shared.flush()
        assert values(shared) is None, "asked in the background first"
        shared.flush()
        assert values(shared) == EXPECTED


def test_a_write_that_fails_is_counted_and_reads_go_on(tmp_path: Path) -> None:
    offer(f"{tmp_path}/shared")
    store = Store.of(tmp_path / "shared", lambda key: Fault.RESET if f"{FORMAT}/" in key and armed else None)
    armed = False
    with store.serving() as options, tier(f"s3://{BUCKET}", options=options) as shared:
        shared.flush()
        armed = True
        shared.offer(ANOTHER, column(1))
        shared.flush()
        armed = False
        assert (shared.statistics().failures, shared.statistics().written) == (1, 0)
        assert values(shared) == EXPECTED
        shared.offer(b"a third", column(1))
        assert shared.statistics().dropped == 1


def test_a_tier_that_is_closed_takes_nothing_and_fails_nobody(tmp_path: Path) -> None:
    with tier(str(tmp_path)) as shared:
        shared.close()
        shared.offer(NAME, COLUMNS)
        assert values(shared) is None
    assert not any(tmp_path.iterdir())


def test_counters_begin_at_nothing(tmp_path: Path) -> None:
    with tier(str(tmp_path)) as shared:
        assert shared.statistics() == SharedCacheState()
