"""Faults of stores that pass are made good, by few calls and soon, also of many reads; what lasts is told."""

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from app.errors import (
    DeadlineExceededError,
    FileMissingError,
    PathNotAllowedError,
    RequestCancelledError,
    StorageError,
)
from app.observation import Observer, StorageCall, observed_by
from app.storage import Readers, RetryPolicy, Warehouse
from app.storage.disk.disk_tier import DiskTier
from app.storage.retry import RetryBudget
from app.storage.stores import Store as AnyStore
from app.storage.stores import open_store
from app.storage.stores.failures import is_missing, is_transient
from app.work import Cancellation, cancellable, time_limit
from tests.faulty_store import BUCKET, Fault, Store

OBJECTS = {f"w/db.db/t/{n}": bytes([n]) * 100_000 for n in range(8)}
KEY, PATH = "w/db.db/t/1", "db.db/t/1"
CONTENT = OBJECTS[KEY]
PATIENT_SECONDS = 60


def opened(options: Mapping[str, object], retry: RetryPolicy | None = None, stall: float = 60) -> Warehouse:
    policy = retry or RetryPolicy(first_wait_seconds=0)
    return Warehouse("w", f"s3://{BUCKET}/w", options=options, retry=policy, stall_seconds=stall)


def first(count: int, fault: Fault) -> Callable[[str], Fault | None]:
    """Return a fault of the first requests."""
    faults = [fault] * count
    return lambda _: faults.pop() if faults else None


class Told(Observer):
    def __init__(self) -> None:
        self.calls = self.repeated = 0
        self.errors: list[type[BaseException]] = []

    def storage_called(self, call: StorageCall) -> None:
        if call.error is not None:
            self.errors.append(type(call.error))
        self.calls += 1
        self.repeated += call.is_repeated


@pytest.mark.parametrize(
    "ask",
    [
        lambda warehouse: warehouse.read(PATH),
        lambda warehouse: warehouse.size(PATH),
        lambda warehouse: warehouse.list_names(PATH),
    ],
)
def test_a_store_that_always_asks_for_less_is_asked_four_times(ask: Callable[[Warehouse], object]) -> None:
    store, told = Store(OBJECTS, lambda _: Fault.SLOW_DOWN), Told()
    with store.serving() as options, observed_by(told):
        with pytest.raises(StorageError, match=r"\(.*HTTP 503\)$"):
            ask(opened(options))
        assert store.asked.total() == 4
        assert (told.calls, told.repeated) == (4, 3)


@pytest.mark.parametrize("fault", [Fault.SLOW_DOWN, Fault.RESET, Fault.CUT])
def test_what_passes_is_made_good(fault: Fault) -> None:
    store = Store(OBJECTS, first(3, fault))
    with store.serving() as options:
        assert opened(options).read(PATH) == CONTENT


@pytest.mark.parametrize("fault", [Fault.RESET, Fault.CUT])
def test_one_of_five_connections_that_break_are_no_error(fault: Fault) -> None:
    draw = Random(13)  # noqa: S311 - no secret
    store = Store(OBJECTS, lambda _: fault if draw.random() < 0.2 else None)
    with store.serving() as options:
        warehouse, keys = opened(options), list(OBJECTS) * 12
        for key in keys:
            assert warehouse.read(key.removeprefix("w/")) == OBJECTS[key]
    assert store.asked.total() > len(keys) * 1.15


def test_a_server_that_is_not_there_is_asked_again() -> None:
    told = Told()
    options = {"endpoint": "http://127.0.0.1:1", "access_key_id": "key", "secret_access_key": "secret"}
    with observed_by(told), pytest.raises(StorageError, match="ConnectionError"):
        opened(options).read(PATH)
    assert told.calls == 4


def test_a_silent_call_is_given_up_and_made_again() -> None:
    store = Store(OBJECTS, first(1, Fault.HANG))
    with store.serving() as options, time_limit(PATIENT_SECONDS):
        assert opened(options, stall=1.0).read(PATH) == CONTENT
    assert store.asked[KEY] == 2


@pytest.mark.parametrize(
    "ask",
    [
        lambda warehouse: warehouse.read(PATH),
        lambda warehouse: warehouse.read_ranges([(PATH, 0, len(CONTENT))])[0],
    ],
)
def test_a_store_that_sends_a_byte_now_and_then_is_asked_again(ask: Callable[[Warehouse], object]) -> None:
    store = Store(OBJECTS | {KEY: CONTENT[:1_000]}, first(1, Fault.DRIP))
    with store.serving() as options, time_limit(PATIENT_SECONDS / 2):
        assert ask(opened(options, stall=0.5)) == CONTENT[:1_000]
    assert store.asked[KEY] >= 2


def test_a_listing_that_comes_a_byte_now_and_then_is_asked_for_again() -> None:
    store = Store(OBJECTS, first(1, Fault.DRIP))
    with store.serving() as options, time_limit(PATIENT_SECONDS / 2):
        assert opened(options, stall=0.1).list_names("db.db/t") == sorted(map(str, range(8)))
    assert store.asked["w/db.db/t/"] == 2


def test_a_store_that_stays_silent_is_an_error() -> None:
    store = Store(OBJECTS, lambda _: Fault.HANG)
    with store.serving() as options, pytest.raises(StorageError, match="TimeoutError"):
        opened(options, stall=0.1).read(PATH)
    assert store.asked[KEY] == 4


@pytest.mark.parametrize("ends_by", [DeadlineExceededError, RequestCancelledError])
def test_a_request_that_ends_keeps_no_thread_in_storage(ends_by: type[Exception]) -> None:
    store = Store(OBJECTS, lambda key: Fault.HANG if key == KEY else None)
    ended, cancellation, told = list[type[Exception]](), Cancellation(), Told()

    def read(warehouse: Warehouse) -> None:
        try:
            warehouse.read("db.db/t/0")  # as it takes a while to set the library up
            limit = 0.5 if ends_by is DeadlineExceededError else 60
            with time_limit(limit), cancellable(cancellation), observed_by(told):
                warehouse.read(PATH)
        except ends_by as error:
            ended.append(type(error))

    with store.serving() as options:
        thread = threading.Thread(target=read, args=(opened(options),))
        thread.start()
        with store.hangs:
            assert store.hangs.wait_for(lambda: store.hanging, PATIENT_SECONDS)
        if ends_by is RequestCancelledError:
            cancellation.cancel()
        thread.join(PATIENT_SECONDS)
        # The store still keeps the request.
        assert ended == [ends_by]
    # That a caller goes away is no failure of the store.
    assert told.errors == ([DeadlineExceededError] if ends_by is DeadlineExceededError else [])


def test_an_outage_does_not_multiply_calls() -> None:
    reads, budget = 20, 5
    store = Store(OBJECTS, lambda _: Fault.SLOW_DOWN)
    retry = RetryPolicy(first_wait_seconds=0, budget=RetryBudget(budget))
    with store.serving() as options:
        warehouse = opened(options, retry)
        errors = [_error_of(warehouse) for _ in range(reads)]
    assert store.asked.total() == reads + budget
    assert not errors[0].endswith("not tried again, since many calls fail")
    assert errors[-1].endswith("HTTP 503); not tried again, since many calls fail")


def _error_of(warehouse: Warehouse) -> str:
    with pytest.raises(StorageError) as caught:
        warehouse.read(PATH)
    return str(caught.value)


def test_calls_that_succeed_fill_the_budget_again() -> None:
    budget = RetryBudget(2)
    assert [budget.take() for _ in range(3)] == [True, True, False]
    budget.succeeded(is_repeated=True)
    assert [budget.take() for _ in range(2)] == [True, False]
    for _ in range(11):
        budget.succeeded(is_repeated=False)
    assert [budget.take() for _ in range(2)] == [True, False]
    for _ in range(100):
        budget.succeeded(is_repeated=True)
    assert [budget.take() for _ in range(3)] == [True, True, False]


def test_no_warehouse_spends_the_budget_of_another() -> None:
    first_one, second = RetryBudget.of_each(2)
    taken = sum(first_one.take() for _ in range(1000))
    assert (taken, second.take()) == (50, True)
    (only,) = RetryBudget.of_each(1)
    assert sum(only.take() for _ in range(1000)) == 100


STALL_SECONDS = 0.4

STORES: dict[str, tuple[str, Callable[[str], dict[str, Any]]]] = {
    "s3": (
        "obstore",
        lambda endpoint: {"endpoint": endpoint, "access_key_id": "key", "secret_access_key": "secret"},
    ),
    "gs": ("gcsfs", lambda endpoint: {"endpoint_url": endpoint, "token": "anon"}),
    "az": (
        "adlfs",
        lambda endpoint: {
            "connection_string": "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=a2V5;"
            f"BlobEndpoint={endpoint}/a;"
        },
    ),
    "oss": ("ossfs", lambda endpoint: {"endpoint": endpoint, "key": "key", "secret": "secret"}),
    "http": ("aiohttp", lambda _: {}),
}
QUESTIONS: dict[str, Callable[[AnyStore], object]] = {
    "read": lambda store: store.read("key", 0, 9),
    "list": lambda store: store.entries("key"),
    "size": lambda store: store.size("key"),
}


@pytest.mark.parametrize("protocol", STORES)
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("fault", [Fault.SLOW_DOWN, Fault.HANG])
def test_a_store_is_asked_once_for_each_key(
    protocol: str, question: str, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Asks a service of its own for the kind of each bucket, which is none of the endpoint's.
    monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    library, options_of = STORES[protocol]
    pytest.importorskip(library)
    store = Store({}, lambda _: fault)
    with store.serving() as served:
        endpoint = served["endpoint"]
        location = endpoint if protocol == "http" else f"{protocol}://{BUCKET}/directory"
        opened_store = open_store(location, options_of(endpoint), STALL_SECONDS)
        began = time.monotonic()
        with pytest.raises(Exception) as caught:  # noqa: PT011 - libraries have nothing in common
            QUESTIONS[question](opened_store)
        seconds = time.monotonic() - began

    assert is_transient(caught.value)
    assert not is_missing(caught.value)
    # Over HTTP, fsspec asks in two ways how large a file is.
    calls = 2 if (protocol, question) == ("http", "size") else 1
    assert max(store.asked.values()) == calls
    if fault is Fault.HANG:
        # The libraries' own patience is a minute and more.
        assert seconds < 20


COUNT = 60
CONTENTS = {f"db.db/t/{number}": bytes([number]) * 1_000 for number in range(COUNT)}
SMALL_OBJECTS = {f"w/{path}": content for path, content in CONTENTS.items()}
RANGES = [(path, 10, 500) for path in CONTENTS]
FOUND = [content[10:510] for content in CONTENTS.values()]


def opened_for(options: Mapping[str, object], **how: object) -> Warehouse:
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
        thread = threading.Thread(target=read, args=(opened_for(options, readers=readers),))
        thread.start()
        with store.hangs:
            assert store.hangs.wait_for(lambda: store.hanging >= hanging, PATIENT_SECONDS)
        cancellation.cancel()
        thread.join(PATIENT_SECONDS)
        assert not thread.is_alive()
    return ended


@pytest.mark.parametrize(
    ("store_calls", "memory", "calls"), [(None, None, COUNT), (3, None, 3), (None, 16 * 1_200, 2)]
)
def test_more_calls_are_under_way_than_there_are_threads_but_no_more_than_calls_and_memory_allow(
    store_calls: int | None, memory: int | None, calls: int, limit_memory: Callable[[int], None]
) -> None:
    store = Store(SMALL_OBJECTS, lambda _: Fault.HANG)
    readers = Readers(2) if store_calls is None else Readers(2, store_calls=store_calls)
    if memory is not None:
        limit_memory(memory)

    assert asked_until(store, calls, readers) == [RequestCancelledError]
    assert sorted(store.asked.values()) == [1] * calls


@pytest.mark.parametrize("fault", [Fault.SLOW_DOWN, Fault.RESET, Fault.CUT])
def test_what_fails_is_asked_for_again_by_itself(fault: Fault) -> None:
    draw, told = Random(7), Told()  # noqa: S311 - no secret
    store = Store(SMALL_OBJECTS, lambda _: fault if draw.random() < 0.2 else None)
    with store.serving() as options, observed_by(told):
        assert opened_for(options).read_ranges(RANGES) == FOUND
    assert store.asked.total() > COUNT * 1.1
    assert told.repeated == len(told.errors) == told.calls - COUNT


def test_the_first_attempt_counts() -> None:
    store, told = Store(SMALL_OBJECTS, lambda _: Fault.SLOW_DOWN), Told()
    with store.serving() as options, observed_by(told):
        (found,) = opened_for(options).read_ranges(RANGES[:1])
    assert isinstance(found, StorageError)
    assert "HTTP 503" in str(found)
    assert store.asked.total() == 4
    assert (told.calls, told.repeated) == (4, 3)


def test_each_range_has_an_error_of_its_own() -> None:
    store = Store({**SMALL_OBJECTS, "w/db.db/t/empty": b""}, lambda _: None)
    wanted = [RANGES[0], ("db.db/t/none", 0, 5), ("../up", 0, 5), ("db.db/t/empty", 0, 5), RANGES[1]]
    with store.serving() as options:
        first, missing, outside, empty, last = opened_for(options).read_ranges(wanted)
    assert [first, empty, last] == [FOUND[0], b"", FOUND[1]]
    assert isinstance(missing, FileMissingError)
    assert isinstance(outside, PathNotAllowedError)


def test_more_bytes_than_may_be_under_way_are_read_in_turn(limit_memory: Callable[[int], None]) -> None:
    """Each thread claims more than there is, and waits for the others, not for itself."""
    store, found = Store(SMALL_OBJECTS, lambda _: None), list[object]()
    limit_memory(1_000)
    with store.serving() as options:
        warehouse = opened_for(options, readers=Readers(2))
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
    store = Store(SMALL_OBJECTS, lambda _: None)
    with store.serving() as options:
        warehouse = opened_for(options, disk=DiskTier(str(tmp_path), 1 << 20))
        assert warehouse.read_ranges(RANGES[:20], immutable=True) == FOUND[:20]
        assert warehouse.read_ranges(RANGES, immutable=True) == FOUND
    assert store.asked == dict.fromkeys(SMALL_OBJECTS, 1)
