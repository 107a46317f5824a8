"""Versions are found with what was seen before as without it, and then in one round trip."""

import json
from collections.abc import Callable
from threading import Barrier
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from app.errors import FileMissingError, PaimonIndexError
from app.table import Catalog, Table, TableReader
from app.table.schema.schema import SchemaIds
from app.table.storage import Storage
from tests.examples import examples
from tests.memory_storage import MemoryStorage
from tests.table.test_references import snapshot_file

ReaderOf = Callable[[Storage], TableReader]

DIRECTORY = "d.db/t"


class Store(MemoryStorage):
    """A table whose metadata changes as writers change it."""

    def __init__(self) -> None:
        super().__init__()
        self.lists: list[str] = []
        self.made = 0
        self.create()

    def list_names(self, directory: str) -> list[str]:
        self.lists.append(directory)
        return super().list_names(directory)

    def numbers(self, kind: str) -> list[int]:
        names = super().list_names(f"{DIRECTORY}/{kind}")
        return sorted(int(name.rpartition("-")[2]) for name in names if name != "LATEST")

    def create(self) -> None:
        self.files.clear()
        self.made += 1
        self.put_schema(0)

    def put_schema(self, number: int) -> None:
        fields = [{"id": 0, "name": f"c{self.made}", "type": "INT"}]
        members = {"version": 3, "id": number, "fields": fields, "highestFieldId": 0, "timeMillis": self.made}
        document = {**members, "partitionKeys": [], "primaryKeys": [], "options": {}}
        self.files[f"{DIRECTORY}/schema/schema-{number}"] = json.dumps(document).encode()

    def alter(self) -> None:
        self.made += 1
        self.put_schema(self.numbers("schema")[-1] + 1)

    def commit(self, *, hint: bool = True) -> None:
        self.made += 1
        number = max(self.numbers("snapshot"), default=0) + 1
        content = snapshot_file(number, schemaId=self.numbers("schema")[-1], commitUser=str(self.made))
        self.files[f"{DIRECTORY}/snapshot/snapshot-{number}"] = content
        if hint:
            self.hint(number)

    def hint(self, number: int) -> None:
        self.files[f"{DIRECTORY}/snapshot/LATEST"] = str(number).encode()

    def roll_back(self) -> None:
        *_, to, last = [1, *self.numbers("snapshot")] if len(self.numbers("snapshot")) > 1 else [0, 0, 0]
        if to:
            del self.files[f"{DIRECTORY}/snapshot/snapshot-{last}"]
            self.hint(to)

    def expire(self) -> None:
        if len(numbers := self.numbers("snapshot")) > 1:
            del self.files[f"{DIRECTORY}/snapshot/snapshot-{numbers[0]}"]

    def lose_hint(self) -> None:
        self.files.pop(f"{DIRECTORY}/snapshot/LATEST", None)

    def stale_hint(self) -> None:
        self.commit(hint=False)

    def tag(self) -> None:
        if numbers := self.numbers("snapshot"):
            self.files[f"{DIRECTORY}/tag/tag-a"] = self.files[f"{DIRECTORY}/snapshot/snapshot-{numbers[-1]}"]


class FarStore(MemoryStorage):
    """The same files, in a store."""

    is_local = False

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.files = store.files


class RoundTrips(FarStore):
    """A store that answers once as many calls as are expected were made side by side."""

    def __init__(self, store: Store, *expected: int) -> None:
        super().__init__(store)
        self._turns = iter([each for count in expected for each in [Barrier(count, timeout=10)] * count])

    def read(self, path: str) -> bytes:
        next(self._turns).wait()
        return super().read(path)

    def list_names(self, directory: str) -> list[str]:
        next(self._turns).wait()
        return super().list_names(directory)

    def exists(self, path: str) -> bool:
        """As libraries of object stores find out: a directory is no object."""
        try:
            self.read(path)
        except FileMissingError:
            return bool(self.list_names(path))
        return True


CHANGES = ("create", "alter", "commit", "roll_back", "expire", "lose_hint", "stale_hint", "tag")


def outcome(table: Table, **asked: Any) -> tuple[object, ...]:
    try:
        found = table.resolve(**asked)
    except PaimonIndexError as error:
        return type(error), str(error)
    return found.identity, found.schema.id, None if found.snapshot is None else found.snapshot.id


@pytest.fixture
def store() -> Store:
    return Store()


@examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.lists(st.sampled_from(CHANGES), max_size=3), max_size=8))
def test_what_was_seen_before_changes_no_answer(changes: list[list[str]], reader_of: ReaderOf) -> None:
    store = Store()
    table = Catalog(reader_of(store)).table("d", "t")
    for together in changes:
        for change in together:
            getattr(store, change)()
        for asked in (
            {},
            {"snapshot_id": 1},
            {"snapshot_id": 2},
            {"tag": "a"},
            {"snapshot_id": 1, "schemas": SchemaIds(1, 0)},
            {"snapshot_id": 1, "schemas": SchemaIds(0, 1)},
        ):
            for other in (store, FarStore(store)):
                another = Catalog(reader_of(other)).table("d", "t")
                assert outcome(table, **asked) == outcome(another, **asked)


@pytest.mark.parametrize(
    ("asked", "read"),
    [
        (
            {},
            {
                "snapshot/LATEST",
                "snapshot/snapshot-2",
                "snapshot/snapshot-3",
                "schema/schema-1",
                "schema/schema-2",
            },
        ),
        ({"snapshot_id": 2}, {"snapshot/snapshot-2", "schema/schema-1", "schema/schema-2"}),
        (
            {"snapshot_id": 1},
            {"snapshot/snapshot-1", "schema/schema-0", "schema/schema-1", "schema/schema-2"},
        ),
        ({"tag": "a"}, {"tag/tag-a", "schema/schema-1", "schema/schema-2"}),
        (
            {"snapshot_id": 2, "schemas": SchemaIds(0, 1)},
            {"snapshot/snapshot-2", "schema/schema-0", "schema/schema-1"},
        ),
    ],
)
def test_everything_is_read_ahead(
    store: Store, reader_of: ReaderOf, asked: dict[str, Any], read: set[str]
) -> None:
    store.commit()
    store.alter()
    store.commit()
    store.tag()
    table = Catalog(reader_of(store)).table("d", "t")
    table.resolve(**asked)
    store.reads.clear()
    store.lists.clear()

    table.resolve(**asked)

    assert sorted(store.reads) == sorted(f"{DIRECTORY}/{each}" for each in read)
    assert not store.lists


def test_the_first_look_at_a_table_in_a_store_takes_two_round_trips(
    store: Store, reader_of: ReaderOf
) -> None:
    store.commit()
    store.alter()
    store.commit()

    found = Catalog(reader_of(RoundTrips(store, 2, 5))).table("d", "t").resolve()

    assert (found.schema.id, found.snapshot and found.snapshot.id) == (1, 2)


@pytest.mark.parametrize(
    ("snapshots", "round_trips"), [(10, (1, 10, 1, 1)), (16, (1, 15, 1, 1)), (100, (1, 16, 5, 1, 1))]
)
def test_a_point_in_time_is_found_by_reading_side_by_side(
    store: Store, reader_of: ReaderOf, snapshots: int, round_trips: tuple[int, ...]
) -> None:
    for _ in range(snapshots):
        store.commit()
    table = Catalog(reader_of(RoundTrips(store, *round_trips))).table("d", "t")

    # Snapshots of these tests have one hundred milliseconds for themselves.
    found = table.resolve(timestamp_millis=799)

    assert found.snapshot is not None
    assert found.snapshot.id == 7


def test_listings_take_two_round_trips(store: Store, reader_of: ReaderOf) -> None:
    for _ in range(3):
        store.commit()
    store.tag()
    store.files |= {f"d.db/{name}/schema/schema-0": b"" for name in ("u", "v")}

    def far(*round_trips: int) -> Catalog:
        return Catalog(reader_of(RoundTrips(store, *round_trips)))

    assert list(far(2, 3).table("d", "t").snapshots(None, None, 9).entries) == [1, 2, 3]
    assert list(far(2, 1).table("d", "t").tags(None, None, 9).entries) == ["a"]
    assert far(2).table("d", "t").branches() == []
    assert far(1, 3).tables("d") == ["t", "u", "v"]


def test_a_commit_is_found_without_a_listing(store: Store, reader_of: ReaderOf) -> None:
    store.commit()
    table = Catalog(reader_of(store)).table("d", "t")
    table.resolve()
    store.alter()
    store.commit()
    store.lists.clear()

    assert outcome(table)[1:] == (1, 2)
    assert not store.lists


HOUR = 3_600_000


@pytest.fixture
def written_store() -> Store:
    written_store = Store()
    written_store.commit()
    return written_store


@pytest.fixture
def table(written_store: Store, reader_of: ReaderOf) -> Table:
    return Catalog(reader_of(written_store)).table("d", "t")


def number(table: Table, max_staleness_ms: int = 0) -> int | None:
    snapshot = table.resolve(max_staleness_ms=max_staleness_ms).snapshot
    return None if snapshot is None else snapshot.id


def test_storage_is_asked_again_only_for_what_is_too_old(written_store: Store, table: Table) -> None:
    assert number(table, HOUR) == 1
    written_store.commit()
    written_store.reads.clear()

    assert number(table, HOUR) == 1
    assert not written_store.reads
    assert number(table) == 2
    assert number(table, HOUR) == 2


def test_versions_by_name_are_looked_for(written_store: Store, table: Table) -> None:
    number(table, HOUR)
    written_store.create()
    written_store.commit()

    assert table.resolve(snapshot_id=1, max_staleness_ms=HOUR) != table.resolve(max_staleness_ms=HOUR)


def test_a_version_that_went_away_is_forgotten(written_store: Store, table: Table) -> None:
    found = table.resolve(max_staleness_ms=HOUR)
    written_store.commit()
    table.forget_newest(found)

    assert number(table, HOUR) == 2


def test_an_answer_tells_its_age(table: Table) -> None:
    found = table.resolve(max_staleness_ms=HOUR)
    later = table.resolve(max_staleness_ms=HOUR)

    assert later is found
    assert 0 <= found.age_ms < HOUR
