"""Watched tables are followed: what is new is decoded once, and what fails is tried again, less and less."""

import logging
from collections.abc import Iterator

import pytest

from app.planning.request.requests import TableRef
from app.planning.service import IndexService
from app.planning.watch import Watch
from tests.copied_tables import FIRST_SNAPSHOT, GROWING, GrowingTable
from tests.tables import golden_ref, open_service

SECONDS = 10.0
REF = golden_ref(GROWING)


class Clock:
    """A time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        """Let a little more than this pass, so that nothing hangs on a rounding."""
        self.now += seconds + 0.001


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def service(growing: GrowingTable) -> Iterator[IndexService]:
    opened = open_service(growing.warehouse)
    yield opened
    opened.close()


@pytest.fixture
def watch(service: IndexService, clock: Clock) -> Watch:
    return Watch(service, [REF], SECONDS, clock)


def misses(service: IndexService) -> int:
    return sum(cache["misses"] for cache in service.caches.statistics().values())


def test_a_version_is_decoded_once(watch: Watch, service: IndexService, clock: Clock) -> None:
    clock.wait(watch.look("golden"))
    loaded = misses(service)
    (watched,) = watch.tables()
    watch.look("golden")

    assert (watched.snapshot_id, watched.failures) == (FIRST_SNAPSHOT, 0)
    assert loaded > 0
    assert misses(service) == loaded


def test_what_is_new_is_decoded(
    watch: Watch, service: IndexService, clock: Clock, growing: GrowingTable
) -> None:
    clock.wait(watch.look("golden"))
    growing.commit(FIRST_SNAPSHOT + 1)
    loaded = misses(service)
    watch.look("golden")

    assert watch.tables()[0].snapshot_id == FIRST_SNAPSHOT + 1
    assert misses(service) > loaded


def test_a_table_is_looked_at_when_it_is_due(watch: Watch, clock: Clock, growing: GrowingTable) -> None:
    pause = watch.look("golden")
    growing.commit(FIRST_SNAPSHOT + 1)
    clock.wait(pause / 2)
    left = watch.look("golden")
    before = watch.tables()[0].snapshot_id
    clock.wait(left)
    watch.look("golden")

    assert SECONDS / 2 <= pause <= SECONDS
    assert (before, watch.tables()[0].snapshot_id) == (FIRST_SNAPSHOT, FIRST_SNAPSHOT + 1)


def test_what_was_dropped_from_the_caches_is_not_decoded_again(
    watch: Watch, service: IndexService, clock: Clock
) -> None:
    clock.wait(watch.look("golden"))
    service.caches.clear()
    watch.look("golden")

    assert service.caches.statistics()["manifests"]["entries"] == 0


def test_a_table_that_does_not_exist_is_waited_for(
    service: IndexService, clock: Clock, growing: GrowingTable, caplog: pytest.LogCaptureFixture
) -> None:
    watch = Watch(service, [TableRef("golden", "golden", "later")], SECONDS, clock)
    clock.wait(watch.look("golden"))
    (missing,) = watch.tables()
    growing.directory.rename(growing.directory.parent / "later")
    watch.look("golden")

    assert (missing.snapshot_id, missing.failures) == (None, 0)
    assert watch.tables()[0].snapshot_id == FIRST_SNAPSHOT
    assert not caplog.records


def test_a_failing_table_is_logged_once_and_tried_less_often_until_it_recovers(
    watch: Watch, clock: Clock, growing: GrowingTable, caplog: pytest.LogCaptureFixture
) -> None:
    snapshot = growing.directory / "snapshot" / f"snapshot-{FIRST_SNAPSHOT}"
    content = snapshot.read_bytes()
    snapshot.write_bytes(content[:20])
    pauses = []
    with caplog.at_level(logging.INFO, "paimon_index"):
        for _ in range(8):
            pauses.append(watch.look("golden"))
            clock.wait(pauses[-1])
        failed, logged = watch.tables()[0], list(caplog.messages)
        snapshot.write_bytes(content)
        clock.wait(watch.look("golden"))
        recovered = watch.tables()[0]

    assert (failed.snapshot_id, failed.failures) == (None, 8)
    assert len(logged) == 1
    assert f"golden.golden.{GROWING} cannot be read" in logged[0]
    for failures, pause in enumerate(pauses, start=1):
        longest = SECONDS * min(2**failures, 32)
        assert longest / 2 <= pause <= longest
    assert (recovered.snapshot_id, recovered.failures) == (FIRST_SNAPSHOT, 0)
    assert len(caplog.messages) == 2
    assert "can be read again" in caplog.messages[1]


def test_a_failing_table_does_not_hold_up_the_others(
    service: IndexService, clock: Clock, growing: GrowingTable
) -> None:
    broken = growing.directory.parent / "broken"
    (broken / "schema").mkdir(parents=True)
    (broken / "schema" / "schema-0").write_text("{")
    watch = Watch(service, [golden_ref("broken"), REF], SECONDS, clock)
    watch.look("golden")

    assert [(each.snapshot_id, each.failures) for each in watch.tables()] == [(None, 1), (FIRST_SNAPSHOT, 0)]


@pytest.mark.parametrize("name", [GROWING, "broken", "later"])
def test_it_is_warm_once_every_table_was_read_or_cannot_be(
    service: IndexService, clock: Clock, growing: GrowingTable, name: str
) -> None:
    broken = growing.directory.parent / "broken"
    (broken / "schema").mkdir(parents=True)
    (broken / "schema" / "schema-0").write_text("{")
    watch = Watch(service, [golden_ref(name)], SECONDS, clock)
    before = watch.is_warm
    watch.look("golden")

    assert (before, watch.is_warm) == (False, True)


def test_a_table_that_takes_long_is_not_waited_for(watch: Watch, clock: Clock) -> None:
    clock.wait(29)
    before = watch.is_warm
    clock.wait(1)

    assert (before, watch.is_warm) == (False, True)


def test_a_watch_that_was_stopped_looks_no_more(watch: Watch) -> None:
    watch.start()
    watch.stop()
    before = watch.tables()

    watch.look("golden")

    assert watch.tables() == before


def test_a_watch_of_nothing_starts_and_stops(service: IndexService) -> None:
    watch = Watch(service, [], SECONDS)
    watch.start()
    watch.stop()

    assert watch.tables() == []
    assert watch.is_warm
