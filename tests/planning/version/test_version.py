"""What a version consists of, and what becomes of its manifests in the cache."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.file_index.index_kinds import BITMAP
from app.options.table_options import TableOptions
from app.planning.request.limits import CacheBytes
from app.planning.version.contents import VersionContents
from app.planning.version.files import FileColumns, Files
from app.planning.version.vector_places import UNKNOWN_CARDINALITY, VectorPlaces
from app.table import TableSchema
from app.table.manifests.index_manifest import IndexEntry
from app.table.manifests.live_files import live_rows
from app.table.manifests.manifest_entry import FileKind, ManifestEntry
from app.types import DataField, parse_type
from app.types.index_files import DELETION_VECTORS, HASH, DeletionRange, GlobalIndex, IndexFileMeta
from tests.examples import examples
from tests.tables import EMPTY_ROW, MadeTable, entry, file_of, manifest, no_statistics, open_service

KEY, NUMBER = DataField(0, "key", parse_type("INT")), DataField(1, "number", parse_type("INT"))
OPTIONS: dict[str, dict[str, str]] = {
    "merged on read": {},
    "deletion vectors": {"deletion-vectors.enabled": "true"},
    "first row": {"merge-engine": "first-row"},
}


def schema(*keys: str, **options: str) -> TableSchema:
    return TableSchema(0, (KEY, NUMBER), primary_keys=keys, options=TableOptions(options))


def is_visible(file: ManifestEntry, kept: TableSchema) -> bool:
    """Whether a batch read sees a file: level 0 may hold older versions of rows, bucket -2 rows that wait."""
    hides_level_0 = kept.primary_keys and kept.options.values != OPTIONS["merged on read"]
    return file.bucket != -2 and not (hides_level_0 and file.file.level == 0)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("keys", [(), ("key",)], ids=["append", "primary key"])
@given(
    manifests=st.lists(
        st.lists(
            st.builds(
                entry,
                bucket=st.sampled_from([0, 1, -2]),
                level=st.sampled_from([0, 5]),
                file_name=st.uuids().map(str),
            ),
            max_size=5,
        ),
        max_size=3,
    )
)
@examples(10)
def test_a_version_has_the_files_that_batch_reads_see(
    keys: tuple[str, ...], options: dict[str, str], manifests: list[list[ManifestEntry]]
) -> None:
    kept = schema(*keys, **options)
    listed = [file for entries in manifests for file in entries]

    read = [manifest(entries) for entries in manifests]
    contents = VersionContents.read(FileColumns.of(read, live_rows(read)), read, [], kept)

    visible = [is_visible(file, kept) for file in listed]
    assert len(contents.columns) == sum(visible)
    assert (0 if contents.hidden is None else len(contents.hidden)) == len(listed) - sum(visible)
    rows_of = [[row for row, file in enumerate(entries) if is_visible(file, kept)] for entries in manifests]
    assert [None if rows is None else rows.tolist() for rows in contents.columns.rows] == [
        None if len(rows) == len(entries) else rows for rows, entries in zip(rows_of, manifests, strict=True)
    ]


def test_index_files_are_told_apart_by_what_they_are() -> None:
    def index(kind: str, partition: bytes, name: str) -> IndexEntry:
        lies = (DeletionRange("data-1.parquet", 1, 20, 3),) if kind == DELETION_VECTORS else ()
        return IndexEntry(FileKind.ADD, partition, 0, IndexFileMeta(kind, name, 100, 1, lies))

    entries = [
        index(HASH, b"p", "h1"),
        index(DELETION_VECTORS, b"p", "v"),
        index(HASH, b"q", "h2"),
        index(HASH, b"p", "h3"),
        index("BTREE", b"p", "b"),
    ]

    read = [manifest([entry(partition=b"p"), entry(partition=b"q")])]
    contents = VersionContents.read(FileColumns.of(read, live_rows(read)), read, entries, schema())

    assert {row: [each.file.file_name for each in found] for row, found in contents.hash_indexes.items()} == {
        b"p": ["h1", "h3"],
        b"q": ["h2"],
    }
    assert contents.vectors.numbers.tolist() == [0, -1]
    assert contents.other_indexes == {"BTREE"}


@pytest.mark.parametrize(("written", "says"), [("number = 5", True), (None, False)])
def test_a_plan_says_that_the_engine_has_indexes_of_its_own(
    tmp_path: Path, written: str | None, *, says: bool
) -> None:
    made = MadeTable.make(tmp_path, [NUMBER], options={})
    covered = GlobalIndex(0, 9, NUMBER.id, None, None)
    index = IndexFileMeta("ivf-flat", "index-1", 100, 10, global_index=covered)
    made.commit(
        [entry(partition=EMPTY_ROW, file_name="data-1.parquet", **no_statistics())],
        index_entries=[IndexEntry(FileKind.ADD, EMPTY_ROW, 0, index)],
    )
    with closing(open_service(tmp_path)) as service:
        plan = made.plan(service, written)

    assert [each.file_name for each in plan.files] == ["data-1.parquet"]
    assert any("the engine alone reads (ivf-flat)" in each for each in plan.warnings) is says


@pytest.fixture
def made(tmp_path: Path) -> MadeTable:
    """Two manifests whose files have an index of a thousand values each."""
    rows: list[Any] = list(range(1000))
    files = [file_of(str(at), {NUMBER: rows}, BITMAP, bounded=False) for at in range(4)]
    made = MadeTable.make(tmp_path, [KEY, NUMBER])
    made.commit(files[:2], files[2:])
    return made


def test_a_manifest_weighs_more_once_its_indexes_were_asked(made: MadeTable, tmp_path: Path) -> None:
    with closing(open_service(tmp_path)) as service:

        def weight() -> int:
            return service.caches.statistics()["manifests"]["bytes"]

        made.plan(service)
        unasked = weight()
        made.plan(service, "number = 5000")
        asked = weight()
        made.plan(service, "number = 5001")

        assert asked > unasked + 2 * 1000
        assert weight() == asked


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.9, 1.1])
def test_what_grows_in_the_cache_never_passes_its_capacity(
    made: MadeTable, tmp_path: Path, share: float
) -> None:
    with closing(open_service(tmp_path)) as service:
        made.plan(service, "number = 5000")
        whole = service.caches.statistics()["manifests"]["bytes"]
    capacity = int(share * whole)
    with closing(open_service(tmp_path, cache_bytes=CacheBytes(manifests=capacity, plans=0))) as service:
        for number in range(5000, 5005):
            assert not made.plan(service, f"number = {number}").files
            held = service.caches.statistics()["manifests"]
            assert held["bytes"] + held["in_flight"] <= capacity == held["capacity"]


PARTITIONS, BUCKETS, NAMES = [b"p", b"q"], [0, 1], ["a", "b", "é"]


@st.composite
def index_files(draw: st.DrawFn) -> IndexEntry:
    """Return an index file of one bucket; a writer may have vectors for files that are gone."""
    ranges = draw(
        st.lists(
            st.builds(
                DeletionRange,
                st.sampled_from([*NAMES, "gone"]),
                st.integers(1, 99),
                st.just(20),
                st.none() | st.integers(0, 9),
            ),
            max_size=3,
        )
    )
    place = draw(st.sampled_from(PARTITIONS)), draw(st.sampled_from(BUCKETS))
    file = IndexFileMeta(DELETION_VECTORS, "index-1", 100, len(ranges), tuple(ranges))
    return IndexEntry(FileKind.ADD, *place, file)


def files_of(*manifests: Sequence[ManifestEntry]) -> Files:
    parsed = tuple(map(manifest, manifests))
    return Files(FileColumns.of(parsed, [np.arange(len(entries)) for entries in manifests]), parsed)


FILES = st.lists(
    st.lists(
        st.builds(
            entry,
            partition=st.sampled_from(PARTITIONS),
            bucket=st.sampled_from(BUCKETS),
            file_name=st.sampled_from(NAMES),
        ),
        max_size=6,
    ),
    max_size=2,
)


@given(manifests=FILES, entries=st.lists(index_files(), max_size=4))
@examples(50)
def test_a_vector_belongs_to_the_file_of_its_name_in_its_bucket(
    manifests: list[list[ManifestEntry]], entries: list[IndexEntry]
) -> None:
    places = VectorPlaces.find(entries, files_of(*manifests))

    found = [None if number < 0 else places.places[number] for number in places.numbers.tolist()]
    expected = []
    for file in (file for listed in manifests for file in listed):
        vectors = [
            (index, lies)
            for index in entries
            for lies in index.file.ranges
            if (index.partition, index.bucket, lies.data_file)
            == (file.partition, file.bucket, file.file.file_name)
        ]
        expected.append(vectors[-1] if vectors else None)
    assert found == expected
    counts = places.deleted_rows(places.numbers).tolist()
    assert counts == [
        0
        if vector is None
        else UNKNOWN_CARDINALITY
        if vector[1].cardinality is None
        else vector[1].cardinality
        for vector in expected
    ]
