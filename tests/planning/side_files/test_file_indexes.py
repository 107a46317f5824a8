"""The indexes of a version's files, embedded and beside: which have one, and what keeping them takes."""

import gc
import tracemalloc
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from app.errors import CorruptMetadataError
from app.file_index.index_kinds import BITMAP, BLOOM_FILTER
from app.planning.request.budget import Budget
from app.planning.request.requests import PlanRequest, SelectionForm, SnapshotSelector, TableRef
from app.planning.service import IndexService
from app.planning.side_files.file_indexes import FileIndexes
from app.types import DataField, parse_type
from benchmarks.events import DATABASE, TABLE, Indexed, Layout
from benchmarks.synthetic import write_table
from tests.planning.tables_beside import MakeBeside, large
from tests.tables import MadeTable, entry, index_of, open_service

NUMBER = DataField(0, "number", parse_type("INT"))
INDEX = index_of({NUMBER: [1]}, BITMAP)


def test_an_index_is_embedded_or_beside_or_missing(tmp_path: Path) -> None:
    made = MadeTable.make(tmp_path, [NUMBER])
    made.commit(
        [entry(file_name="none"), entry(file_name="embedded", embedded_index=INDEX)],
        [
            entry(file_name="beside", extra_files=("changes", "beside.index")),
            entry(
                file_name="outside",
                external_path=f"{tmp_path.as_uri()}/elsewhere/outside",
                extra_files=("outside.index",),
            ),
            entry(file_name="both", embedded_index=INDEX, extra_files=("both.index",)),
            entry(file_name="other", extra_files=("other.log",)),
        ],
    )
    for path in (made.side_file("beside"), tmp_path / "elsewhere" / "outside.index"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(INDEX)
    with closing(open_service(tmp_path)) as service:
        indexes = FileIndexes(made.version(service))

        assert indexes.has_index(np.arange(6)).tolist() == [False, True, True, True, True, False]
        assert indexes.has_index(np.array([0, 5])).tolist() == [False, False]
        wanted = frozenset([("number", BITMAP)])
        files = np.array([1, 2, 3, 4])
        opened = dict(indexes.open(files, wanted))
        paths = [indexes.path(file) for file in files.tolist()]

    assert sorted(opened) == [1, 2, 3, 4]
    assert paths[1] == "golden.db/made/bucket-0/beside.index"
    assert paths[2] == f"{tmp_path.as_uri()}/elsewhere/outside.index"
    assert all("embedded in its manifest" in path for path in (paths[0], paths[3]))
    assert not list(indexes.failures(files))


def test_files_whose_bodies_cannot_be_read_in_time_have_no_index(make_beside: MakeBeside) -> None:
    beside = make_beside(large)
    version = beside.made.version(beside.service)
    files = version.files().all()
    asked_of_id, asked_of_cat = (frozenset([each]) for each in (("id", BLOOM_FILTER), ("cat", BITMAP)))
    # It reads the heads of all index files, and the bodies of one column.
    assert len(list(FileIndexes(version).open(files, asked_of_id))) == len(files)

    indexes = FileIndexes(version, Budget(0))

    assert list(indexes.open(files, asked_of_cat)) == []
    assert indexes.not_loaded(files).tolist() == files.tolist()


def test_a_file_with_two_indexes_beside_it_is_corrupt(tmp_path: Path) -> None:
    made = MadeTable.make(tmp_path, [NUMBER])
    made.commit([entry(file_name="data"), entry(file_name="double", extra_files=("a.index", "b.index"))])
    with closing(open_service(tmp_path)) as service:
        indexes = FileIndexes(made.version(service))

        with pytest.raises(CorruptMetadataError, match="double has more than one index file"):
            indexes.has_index(np.array([0]))


@dataclass(frozen=True)
class Memory:
    """What a table's indexes take once they were asked, in bytes.

    Attributes:
        stored: their files.
        traced: what was allocated since before; without the manifest, where embedded ones lie.
        weighed: by how much the caches say that they hold more.
    """

    stored: int
    traced: int
    weighed: int


FILES = 60
FILTERS = {Indexed.KEYS: ["id = 5", "id IN (6, 7)"], Indexed.VALUES: ["cat = 5", "cat > 900", "score < 50"]}
LAYOUTS = [
    Layout(Indexed.KEYS, is_embedded=True, numbers=1, bodies=3),
    Layout(Indexed.KEYS, is_embedded=False, numbers=1, bodies=3),
    Layout(Indexed.VALUES, is_embedded=True, numbers=1, bodies=3),
    # Larger than what is read of a file at first.
    Layout(Indexed.VALUES, is_embedded=False, numbers=1, bodies=3, distinct=100),
]


def memory_of(layout: Layout, root: Path) -> Memory:
    write_table(root, layout, FILES, manifests=2)
    sizes = [path.stat().st_size for path in sorted((root.parent / "indexes").glob("*/*.index"))]

    def held(service: IndexService) -> int:
        return sum(each["bytes"] for name, each in service.caches.statistics().items() if name != "plans")

    with closing(open_service(root)) as service:
        ref = TableRef("golden", DATABASE, TABLE)
        service.plan(ref, PlanRequest(filter="c0 >= 0", selection=SelectionForm.NONE))
        before = held(service)
        gc.collect()
        tracemalloc.start()
        for written in FILTERS[layout.indexed]:
            service.plan(ref, PlanRequest(filter=written, selection=SelectionForm.NONE))
        gc.collect()
        traced, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return Memory(sum(sizes) * FILES // len(sizes), traced, held(service) - before)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.title)
def test_indexes_take_little_more_memory_than_they_have_bytes(layout: Layout, tmp_path: Path) -> None:
    root = tmp_path / "warehouse"
    root.mkdir()

    memory = memory_of(layout, root)

    assert memory.traced + memory.stored * layout.is_embedded < 1.5 * memory.stored
    assert memory.weighed > 0.9 * memory.traced - 100_000  # plans of a few kilobytes are among it


def test_what_filters_on_indexed_columns_ask_is_open_before_they_ask(service: IndexService) -> None:
    ref = TableRef("golden", "golden", "append_embedded")
    version = service.resolve(ref, SnapshotSelector())
    columns = {each.column for each in version.schema.options.file_indexes} & set(version.schema.by_name)

    service.caches.warm(version)
    warm = service.caches.statistics()["manifests"]["bytes"]
    for column in sorted(columns):
        service.plan(ref, PlanRequest(filter=f"{column} IS NOT NULL AND {column} = {column}"))

    assert columns
    assert service.caches.statistics()["manifests"]["bytes"] == warm
