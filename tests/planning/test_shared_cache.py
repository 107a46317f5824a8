"""Services that share what they decode through a store: a new one is warm, and no answer depends on it."""

import json
import re
import shutil
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from threading import Barrier
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
import xxhash

from app.errors import StorageError
from app.file_index import container
from app.file_index.bloom_filter import bloom_filter
from app.file_index.index_kinds import BLOOM_FILTER
from app.planning.request.limits import CacheBytes, Limits
from app.planning.request.requests import PlanRequest, SnapshotSelector, TableRef
from app.planning.service import IndexService
from app.storage import RetryPolicy, Warehouse
from app.storage.disk import disk_tier
from app.storage.disk.disk_tier import DiskTier
from app.storage.range_reading import RangeReader
from app.storage.shared_tier import SharedCacheState, SharedTier
from app.work import LEDGER
from benchmarks.events import CAT, DATABASE, ID, TABLE, Layout
from benchmarks.index_bodies import keys_of
from benchmarks.services import KEYS, KEYS_BESIDE
from benchmarks.synthetic import write_table
from tests.examples import share
from tests.faulty_store import BUCKET, Fault, Store
from tests.golden_cases import GoldenWarehouse, expected
from tests.storage.disk.damaged_entries import invert, replace_entries
from tests.tables import golden_ref, names_of, open_service

KEY = b"0123456789abcdef"
FILES, MANIFESTS = 64, 4
EVENTS = TableRef("golden", DATABASE, TABLE)
FILTERS = ["id = 5", "id IN (7, 100000)", "id = 5 OR day = DATE '2024-01-01'", "cat = 3"]
DIGESTS = {3: ["ebe25c57df488c69", "a28b287b26ac4d0d"]}
"""Of layouts of entries, by format: of tables with indexes beside and embedded."""
VALUES = {3: "f6a30f365a070dba"}
"""Of what is in the entries of :data:`PLAIN`, by format."""
PLAIN = ("append_sidecar", ["valid", "rank_no = 5", "fee = 58.43", "session_no = 7"])
"""A golden table, and filters that each ask for one index of a file, since several lie there in any order."""
TABLES = ("append_sidecar", "append_dv64", "pk_dv", "all_types_orc", "dyn_bucket")


def tier(url: str, key: bytes = KEY, **options: Any) -> SharedTier:
    store = Warehouse("shared", url, retry=RetryPolicy(attempts=1), **options)
    return SharedTier(store, key)


class Fleet:
    """A table, and services that come one after the other and share a directory."""

    def __init__(self, directory: Path) -> None:
        self.warehouse, self.shared = directory / "warehouse", directory / "shared"
        self.table = self.warehouse / f"{DATABASE}.db" / TABLE

    @contextmanager
    def service(self, shared: SharedTier | None = None, disk: Path | None = None) -> Iterator[IndexService]:
        opened = shared or tier(str(self.shared))
        kept = None if disk is None else DiskTier(disk, 1 << 30)
        with closing(open_service(self.warehouse, shared=opened, disk=kept)) as service:
            yield service
            opened.flush()

    def plans(self, service: IndexService, *filters: str) -> list[list[str]]:
        plans = [service.plan(EVENTS, PlanRequest(filter=each)) for each in filters or FILTERS]
        assert not [warning for plan in plans for warning in plan.warnings]
        return [names_of(plan.files) for plan in plans]

    def without(self) -> list[list[str]]:
        with closing(open_service(self.warehouse)) as service:
            return self.plans(service)

    def fill(self) -> None:
        with self.service() as service:
            self.plans(service)

    def lose_files(self) -> None:
        """Nothing is left of index files, and nothing of manifests."""
        for path in (*self.table.rglob("*.index"), *self.table.glob("manifest/manifest-[0-9]*")):
            path.unlink()


def told(service: IndexService) -> SharedCacheState:
    return SharedCacheState(**service.caches.statistics()["shared"])


Write: TypeAlias = Callable[[Layout, int, int], Path]
MakeFleet: TypeAlias = Callable[..., Fleet]


@pytest.fixture(scope="session")
def write_once(tmp_path_factory: pytest.TempPathFactory) -> Write:
    """Write a table of each kind once, which nobody else writes to."""

    @cache
    def write(layout: Layout, files: int, manifests: int) -> Path:
        warehouse = tmp_path_factory.mktemp("written") / "warehouse"
        write_table(warehouse, layout, files, manifests)
        return warehouse

    return write


@pytest.fixture
def make_fleet(tmp_path: Path, write_once: Write) -> MakeFleet:
    def make(layout: Layout = KEYS_BESIDE, files: int = FILES, manifests: int = MANIFESTS) -> Fleet:
        fleet = Fleet(tmp_path)
        shutil.copytree(write_once(layout, files, manifests), fleet.warehouse)
        return fleet

    return make


@pytest.fixture(params=[KEYS_BESIDE, KEYS], ids=["beside", "embedded"])
def fleet(make_fleet: MakeFleet, request: pytest.FixtureRequest) -> Fleet:
    return make_fleet(request.param)


@pytest.fixture
def beside(make_fleet: MakeFleet) -> Fleet:
    return make_fleet()


def test_manifests_that_are_mostly_indexes_are_read_where_they_lie(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(KEYS, files=500, manifests=1)
    with fleet.service() as service:
        plan = service.plan(EVENTS, PlanRequest(filter="id = 5"))
        manifest = next(fleet.table.glob("manifest/manifest-[0-9]*"))
    with fleet.service() as service:
        again = service.plan(EVENTS, PlanRequest(filter="id = 5"))
        state = told(service)

    assert manifest.stat().st_size > 4 << 20
    assert names_of(again.files) == names_of(plan.files)
    assert (state.written, state.hits) == (0, 0)


def test_a_new_service_reads_no_manifest_and_no_index_file(fleet: Fleet) -> None:
    before = fleet.without()
    with fleet.service() as first:
        assert fleet.plans(first) == before
    fleet.lose_files()

    with fleet.service() as second:
        assert fleet.plans(second) == before
        assert told(second).misses == told(second).written == 0
        assert told(second).hits > 0


def test_what_is_fetched_of_a_manifest_is_claimed_until_it_is_cached(make_fleet: MakeFleet) -> None:
    class Watched(SharedTier):
        def get(self, key: bytes, expected_bytes: int = 0) -> Any:
            entry = super().get(key, expected_bytes)
            claimed.append(LEDGER.claimed["decoding"])
            return entry

    fleet, claimed = make_fleet(), list[int]()
    fleet.fill()
    sizes = [path.stat().st_size for path in fleet.table.glob("manifest/manifest-[0-9]*")]

    with fleet.service(Watched(Warehouse("shared", str(fleet.shared)), KEY)) as second:
        second.plan(EVENTS, PlanRequest())

        assert told(second).hits == len(claimed) == MANIFESTS
        assert min(claimed) >= min(sizes)
        assert LEDGER.claimed["decoding"] == 0


def test_warming_loads_what_is_shared_of_index_files_and_reads_none(beside: Fleet) -> None:
    with beside.service() as first:
        before = beside.plans(first, "id = 5")
    beside.lose_files()
    with beside.service() as second:
        second.caches.warm(second.resolve(EVENTS, SnapshotSelector()), at_once=True)
        hits = told(second).hits
        assert beside.plans(second, "id = 7", "id = 5")[1:] == before
        assert told(second).hits == hits > 0


def test_what_is_shared_is_kept_on_the_disk(fleet: Fleet, tmp_path: Path) -> None:
    before = fleet.without()
    fleet.fill()
    with fleet.service(disk=tmp_path / "disk") as second:
        assert fleet.plans(second) == before
    fleet.lose_files()
    shutil.rmtree(fleet.shared)

    with fleet.service(disk=tmp_path / "disk") as third:
        assert fleet.plans(third) == before
        assert (told(third).hits, told(third).misses) == (0, 0)


def test_the_disk_fills_what_is_shared(fleet: Fleet, tmp_path: Path) -> None:
    before = fleet.without()
    with fleet.service(disk=tmp_path / "disk") as first:
        fleet.plans(first)
    fleet.lose_files()

    with fleet.service() as second:
        assert fleet.plans(second) == before


def test_files_that_one_filter_leaves_out_are_not_shared_as_missing(beside: Fleet) -> None:
    before = beside.without()
    with beside.service() as first:
        beside.plans(first, "id = 5 AND day = DATE '2024-01-01'", "score > 0.5 AND id = 9")
    with beside.service() as second:
        assert beside.plans(second) == before
    beside.lose_files()
    with beside.service() as third:
        assert beside.plans(third) == before


def test_what_a_warehouse_is_called_does_not_matter(beside: Fleet) -> None:
    beside.fill()
    beside.lose_files()
    shared = tier(str(beside.shared))
    warehouse = Warehouse("another", f"file:{beside.warehouse}/")
    another = IndexService({"another": warehouse}, cache_bytes=CacheBytes(), limits=Limits(), shared=shared)
    with closing(another) as service:
        plan = service.plan(TableRef("another", DATABASE, TABLE), PlanRequest(filter="id = 5"))
        assert told(service).hits > 0
    assert not plan.warnings


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "inverted": invert,
    "cut": lambda content: content[: len(content) // 2],
    "empty": lambda _: b"",
    "one byte": lambda content: content[:200] + invert(content[200:201]) + content[201:],
}


@pytest.mark.parametrize("damage", share([*DAMAGE], 2))
def test_damage_is_read_again_and_mended(beside: Fleet, damage: str) -> None:
    before = beside.without()
    beside.fill()
    replace_entries(beside.shared, DAMAGE[damage])

    with beside.service() as second:
        assert beside.plans(second) == before
        assert told(second).corrupt > 0
        assert told(second).hits == 0
    # After the first that is damaged, a service asks for no others.
    for _ in range(sum(path.is_file() for path in beside.shared.rglob("*"))):
        with beside.service() as mending:
            assert beside.plans(mending) == before
    with beside.service() as last:
        assert beside.plans(last) == before
        assert told(last).corrupt == told(last).misses == 0
        assert told(last).hits > 0


def test_objects_that_change_places_are_not_believed(beside: Fleet) -> None:
    before = beside.without()
    beside.fill()
    paths = sorted(path for path in beside.shared.rglob("*") if path.is_file())
    contents = [path.read_bytes() for path in paths]
    for path, content in zip(paths, contents[1:] + contents[:1], strict=True):
        path.unlink()
        path.write_bytes(content)

    with beside.service() as second:
        assert beside.plans(second) == before
        assert (told(second).hits, told(second).corrupt > 0) == (0, True)


def test_two_releases_share_a_prefix(beside: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    before = beside.without()
    beside.fill()
    objects = len(list(beside.shared.rglob("*")))
    with monkeypatch.context() as patch:
        for module in ("app.storage.disk.disk_tier.FORMAT", "app.storage.shared_tier.FORMAT"):
            patch.setattr(module, disk_tier.FORMAT + 1)
        with beside.service() as newer:
            assert beside.plans(newer) == before
            assert told(newer).hits == told(newer).corrupt == 0
    assert told(newer).written > 0
    assert len(list(beside.shared.rglob("*"))) > objects
    with beside.service() as older:
        assert beside.plans(older) == before
        assert told(older).misses == 0


def fails_after(sound: int, fault: Fault) -> Callable[[str], Fault | None]:
    asked = count()
    return lambda _: fault if next(asked) >= sound else None


@pytest.mark.parametrize("fault", share([Fault.SLOW_DOWN, Fault.RESET, Fault.CUT, Fault.HANG], 2))
def test_a_store_that_fails_in_the_middle_changes_no_answer(beside: Fleet, fault: Fault) -> None:
    before = beside.without()
    beside.fill()
    for sound in range(3):
        store = Store.of(beside.shared, fails_after(sound, fault))
        with store.serving() as options, beside.service(tier(f"s3://{BUCKET}", options=options)) as service:
            assert beside.plans(service) == before
        assert told(service).failures > 0


def test_objects_that_are_deleted_under_way_are_read_from_the_warehouse(beside: Fleet) -> None:
    before = beside.without()
    beside.fill()
    with beside.service() as second:
        assert beside.plans(second, FILTERS[0]) == before[:1]
        shutil.rmtree(beside.shared)
        second.caches.clear()
        assert beside.plans(second) == before


def index_of(**keys: int) -> bytes:
    """Return an index file with a bloom filter of so many keys of each column, from 4 on."""
    columns = {"id": ID, "cat": CAT}
    filters = {
        name: bloom_filter.write(keys_of(range(4, 4 + count), columns[name]), count, 0.01)
        for name, count in keys.items()
    }
    return container.write({name: [(BLOOM_FILTER, content)] for name, content in filters.items()})


def test_indexes_of_a_second_column_are_shared_too(beside: Fleet) -> None:
    for path in beside.table.rglob("*.index"):
        path.write_bytes(index_of(id=10_000, cat=10_000))
    with beside.service() as first:
        assert [len(plan) for plan in beside.plans(first, "id = 5", "cat = 3")] == [FILES, 0]
    for path in beside.table.rglob("*.index"):
        path.unlink()

    with beside.service() as second:
        assert [len(plan) for plan in beside.plans(second, "id = 5", "cat = 3")] == [FILES, 0]


def test_manifests_of_small_index_files_lie_beside_others(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(manifests=4)
    for path in fleet.table.rglob("*.index"):
        number = int(path.name.split("-")[5], 16)
        path.write_bytes(index_of(id=10) if number < FILES // 4 else index_of(id=10_000))
    before = fleet.without()
    for _ in range(2):
        with fleet.service() as service:
            assert fleet.plans(service) == before


def test_what_storage_failed_to_give_is_not_shared_as_missing(
    beside: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = beside.without()
    read = RangeReader.read

    def fail(reader: RangeReader, ranges: Any, *rest: Any) -> Any:
        if ranges and ranges[0].path.endswith(".index"):
            return [StorageError("storage failed", path=each.path) for each in ranges]
        return read(reader, ranges, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(RangeReader, "read", fail)
        with beside.service() as first:
            assert len(first.plan(EVENTS, PlanRequest(filter=FILTERS[0])).files) > len(before[0])
    beside.fill()
    beside.lose_files()
    with beside.service() as third:
        assert beside.plans(third) == before


def test_processes_that_begin_together_plan_alike(beside: Fleet) -> None:
    before, ready = beside.without(), Barrier(4)

    def plan(_: int) -> tuple[list[list[str]], int]:
        with beside.service() as service:
            ready.wait()
            return beside.plans(service), told(service).failures

    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(plan, range(4))] == [(before, 0)] * 4


def test_a_job_leaves_what_plans_read(fleet: Fleet) -> None:
    before = fleet.without()
    with fleet.service() as job:
        job.caches.share(job.resolve(EVENTS, SnapshotSelector()), ["id"])
        assert told(job).written > 0
    fleet.lose_files()

    with fleet.service() as first:
        assert fleet.plans(first) == before


def test_a_job_drops_nothing_that_would_wait_to_be_written(make_fleet: MakeFleet) -> None:
    """Of four manifests, each of which has a segment of payloads with 1,200,332 bytes."""
    fleet = make_fleet(files=400)
    small = SharedTier(Warehouse("shared", str(fleet.shared)), KEY, most_waiting_bytes=2_000_000)
    with fleet.service(small) as job:
        job.caches.share(job.resolve(EVENTS, SnapshotSelector()), ["id", "cat"])
        assert told(job).dropped == 0
        assert told(job).written == 3 * MANIFESTS


def test_a_budget_of_time_is_kept(beside: Fleet) -> None:
    before = beside.without()
    beside.fill()
    beside.lose_files()
    with beside.service() as second:
        plans = [second.plan(EVENTS, PlanRequest(filter=each), budget_ms=60_000) for each in FILTERS]
        assert [names_of(plan.files) for plan in plans] == before
        assert all(plan.summary.complete for plan in plans)


@pytest.mark.parametrize("table", TABLES)
def test_golden_tables_are_planned_alike(
    golden: GoldenWarehouse, tmp_path: Path, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.table.metadata._SHARED_FILES", 1)
    monkeypatch.setattr("app.planning.side_files.indexes._LEAST_SHARED", 1)
    written = [each["filter_sql"] for each in expected(table)["queries"] if each["filter_sql"]]
    filters = [None, *share(written[:19], 6)]

    def plans(shared: SharedTier | None) -> list[Any]:
        with closing(open_service(golden.root, golden.allow_external(), shared=shared)) as service:
            found = [service.plan(golden_ref(table), PlanRequest(filter=each)) for each in filters]
            if shared is not None:
                shared.flush()
        return [(tuple(plan.files), plan.warnings) for plan in found]

    before = plans(None)
    assert plans(tier(str(tmp_path))) == before
    assert any(tmp_path.rglob("*"))
    warm = tier(str(tmp_path))
    assert plans(warm) == before
    assert warm.statistics().hits > 0
    replace_entries(tmp_path, invert)
    assert plans(tier(str(tmp_path))) == before


def entries_below(disk: Path) -> Iterator[tuple[str, pa.Table]]:
    """Yield what is decoded in a disk cache: the form of each entry without its numbers, and its columns."""
    for path in filter(Path.is_file, disk.rglob("*")):
        content = path.read_bytes()
        (key_start,) = struct.unpack_from("<Q", content, len(content) - 24)
        key = content[key_start : len(content) - 40].decode("ascii")
        *_, form, written_as = json.loads(key)
        assert written_as == disk_tier.FORMAT
        columns = pa.ipc.open_stream(content).read_all()
        if columns.column_names != ["bytes"]:
            yield re.sub(r"\d+", "n", form), columns


def digest(found: object) -> str:
    return xxhash.xxh3_64_hexdigest(json.dumps(found, sort_keys=True, default=bytes.hex).encode())


def test_another_layout_of_entries_has_another_format(fleet: Fleet, tmp_path: Path) -> None:
    with fleet.service(disk=tmp_path / "disk") as service:
        fleet.plans(service)

    layouts = {
        form: sorted(f"{field.name} {field.type}" for field in columns.schema)
        for form, columns in entries_below(tmp_path / "disk")
    }
    told = "raise FORMAT of app/storage/disk/disk_tier.py, and note the digest of the new layout here"
    assert digest(layouts) in DIGESTS[disk_tier.FORMAT], told


def test_other_values_in_entries_have_another_format(golden: GoldenWarehouse, tmp_path: Path) -> None:
    """Columns that are called as before may mean something else."""
    table, filters = PLAIN
    with closing(open_service(golden.root, disk=DiskTier(tmp_path, 1 << 30))) as service:
        for each in filters:
            service.plan(golden_ref(table), PlanRequest(filter=each))

    entries = [(form, columns.to_pydict()) for form, columns in entries_below(tmp_path)]

    forms = {form.partition(" ")[0] for form, _ in entries}
    assert forms == {"manifest", "heads", "indexes"}
    told = "raise FORMAT of app/storage/disk/disk_tier.py, and note the digest of the new values here"
    assert digest(sorted(entries, key=digest)) == VALUES[disk_tier.FORMAT], told
