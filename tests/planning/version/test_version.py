"""What a version consists of, and what becomes of its manifests in the cache."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.file_index import container
from app.file_index.index_kinds import BITMAP
from app.options.table_options import TableOptions
from app.planning.request.limits import CacheBytes, Limits
from app.planning.service import IndexService
from app.planning.version.contents import VersionContents
from app.planning.version.files import FileColumns
from app.planning.version.manifests import Manifests
from app.storage import Warehouse
from app.table.manifests.index_manifest import IndexEntry
from app.table.manifests.live_files import live_rows
from app.table.manifests.manifest_entry import FileKind, ManifestEntry
from app.table.schema.schema import TableSchema
from app.types import DataField, parse_type
from app.types.index_files import DELETION_VECTORS, HASH, DeletionRange, IndexFileMeta
from tests.examples import examples
from tests.planning.made_tables import MadeTable, no_statistics, payload
from tests.table.entries import entry, manifest

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
    contents = VersionContents.read(FileColumns.of(read, live_rows(read)), Manifests.of(read), [], kept)

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
    contents = VersionContents.read(
        FileColumns.of(read, live_rows(read)), Manifests.of(read), entries, schema()
    )

    assert {row: [each.file.file_name for each in found] for row, found in contents.hash_indexes.items()} == {
        b"p": ["h1", "h3"],
        b"q": ["h2"],
    }
    assert contents.vectors.numbers.tolist() == [0, -1]


def open_service(root: Path, **capacities: Any) -> IndexService:
    warehouse = Warehouse("golden", root.as_uri())
    return IndexService({"golden": warehouse}, cache_bytes=CacheBytes(**capacities), limits=Limits())


@pytest.fixture
def made(tmp_path: Path) -> MadeTable:
    """Two manifests whose files have an index of a thousand values each."""
    rows: list[Any] = list(range(1000))
    content = container.write({"number": [("bitmap", payload(BITMAP, rows, NUMBER))]})
    files = [
        entry(file_name=str(at), row_count=1000, embedded_index=content, **no_statistics()) for at in range(4)
    ]
    made = MadeTable.make(tmp_path, [KEY, NUMBER])
    made.commit(files[:2], files[2:])
    return made


def test_a_manifest_weighs_more_once_its_indexes_were_asked(made: MadeTable, tmp_path: Path) -> None:
    with closing(open_service(tmp_path)) as service:

        def weight() -> int:
            return service.cache_statistics()["manifests"]["bytes"]

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
        whole = service.cache_statistics()["manifests"]["bytes"]
    capacity = int(share * whole)
    with closing(open_service(tmp_path, manifests=capacity, plans=0)) as service:
        for number in range(5000, 5005):
            assert not made.plan(service, f"number = {number}").files
            held = service.cache_statistics()["manifests"]
            assert held["bytes"] + held["in_flight"] <= capacity == held["capacity"]
