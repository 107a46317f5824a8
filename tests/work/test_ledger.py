"""Work claims its memory first; caches give way before claims are refused."""

import random
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import chain, repeat

import pytest

from app.errors import DeadlineExceededError, LimitExceededError, MemoryShortError, RequestCancelledError
from app.storage import Readers
from app.work import Cancellation, cancellable, time_limit
from app.work.ledger import LEDGER, Claim, Ledger, _Held

PATIENCE_SECONDS = 60
LIMIT = 1000 << 20
MIB = 1 << 20


def ledger_of(room: int) -> Ledger:
    """One of a process that may claim so much, and takes nothing else."""
    ledger = Ledger(lambda: 0)
    ledger.limit, ledger.own = 10 * room, 8 * room
    return ledger


def elsewhere(work: Callable[[], object]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result(PATIENCE_SECONDS)


def claim_elsewhere(ledger: Ledger, size: int, line: str = "") -> None:
    def work() -> None:
        with time_limit(0.3), ledger.claim("reads", size, line=line):
            pass

    elsewhere(work)


def test_claims_end_with_their_block() -> None:
    ledger = ledger_of(100)

    with ledger.claim("decoding", 10) as claim:
        claim.grow_to(40)
        claim.grow_to(30)
        claim.grow_to(70)
        assert ledger.claimed == {"decoding": 70}

    assert ledger.claimed == {"decoding": 0}


def test_who_holds_nothing_any_more_waits() -> None:
    """Threads of one piece of work claim side by side; what one of them holds ends while another asks."""
    looks: list[Callable[[], object]] = []

    def look() -> int:
        if looks:
            looks.pop(0)()
        return 0

    ledger = Ledger(look)
    ledger.limit = LIMIT
    other = Claim(ledger, "loads", "", "", None, _Held())
    other.grow_to(200 * MIB)
    with ledger.claim("loads") as first, ledger.claim("loads") as second:
        first.grow_to(MIB)
        looks += [lambda: ledger.end(first), lambda: None, lambda: ledger.end(other)]
        second.grow_to(200 * MIB)

        assert second.size == 200 * MIB


def test_what_is_begun_side_by_side_waits_for_memory_each(limit_memory: Callable[[int], None]) -> None:
    limit_memory(64 * MIB)
    readers, has_claimed, may_end = Readers(2, warehouse="w"), threading.Event(), threading.Event()

    def load() -> int:
        with LEDGER.claim("loads", 40 * MIB, line="w") as claim:
            has_claimed.set()
            assert may_end.wait(PATIENCE_SECONDS)
            return claim.size

    with closing(readers), LEDGER.claim("plans"):
        first = readers.begin(load)
        assert has_claimed.wait(PATIENCE_SECONDS)
        second = readers.begin(load)
        try:
            while not LEDGER.waiting:
                assert not second.done()
        finally:
            may_end.set()
        assert first.result(PATIENCE_SECONDS) == second.result(PATIENCE_SECONDS) == 40 * MIB


def test_who_has_claimed_nothing_waits_until_his_time_is_nearly_up() -> None:
    ledger = ledger_of(100)

    with ledger.claim("reads", 100):
        with pytest.raises(MemoryShortError, match="1 bytes for reads do not fit beside the 100 in use"):
            claim_elsewhere(ledger, 1)
        assert ledger.refusals == 1


def test_who_holds_a_claim_is_refused_at_once() -> None:
    ledger = ledger_of(100)

    def work() -> None:
        with ledger.claim("reads", 20, path="a file"), ledger.claim("decoding", path="a file") as decoding:
            decoding.grow_to(20)
            decoding.grow_to(21)

    # Without a deadline he would wait for good.
    with (
        ledger.claim("reads", 60, line="other"),
        pytest.raises(MemoryShortError, match="1 bytes for decoding of a file do not fit beside the 100"),
    ):
        elsewhere(work)

    assert ledger.claimed == {"reads": 0, "decoding": 0}


def test_bodies_are_refused_at_once_beyond_their_part() -> None:
    ledger = ledger_of(1000)

    with ledger.claim("bodies", most=100) as large:
        large.grow_to(200)
        with ledger.claim("bodies", most=100) as other, pytest.raises(MemoryShortError, match="ask again"):
            other.grow_to(1)
    with ledger.claim("bodies", 60, most=100), ledger.claim("bodies", most=100) as other:
        other.grow_to(40)
        with pytest.raises(MemoryShortError):
            other.grow_to(41)

    assert ledger.claimed == {"bodies": 0}


def test_what_is_made_of_a_body_does_not_wait_while_the_body_is_held() -> None:
    ledger = ledger_of(100)

    with ledger.claim("bodies", 10, most=100) as body:

        def parse(size: int) -> None:
            with body.owning(), ledger.claim("decoding", size):
                assert ledger.claimed == {"bodies": 10, "decoding": size}

        elsewhere(lambda: parse(90))
        with pytest.raises(
            LimitExceededError, match="91 bytes for decoding, beside 10 that its request holds,"
        ):
            elsewhere(lambda: parse(91))
        with ledger.claim("reads", 1, line="a"), pytest.raises(MemoryShortError):
            elsewhere(lambda: parse(90))


class Claiming:
    def __init__(self, pool: ThreadPoolExecutor, ledger: Ledger) -> None:
        self._pool = pool
        self._ledger = ledger
        self.granted: list[int] = []

    def begin(self, size: int, end: threading.Event) -> Future[None]:
        """Return once the claim is granted, or wait in line."""
        known = threading.Event()

        def hold() -> None:
            known.set()
            with self._ledger.claim("reads", size):
                self.granted.append(size)
                assert end.wait(PATIENCE_SECONDS)

        holding = self._pool.submit(hold)
        assert known.wait(PATIENCE_SECONDS)
        return holding


def until(condition: Callable[[], bool]) -> None:
    waited = threading.Event()
    while not condition():
        waited.wait(0.001)


def test_a_large_claim_is_not_passed_over_by_smaller_ones_of_its_line() -> None:
    ledger, first, second, rest = ledger_of(100), *(threading.Event() for _ in range(3))
    with ThreadPoolExecutor(3) as pool:
        claiming = Claiming(pool, ledger)
        claiming.begin(60, first)
        until(lambda: ledger.claimed == {"reads": 60})
        claiming.begin(80, second)
        until(lambda: ledger.waiting == 1)
        claiming.begin(10, rest)
        until(lambda: ledger.waiting == 2)
        claim_elsewhere(ledger, 10, line="another")
        first.set()
        until(lambda: claiming.granted == [60, 80])
        second.set()
        rest.set()

    assert claiming.granted == [60, 80, 10]
    assert ledger.claimed == {"reads": 0}


def test_the_first_of_a_line_may_take_all_and_others_leave_room_to_grow() -> None:
    ledger = ledger_of(1000)

    claim_elsewhere(ledger, 1000, line="a")
    with ledger.claim("reads", 200, line="a"):
        claim_elsewhere(ledger, 50, line="a")
        with pytest.raises(MemoryShortError):
            claim_elsewhere(ledger, 51, line="a")
        claim_elsewhere(ledger, 800, line="b")


def test_lines_that_hang_leave_room_for_others() -> None:
    """Each takes at most half of what those before it have left."""
    ledger, ends = ledger_of(64_000), threading.Event()
    lines = [f"line {number}" for number in range(4)]

    def hold(line: str) -> None:
        with ledger.claim("reads", 1_000, line=line):
            assert ends.wait(PATIENCE_SECONDS)

    def fill(holders: ThreadPoolExecutor, line: str) -> int:
        """How many claims a line gets until one has to wait."""
        for count in range(100):
            try:
                claim_elsewhere(ledger, 1_000, line)
            except MemoryShortError:
                return count
            before = sum(ledger.claimed.values())
            holders.submit(hold, line)
            until(lambda before=before: sum(ledger.claimed.values()) > before)  # type: ignore[misc]
        raise AssertionError(line)

    with ThreadPoolExecutor(100) as holders:
        counts = [fill(holders, line) for line in lines]
        ends.set()

    assert counts == [16, 8, 4, 2]


def test_all_stay_within_the_room() -> None:
    ledger, threads = ledger_of(1000), 8
    passed = list[int]()

    def work(thread: int) -> None:
        draw = random.Random(thread)  # noqa: S311 - no secret
        for _ in range(300):
            size = draw.choice([0, 1, 50, 400, 1000])
            with ledger.claim("reads", size, line=draw.choice("ab")) as claim:
                with suppress(MemoryShortError, LimitExceededError):
                    claim.grow_to(size + draw.choice([0, 10, 300]))
                passed.append(sum(ledger.claimed.values()))

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))

    assert 500 < max(passed) <= 1000
    assert ledger.claimed == {"reads": 0}


def test_waiting_ends_with_the_request() -> None:
    ledger, cancellation = ledger_of(100), Cancellation()

    def wait() -> None:
        with cancellable(cancellation), ledger.claim("reads", 1):
            pass

    with ledger.claim("reads", 100):
        threading.Timer(0.01, cancellation.cancel).start()
        with pytest.raises(RequestCancelledError):
            elsewhere(wait)

    def come_too_late() -> None:
        with time_limit(0), ledger.claim("reads", 1):
            pass

    with ledger.claim("reads", 100), pytest.raises(DeadlineExceededError):
        elsewhere(come_too_late)


class Cache:
    def __init__(self, weight: int, seconds_unused: float = 0) -> None:
        self.weight = weight
        self.seconds_unused = seconds_unused

    def shrink(self, weight: int, *, unused_seconds: float = 0) -> None:
        if self.seconds_unused >= unused_seconds:
            assert weight >= 0
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

    process.ledger.require("a load", 600 * MIB)

    assert (process.caches[0].weight, process.ledger.shrinks) == (100 * MIB, 0)


def test_caches_shrink_above_the_mark() -> None:
    process = Process(Cache(400 * MIB), Cache(200 * MIB), other=280 * MIB)

    process.ledger.look()

    assert process.ledger.resident <= 0.8 * LIMIT
    assert all(cache.weight > 0 for cache in process.caches)


def test_what_nobody_used_lately_gives_way_first() -> None:
    process = Process(Cache(400 * MIB), Cache(200 * MIB, seconds_unused=90), other=280 * MIB)

    process.ledger.look()

    assert process.ledger.resident <= 0.8 * LIMIT
    assert [cache.weight >> 20 for cache in process.caches] == [400, 80]


def test_a_cache_that_holds_less_than_has_to_go_is_emptied_before_others_shrink() -> None:
    process = Process(Cache(1 * MIB, seconds_unused=90), Cache(599 * MIB), other=0)

    with process.ledger.claim("reads", 500 * MIB):
        small, large = (cache.weight for cache in process.caches)
        assert small == 0 < large <= 400 * MIB


def test_caches_make_room_for_what_is_claimed() -> None:
    process = Process(Cache(600 * MIB), other=100 * MIB)

    with process.ledger.claim("reads", 500 * MIB):
        assert process.ledger.resident + 500 * MIB <= 0.9 * LIMIT
        assert process.ledger.claimed == {"reads": 500 * MIB}


def test_what_does_not_fit_beside_what_is_resident_is_refused() -> None:
    process = Process(Cache(50 * MIB), other=880 * MIB)

    with (
        time_limit(0.2),
        process.ledger.claim("reads") as claim,
        pytest.raises(MemoryShortError, match=f"{100 * MIB} bytes for reads do not fit"),
    ):
        claim.grow_to(100 * MIB)
    with pytest.raises(MemoryShortError, match="for a load do not fit"):
        process.ledger.require("a load", 50 * MIB)

    assert process.ledger.refusals == 2


def test_what_grows_in_small_steps_is_refused_beside_what_is_resident() -> None:
    process = Process(other=880 * MIB)

    def decode(claim: Claim) -> None:
        for size in range(2, 100):
            process.other += MIB
            claim.grow_to(size * MIB)

    with process.ledger.claim("decoding", 1 * MIB) as claim, pytest.raises(MemoryShortError):
        decode(claim)

    assert process.ledger.resident < 0.95 * LIMIT


def test_who_may_wait_does_so_while_the_process_is_short_of_memory() -> None:
    resident = chain(repeat(850 * MIB, 5), repeat(800 * MIB))
    ledger = Ledger(lambda: next(resident))
    ledger.limit = LIMIT

    with time_limit(PATIENCE_SECONDS), ledger.claim("reads", 100 * MIB):
        assert ledger.claimed["reads"] == 100 * MIB

    told = f"{101 * MIB} bytes for reads do not fit beside the {800 * MIB}"
    with pytest.raises(MemoryShortError, match=told), time_limit(0.1), ledger.claim("reads", 101 * MIB):
        pass
    assert not ledger.waiting


def test_what_can_never_fit_is_told_so_with_its_file() -> None:
    process = Process(other=0)
    process.ledger.own = 200 * MIB

    with process.ledger.claim("decoding", path="m-1") as claim:
        for size in range(0, 700, 7):
            claim.grow_to(size * MIB)
        with pytest.raises(LimitExceededError, match=r"for decoding of m-1 .*PAIMON_INDEX_MEMORY_BYTES"):
            claim.grow_to(701 * MIB)
    with (
        process.ledger.claim("reads", 600 * MIB, path="m-1"),
        pytest.raises(
            LimitExceededError, match=f"{101 * MIB} bytes for decoding of m-1, beside {600 * MIB} "
        ),
        process.ledger.claim("decoding", 101 * MIB, path="m-1"),
    ):
        pass


def test_claims_that_are_not_used_yet_count() -> None:
    process = Process(other=0)

    with process.ledger.claim("reads", 800 * MIB):
        claim_elsewhere(process.ledger, 100 * MIB, line="another")
        with pytest.raises(MemoryShortError, match=f"{101 * MIB} bytes for reads do not fit"):
            claim_elsewhere(process.ledger, 101 * MIB, line="another")


def test_nothing_is_refused_without_a_limit() -> None:
    process = Process(other=5000 * MIB)
    process.ledger.limit = 0

    process.ledger.require("a load", 1000 * MIB)
    with process.ledger.claim("reads", 1000 * MIB) as claim:
        claim.grow_to(5000 * MIB)


def test_what_is_gone_is_no_longer_counted() -> None:
    process = Process(other=0)
    process.ledger.add(Cache(100))

    assert process.ledger.cached == 0


class Owner:
    """What a claim is left to."""


class Dropping:
    """A cache that another thread drops an owner from while it gives way."""

    def __init__(self, *owners: Owner) -> None:
        self._owners = list(owners)
        self.weight = 100

    def shrink(self, weight: int, *, unused_seconds: float = 0) -> None:  # noqa: ARG002 - as a cache has it
        dropping = threading.Thread(target=self._owners.clear, daemon=True)
        dropping.start()
        dropping.join(PATIENCE_SECONDS / 20)
        assert not dropping.is_alive()
        self.weight = weight


def test_an_owner_is_forgotten_without_waiting_for_the_ledger() -> None:
    ledger = ledger_of(100)
    with ledger.claim("plans", 10, line="a") as claim:
        cache = Dropping(owner := Owner())
        claim.outlive(owner)
    del owner
    ledger.add(cache)
    before = ledger.claimed

    with ledger.claim("reads", 20, line="b"):
        after = ledger.claimed

    assert (before, after) == ({"plans": 10}, {"plans": 0, "reads": 20})
