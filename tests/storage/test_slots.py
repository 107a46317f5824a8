"""Threads that compute hold slots; threads that wait lend them."""

from __future__ import annotations

import threading

from app.storage.cache import ByteCache
from app.storage.ledger import LEDGER
from app.storage.slots import Slots, waiting

PATIENCE_SECONDS = 20


def test_a_slot_is_free_while_its_thread_waits() -> None:
    slots, entered, leave = Slots(1), threading.Event(), threading.Event()

    def wait_for_storage() -> None:
        with slots.computing(), waiting():
            entered.set()
            assert leave.wait(PATIENCE_SECONDS)

    thread = threading.Thread(target=wait_for_storage)
    thread.start()
    assert entered.wait(PATIENCE_SECONDS)
    with slots.computing():
        leave.set()
    thread.join(PATIENCE_SECONDS)

    assert not thread.is_alive()


def test_threads_that_wait_for_room_in_a_cache_do_not_keep_the_one_that_has_it_from_ending() -> None:
    slots = Slots(1)
    cache: ByteCache[bytes] = ByteCache("test", 800, len)
    account = LEDGER.account("loads", 100)
    begun, asked = threading.Event(), threading.Event()
    loaded = []

    def load_slowly() -> bytes:
        with waiting():
            begun.set()
            assert asked.wait(PATIENCE_SECONDS)
        return bytes(100)

    def load_at_once() -> bytes:
        return bytes(100)

    def ask_first() -> None:
        with slots.computing():
            loaded.append(cache.get_or_load("first", load_slowly, expected_bytes=100, account=account))

    def ask_second() -> None:
        with slots.computing():
            asked.set()
            loaded.append(cache.get_or_load("second", load_at_once, expected_bytes=100, account=account))

    one, other = threading.Thread(target=ask_first), threading.Thread(target=ask_second)
    one.start()
    assert begun.wait(PATIENCE_SECONDS)
    other.start()
    for thread in (one, other):
        thread.join(PATIENCE_SECONDS)

    assert loaded == [bytes(100), bytes(100)]


def test_a_thread_without_a_slot_lends_none() -> None:
    with waiting():
        pass


def test_who_has_computed_before_goes_first_and_then_the_newest() -> None:
    slots, begun, order = Slots(1), threading.Event(), list[str]()

    def compute(name: str, *, is_begun: bool = False) -> None:
        with slots.computing(is_begun=is_begun):
            order.append(name)

    def wait_and_go_on() -> None:
        with slots.computing():
            with waiting():
                begun.set()
                assert in_line.wait(PATIENCE_SECONDS)
            order.append("resumed")

    in_line = threading.Event()
    threads = [threading.Thread(target=wait_and_go_on)]
    threads[0].start()
    assert begun.wait(PATIENCE_SECONDS)
    with slots.computing():
        for name in ("older", "newer"):
            threads.append(threading.Thread(target=compute, args=(name,)))
            threads[-1].start()
            while slots.waiting < len(threads) - 1:
                pass
        in_line.set()
        while slots.waiting < len(threads):
            pass
    for thread in threads:
        thread.join(PATIENCE_SECONDS)

    assert order == ["resumed", "newer", "older"]
