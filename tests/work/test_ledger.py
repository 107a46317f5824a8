"""Work claims its memory first; caches give way before claims are refused."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from app.errors import DeadlineExceededError, LimitExceededError, MemoryShortError, RequestCancelledError
from app.work import Cancellation, cancellable, time_limit
from app.work.ledger import Account, Ledger

PATIENCE_SECONDS = 60
LIMIT = 1000 << 20
MIB = 1 << 20


def account(limit: int = 100, *, waits: bool = True) -> Account:
    return Ledger().account("work", limit, waits=waits)


def test_claims_end_with_their_block() -> None:
    memory = account()

    with memory.claim(10) as claim:
        claim.grow_to(40)
        claim.grow_to(30)
        claim.grow_to(70)
        assert memory.claimed == 70

    assert memory.claimed == 0


def test_the_eldest_goes_over_the_limit_and_others_are_refused_when_their_time_is_nearly_up() -> None:
    memory = account()

    with memory.claim() as eldest, memory.claim() as other:
        other.grow_to(50)
        eldest.grow_to(200)
        with (
            time_limit(0.3),
            pytest.raises(MemoryShortError, match=r"51 bytes for work do not fit beside the 250 .* of 100"),
        ):
            other.grow_to(101)

    assert memory.claimed == 0


def test_who_does_not_wait_is_refused_at_once() -> None:
    memory = account(waits=False)

    with memory.claim(60), memory.claim(40) as other, pytest.raises(MemoryShortError, match="ask again"):
        other.grow_to(41)

    assert memory.claimed == 0


class Claiming:
    """Threads that each hold a claim until they are told to end."""

    def __init__(self, pool: ThreadPoolExecutor, memory: Account) -> None:
        self._pool = pool
        self._memory = memory
        self.granted: list[int] = []

    def begin(self, size: int, end: threading.Event) -> Future[None]:
        """Returns once the claim is granted, or waits in line."""
        known = threading.Event()

        def hold() -> None:
            known.set()
            with self._memory.claim(size):
                self.granted.append(size)
                assert end.wait(PATIENCE_SECONDS)

        holding = self._pool.submit(hold)
        assert known.wait(PATIENCE_SECONDS)
        return holding


def until(condition: Callable[[], bool]) -> None:
    waited = threading.Event()
    while not condition():
        waited.wait(0.001)


def test_a_large_claim_is_not_passed_over_by_smaller_ones() -> None:
    memory, first, rest = account(), threading.Event(), threading.Event()
    with ThreadPoolExecutor(3) as pool:
        claiming = Claiming(pool, memory)
        claiming.begin(60, first)
        until(lambda: memory.claimed == 60)
        claiming.begin(80, rest)
        until(lambda: memory.waiting == 1)
        claiming.begin(10, rest)
        until(lambda: memory.waiting == 2)
        assert claiming.granted == [60]
        first.set()
        rest.set()

    assert claiming.granted == [60, 80, 10]
    assert memory.claimed == 0


def test_claims_that_all_grow_come_to_their_end() -> None:
    """Each holds a part of what the others need, so that only going over the limit gets them on."""
    memory, together = account(), threading.Barrier(4, timeout=PATIENCE_SECONDS)

    def decode(_: int) -> None:
        with memory.claim() as claim:
            claim.grow_to(25)
            together.wait()
            for total in range(30, 100, 10):
                claim.grow_to(total)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(decode, range(4)))

    assert memory.claimed == 0


def test_all_but_the_eldest_stay_within_the_limit() -> None:
    memory, threads = account(1000), 8
    passed = list[int]()

    def work(thread: int) -> None:
        draw = random.Random(thread)  # noqa: S311 - no secret
        for _ in range(300):
            with memory.claim(draw.choice([0, 1, 50, 400, 1000, 1500])):
                if memory.claimed > 1000 + 1500:
                    passed.append(memory.claimed)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))

    assert (passed, memory.claimed) == ([], 0)


def test_waiting_ends_with_the_request() -> None:
    memory, cancellation = account(), Cancellation()

    with memory.claim(100), memory.claim() as other:
        with time_limit(0), pytest.raises(DeadlineExceededError):
            other.grow_to(1)
        threading.Timer(0.01, cancellation.cancel).start()
        with cancellable(cancellation), pytest.raises(RequestCancelledError):
            other.grow_to(1)


class Cache:
    def __init__(self, weight: int) -> None:
        self.weight = weight

    def shrink(self, weight: int) -> None:
        self.weight = min(self.weight, weight)


class Process:
    """A process whose memory is its caches and what else it holds."""

    def __init__(self, *caches: Cache, other: int) -> None:
        self.other = other
        self.caches = caches
        self.ledger = Ledger(lambda: self.other + sum(cache.weight for cache in caches))
        self.ledger.limit = LIMIT
        for cache in caches:
            self.ledger.add(cache)


def test_what_fits_is_granted() -> None:
    process = Process(Cache(100 * MIB), other=100 * MIB)

    process.ledger.require(600 * MIB, "a load")

    assert (process.caches[0].weight, process.ledger.shrinks) == (100 * MIB, 0)


def test_caches_shrink_above_the_mark() -> None:
    process = Process(Cache(400 * MIB), Cache(200 * MIB), other=280 * MIB)

    process.ledger.look()

    assert process.ledger.resident <= 0.8 * LIMIT
    assert all(cache.weight > 0 for cache in process.caches)


def test_caches_make_room_for_what_is_claimed() -> None:
    process = Process(Cache(600 * MIB), other=100 * MIB)

    with process.ledger.account("reads", LIMIT).claim(500 * MIB):
        assert process.ledger.resident + 500 * MIB <= 0.9 * LIMIT
        assert process.ledger.claimed == {"reads": 500 * MIB}


def test_what_does_not_fit_beside_others_is_refused() -> None:
    process = Process(Cache(50 * MIB), other=880 * MIB)

    reads = process.ledger.account("reads", LIMIT)
    with (
        reads.claim() as claim,
        pytest.raises(MemoryShortError, match=f"{100 * MIB} bytes for reads do not fit"),
    ):
        claim.grow_to(100 * MIB)

    assert process.ledger.refusals == 1


def test_what_can_never_fit_is_not_asked_to_come_again() -> None:
    ledger = Ledger(lambda: 0)
    ledger.limit = LIMIT

    with pytest.raises(LimitExceededError, match=f"{LIMIT} bytes for a file .*PAIMON_INDEX_MEMORY_BYTES"):
        ledger.require(LIMIT, "a file")


def elsewhere(work: Callable[[], object]) -> None:
    """Does another piece of work."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result(PATIENCE_SECONDS)


def test_claims_that_are_not_used_yet_count() -> None:
    process = Process(other=0)
    reads, decoding = (process.ledger.account(name, LIMIT) for name in ("reads", "decoding"))

    def decode(size: int) -> None:
        with time_limit(0.3), decoding.claim(size):
            pass

    with reads.claim(800 * MIB):
        elsewhere(lambda: decode(100 * MIB))
        with pytest.raises(MemoryShortError, match=f"{101 * MIB} bytes for decoding do not fit"):
            elsewhere(lambda: decode(101 * MIB))


def test_the_eldest_of_an_account_does_not_go_over_the_limit_of_the_process() -> None:
    process = Process(Cache(300 * MIB), other=0)
    process.ledger.own = 200 * MIB
    decoding = process.ledger.account("decoding", 100 * MIB)

    with decoding.claim() as eldest:
        for size in range(0, 700, 7):
            eldest.grow_to(size * MIB)
        with pytest.raises(LimitExceededError, match=r"bytes for decoding .*PAIMON_INDEX_MEMORY_BYTES"):
            eldest.grow_to(701 * MIB)

    assert process.caches[0].weight <= 7 * MIB


def test_work_that_holds_claims_does_not_wait_for_what_others_hold() -> None:
    process = Process(other=0)
    reads, decoding = (process.ledger.account(name, LIMIT) for name in ("reads", "decoding"))

    def work() -> None:
        with reads.claim(200 * MIB), decoding.claim(150 * MIB):
            pass

    with reads.claim(600 * MIB), pytest.raises(MemoryShortError, match="ask again"):
        elsewhere(work)


def test_nothing_is_refused_without_a_limit() -> None:
    process = Process(other=5000 * MIB)
    process.ledger.limit = 0

    process.ledger.require(1000 * MIB, "a load")


def test_what_is_gone_is_no_longer_counted() -> None:
    process = Process(other=0)
    process.ledger.add(Cache(100))
    process.ledger.account("reads", LIMIT)

    assert (process.ledger.cached, process.ledger.claimed) == (0, {})
