"""Threads that compute take turns, warehouse by warehouse."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from app.errors import DeadlineExceededError
from app.work import check_deadline, time_limit
from app.work.cores import TURN_SECONDS, Cores, waiting

PATIENCE_SECONDS = 20


@contextmanager
def thread_of(work: Callable[[], object]) -> Iterator[threading.Thread]:
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield thread
    finally:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


def compute(until: Callable[[], bool]) -> None:
    """Compute as work does: with a look at its deadline now and then."""
    with time_limit(PATIENCE_SECONDS):
        while not until():
            check_deadline()


def test_a_core_is_free_while_its_thread_waits() -> None:
    cores, entered, leave = Cores(1), threading.Event(), threading.Event()

    def wait_for_storage() -> None:
        with cores.computing(), waiting():
            entered.set()
            assert leave.wait(PATIENCE_SECONDS)

    with thread_of(wait_for_storage):
        assert entered.wait(PATIENCE_SECONDS)
        with cores.computing():
            leave.set()


def test_a_warehouse_of_which_nothing_computes_goes_on_at_once() -> None:
    cores, answered = Cores(1), threading.Event()

    def cheap() -> None:
        with cores.computing("b"):
            answered.set()

    with cores.computing("a"), thread_of(cheap):
        assert answered.wait(PATIENCE_SECONDS)


def test_a_warehouse_that_computes_gives_way_to_another_at_its_next_look() -> None:
    cores, computing, answered = Cores(1, most=1), threading.Event(), threading.Event()

    def dear() -> None:
        with cores.computing("a"):
            computing.set()
            compute(answered.is_set)

    def cheap() -> None:
        with cores.computing("b"):
            answered.set()

    with thread_of(dear):
        assert computing.wait(PATIENCE_SECONDS)
        with thread_of(cheap):
            assert answered.wait(PATIENCE_SECONDS)


def test_many_threads_of_one_warehouse_get_no_more_than_another_alone() -> None:
    cores, end = Cores(1, most=1), threading.Event()
    seconds: list[float] = []

    def many() -> None:
        with cores.computing("a"):
            since = time.thread_time()
            compute(end.is_set)
            seconds.append(time.thread_time() - since)

    def one() -> None:
        with cores.computing("b"):
            since = time.thread_time()
            compute(lambda: time.thread_time() - since > 20 * TURN_SECONDS)
            end.set()

    threads = [threading.Thread(target=work) for work in (*[many] * 8, one)]
    with cores.computing("a"):
        for thread in threads:
            thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)

    # As much as the other computed, and turns that had begun; a fair share of threads were eight times it.
    assert sum(seconds) < 40 * TURN_SECONDS


def test_a_warehouse_alone_keeps_its_core() -> None:
    cores, orders = Cores(1), []

    def second() -> None:
        with cores.computing("a"):
            orders.append("second")

    with cores.computing("a"), thread_of(second) as thread:
        began = time.monotonic()
        compute(lambda: cores.waiting == 1 and time.monotonic() - began > 2 * TURN_SECONDS)
        orders.append("first")
        assert thread.is_alive()
        with waiting():
            thread.join(PATIENCE_SECONDS)

    assert orders == ["first", "second"]


def test_of_one_warehouse_those_who_have_begun_go_before_the_newest_who_begin() -> None:
    cores, order = Cores(1), []

    def enter(name: str, *, is_begun: bool) -> None:
        with cores.computing("a", is_begun=is_begun):
            order.append(name)

    threads = []
    with cores.computing("a"):
        for name, is_begun in (("older", False), ("newer", False), ("begun", True)):
            thread = threading.Thread(target=enter, args=(name,), kwargs={"is_begun": is_begun})
            before = cores.waiting
            thread.start()
            threads.append(thread)
            compute(lambda before=before: cores.waiting > before)  # type: ignore[misc]
    for thread in threads:
        thread.join(PATIENCE_SECONDS)

    assert order == ["begun", "newer", "older"]


def test_a_thread_whose_time_is_up_gives_its_core_back() -> None:
    cores = Cores(1)
    with pytest.raises(DeadlineExceededError), time_limit(0), cores.computing("a"):
        check_deadline()
    with cores.computing("b"):
        assert cores.waiting == 0
