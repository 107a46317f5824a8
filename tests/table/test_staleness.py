"""The latest version of a moment ago, for callers who are content with it."""

from __future__ import annotations

import pytest

from app.table.table import Catalog, Table
from tests.table.test_resolution import ReaderOf, Store

HOUR = 3_600_000


@pytest.fixture
def store() -> Store:
    store = Store()
    store.commit()
    return store


@pytest.fixture
def table(store: Store, reader_of: ReaderOf) -> Table:
    return Catalog(reader_of(store)).table("d", "t")


def number(table: Table, max_staleness_ms: int = 0) -> int | None:
    snapshot = table.resolve(max_staleness_ms=max_staleness_ms).snapshot
    return None if snapshot is None else snapshot.id


def test_storage_is_asked_again_only_for_what_is_too_old(store: Store, table: Table) -> None:
    assert number(table, HOUR) == 1
    store.commit()
    store.reads.clear()

    assert number(table, HOUR) == 1
    assert not store.reads
    assert number(table) == 2
    assert number(table, HOUR) == 2


def test_versions_by_name_are_looked_for(store: Store, table: Table) -> None:
    number(table, HOUR)
    store.create()
    store.commit()

    assert table.resolve(snapshot_id=1, max_staleness_ms=HOUR) != table.resolve(max_staleness_ms=HOUR)


def test_a_version_that_went_away_is_forgotten(store: Store, table: Table) -> None:
    found = table.resolve(max_staleness_ms=HOUR)
    store.commit()
    table.forget_newest(found)

    assert number(table, HOUR) == 2


def test_an_answer_tells_its_age(table: Table) -> None:
    found = table.resolve(max_staleness_ms=HOUR)
    later = table.resolve(max_staleness_ms=HOUR)

    assert later is found
    assert 0 <= found.age_ms < HOUR
