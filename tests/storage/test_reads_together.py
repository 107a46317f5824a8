"""Many ranges of objects: asked for at the same time without a thread for each, and made good one by one."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest

from app.errors import FileMissingError, PathNotAllowedError, RequestCancelledError, StorageError
from app.observation import observed_by
from app.storage import Cancellation, DiskTier, Readers, RetryPolicy, Warehouse, cancellable
from tests.faulty_store import BUCKET, Fault, Store
from tests.storage.test_faults import Told

COUNT = 60
CONTENTS = {f"db.db/t/{number}": bytes([number]) * 1_000 for number in range(COUNT)}
OBJECTS = {f"w/{path}": content for path, content in CONTENTS.items()}
RANGES = [(path, 10, 500) for path in CONTENTS]
FOUND = [content[10:510] for content in CONTENTS.values()]
PATIENT_SECONDS = 60


def opened(options: Mapping[str, object], **how: object) -> Warehouse:
    given = {"retry": RetryPolicy(first_wait_seconds=0), "stall_seconds": 60, **how}
    return Warehouse("w", f"s3://{BUCKET}/w", options=options, **given)  # type: ignore[arg-type]


def asked_until(store: Store, hanging: int, readers: Readers) -> list[type[Exception]]:
    """How a request for all ranges ends whose caller goes away once so many of its calls are under way."""
    ended, cancellation = list[type[Exception]](), Cancellation()

    def read(warehouse: Warehouse) -> None:
        try:
            with cancellable(cancellation):
                warehouse.read_ranges(RANGES)
        except RequestCancelledError as error:
            ended.append(type(error))

    with store.serving() as options:
        thread = threading.Thread(target=read, args=(opened(options, readers=readers),))
        thread.start()
        with store.hangs:
            assert store.hangs.wait_for(lambda: store.hanging >= hanging, PATIENT_SECONDS)
        cancellation.cancel()
        thread.join(PATIENT_SECONDS)
        assert not thread.is_alive()
    return ended


def test_more_calls_are_under_way_than_there_are_threads() -> None:
    store = Store(OBJECTS, lambda _: Fault.HANG)

    assert asked_until(store, COUNT, Readers(2)) == [RequestCancelledError]
    assert store.asked == dict.fromkeys(OBJECTS, 1)


def test_no_more_calls_are_under_way_than_are_allowed() -> None:
    store = Store(OBJECTS, lambda _: Fault.HANG)

    assert asked_until(store, 3, Readers(2, store_calls=3)) == [RequestCancelledError]
    assert store.asked.total() == 3


def test_no_more_bytes_are_under_way_than_are_allowed() -> None:
    store = Store(OBJECTS, lambda _: Fault.HANG)

    assert asked_until(store, 2, Readers(2, bytes_in_flight=1_000)) == [RequestCancelledError]
    assert store.asked.total() == 2


@pytest.mark.parametrize("fault", [Fault.SLOW_DOWN, Fault.RESET, Fault.CUT])
def test_what_fails_is_asked_for_again_by_itself(fault: Fault) -> None:
    draw, told = Random(7), Told()  # noqa: S311 - no secret
    store = Store(OBJECTS, lambda _: fault if draw.random() < 0.2 else None)
    with store.serving() as options, observed_by(told):
        assert opened(options).read_ranges(RANGES) == FOUND
    assert store.asked.total() > COUNT * 1.1
    assert told.repeated == len(told.errors) == told.calls - COUNT


def test_the_first_attempt_counts() -> None:
    store, told = Store(OBJECTS, lambda _: Fault.SLOW_DOWN), Told()
    with store.serving() as options, observed_by(told):
        (found,) = opened(options).read_ranges(RANGES[:1])
    assert isinstance(found, StorageError)
    assert "HTTP 503" in str(found)
    assert store.asked.total() == 4
    assert (told.calls, told.repeated) == (4, 3)


def test_each_range_has_an_error_of_its_own() -> None:
    store = Store({**OBJECTS, "w/db.db/t/empty": b""}, lambda _: None)
    wanted = [RANGES[0], ("db.db/t/none", 0, 5), ("../up", 0, 5), ("db.db/t/empty", 0, 5), RANGES[1]]
    with store.serving() as options:
        first, missing, outside, empty, last = opened(options).read_ranges(wanted)
    assert [first, empty, last] == [FOUND[0], b"", FOUND[1]]
    assert isinstance(missing, FileMissingError)
    assert isinstance(outside, PathNotAllowedError)


def test_more_bytes_than_may_be_under_way_are_read_in_turn() -> None:
    """Each thread claims more than there is, and waits for the others, not for itself."""
    store, found = Store(OBJECTS, lambda _: None), list[object]()
    with store.serving() as options:
        warehouse = opened(options, readers=Readers(2, bytes_in_flight=100))
        threads = [
            threading.Thread(target=lambda: found.append(warehouse.read_ranges(RANGES[:20])), daemon=True)
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENT_SECONDS)
    assert found == [FOUND[:20]] * 4


def test_what_the_disk_keeps_is_not_asked_for(tmp_path: Path) -> None:
    store = Store(OBJECTS, lambda _: None)
    with store.serving() as options:
        warehouse = opened(options, disk=DiskTier(str(tmp_path), 1 << 20))
        assert warehouse.read_ranges(RANGES[:20], immutable=True) == FOUND[:20]
        assert warehouse.read_ranges(RANGES, immutable=True) == FOUND
    assert store.asked == dict.fromkeys(OBJECTS, 1)
