from collections.abc import Callable

import pytest

from app.errors import CorruptMetadataError, NotFoundError, RequestError, SnapshotExpiredError
from app.table import Catalog, ResolvedSnapshot, Table, TableReader
from app.table.manifests.live_files import live_rows
from app.table.schema.schema import SchemaIds
from app.table.storage import Storage
from tests.golden_cases import DATABASE
from tests.memory_storage import MemoryStorage
from tests.table.conftest import DIRECTORY, NAME

TableOf = Callable[[MemoryStorage], Table]


def live_files(table: Table, resolved: ResolvedSnapshot) -> list[str]:
    manifests = table.metadata.manifests(resolved)
    return [
        manifest.file_name(row)
        for manifest, rows in zip(manifests, live_rows(manifests), strict=True)
        for row in rows.tolist()
    ]


def test_a_resolved_version_stays_what_it_was(table: Table, storage: MemoryStorage) -> None:
    before = table.resolve()
    files = live_files(table, before)
    latest = f"{DIRECTORY}/snapshot/snapshot-8"
    storage.files[f"{DIRECTORY}/snapshot/snapshot-9"] = storage.files[latest].replace(
        b'"id" : 8', b'"id" : 9'
    )
    after = table.resolve()
    assert before.snapshot is not None
    assert after.snapshot is not None
    assert (before.snapshot.id, after.snapshot.id) == (8, 9)
    assert live_files(table, before) == files


class TestIdentity:
    def test_it_is_the_same_for_the_same_version(self, table: Table) -> None:
        assert table.resolve().identity == table.resolve().identity
        assert table.resolve(snapshot_id=8).identity == table.resolve().identity

    def test_it_differs_between_versions(self, table: Table) -> None:
        versions = [
            table.resolve(snapshot_id=7),
            table.resolve(),
            table.resolve(branch="dev"),
            table.resolve(tag="v2"),
        ]
        assert len({version.identity for version in versions}) == len(versions)

    def test_it_changes_when_a_number_is_given_again(self, table: Table, storage: MemoryStorage) -> None:
        before = table.resolve().identity
        path = f"{DIRECTORY}/snapshot/snapshot-8"
        storage.files[path] = storage.files[path].replace(b'"commitUser" : "', b'"commitUser" : "another ')
        assert table.resolve().identity != before

    def test_it_changes_when_the_table_is_made_anew(self, table: Table, storage: MemoryStorage) -> None:
        for path in list(storage.files):
            if "/schema/" not in path:
                del storage.files[path]
        before = table.resolve()
        assert before.snapshot is None
        path = f"{DIRECTORY}/schema/schema-0"
        storage.files[path] = storage.files[path].replace(b'"timeMillis" : 1', b'"timeMillis" : 2')
        assert table.resolve().identity != before.identity

    def test_warehouses_do_not_share(
        self, storage: MemoryStorage, reader_of: Callable[[Storage], TableReader]
    ) -> None:
        other = MemoryStorage(storage.files, name="other")
        identities = {
            Catalog(reader_of(each)).table(DATABASE, NAME).resolve().identity for each in (storage, other)
        }
        assert len(identities) == 2


class TestSchemas:
    @pytest.fixture
    def evolved(self, table: Table, storage: MemoryStorage) -> Table:
        path = f"{DIRECTORY}/schema/schema-0"
        newer = storage.files[path].replace(b'"id" : 0,', b'"id" : 1,', 1)
        storage.files[f"{DIRECTORY}/schema/schema-1"] = newer
        return table

    def test_the_latest_version_has_the_latest_schema(self, evolved: Table) -> None:
        assert evolved.resolve().schema.id == 1

    def test_an_older_version_has_its_own(self, evolved: Table) -> None:
        assert evolved.resolve(snapshot_id=8).schema.id == 0
        assert evolved.resolve(tag="v2").schema.id == 0
        assert evolved.resolve(timestamp_millis=1 << 60).schema.id == 0

    def test_a_later_page_asks_for_the_schemas_of_the_first(self, evolved: Table) -> None:
        assert evolved.resolve(schemas=SchemaIds(0, 1)).schema.ids == (0, 1)
        with pytest.raises(NotFoundError, match="no schema 7"):
            evolved.resolve(schemas=SchemaIds(7, 1))

    def test_schemas_of_files(self, evolved: Table) -> None:
        resolved = evolved.resolve()
        assert evolved.schema(resolved, 1) is resolved.schema
        assert evolved.schema(resolved, 0).id == 0
        with pytest.raises(SnapshotExpiredError):
            evolved.schema(resolved, 7)

    def test_a_file_under_the_wrong_number(self, evolved: Table, storage: MemoryStorage) -> None:
        storage.files[f"{DIRECTORY}/schema/schema-2"] = storage.files[f"{DIRECTORY}/schema/schema-0"]
        with pytest.raises(CorruptMetadataError, match="expected schema 2, found 0"):
            evolved.resolve()


class TestWhatIsNotThere:
    @pytest.mark.parametrize("database", ["none", "", "..", "a/b", "golden.db/../golden", "x\x00"])
    def test_databases(
        self, database: str, storage: MemoryStorage, reader_of: Callable[[Storage], TableReader]
    ) -> None:
        with pytest.raises(NotFoundError):
            Catalog(reader_of(storage)).tables(database)

    @pytest.mark.parametrize("name", ["none", "", "..", "a/b", "\n"])
    def test_tables(
        self, name: str, storage: MemoryStorage, reader_of: Callable[[Storage], TableReader]
    ) -> None:
        catalog = Catalog(reader_of(storage))
        for ask in (
            lambda: catalog.table(DATABASE, name).resolve(),
            lambda: catalog.table(DATABASE, name).tags(None, None, 1),
        ):
            with pytest.raises(NotFoundError, match="there is no table"):
                ask()

    @pytest.mark.parametrize("branch", ["none", "", "..", "a/b"])
    def test_branches(self, table: Table, branch: str) -> None:
        with pytest.raises(NotFoundError, match="there is no branch"):
            table.resolve(branch=branch)
        with pytest.raises(NotFoundError, match="there is no branch"):
            table.snapshots(branch, None, 1)

    def test_two_ways_at_once(self, table: Table) -> None:
        with pytest.raises(RequestError):
            table.resolve(snapshot_id=8, tag="v2")

    def test_a_directory_without_schema_is_no_table(
        self, storage: MemoryStorage, reader_of: Callable[[Storage], TableReader]
    ) -> None:
        storage.files[f"{DATABASE}.db/stray/file"] = b""
        assert Catalog(reader_of(storage)).tables(DATABASE) == [NAME]


def test_the_main_branch_has_a_name(table: Table) -> None:
    assert table.resolve(branch="main").identity == table.resolve().identity
