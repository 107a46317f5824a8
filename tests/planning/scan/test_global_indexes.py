"""Plans by global indexes of made tables: what is left out, what is kept, and what is said of it."""

from __future__ import annotations

import io
import json
import re
import shutil
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyroaring import BitMap

from app.advice.table_advice import advise_table
from app.deletion_vectors import EncodedVector, write_file
from app.planning.plan.answers import Plan
from app.planning.plan.file_plan import KeepReason, SkipStep
from app.planning.request.requests import PlanRequest, SelectionForm, SnapshotSelector
from app.planning.service import IndexService
from app.planning.usage import TableUsage
from app.table.manifests.index_manifest import IndexEntry
from app.table.manifests.manifest_entry import FileKind
from app.types import DataField, parse_type
from app.types.binary_row import serialize_row
from app.types.index_files import GlobalIndex, IndexFileMeta
from app.work import time_limit
from tests.global_index_files import WRITERS, Habits
from tests.tables import EMPTY_ROW, NO_STATISTICS, MadeTable, entry, open_service

ID = DataField(0, "id", parse_type("BIGINT"))
NAME = DataField(1, "name", parse_type("STRING"))
TRACKED = {"bucket": "-1", "row-tracking.enabled": "true", "data-evolution.enabled": "true"}
ROWS = 10
"""Of each file; its ids are its row ids."""


@dataclass
class Indexed:
    """A table of files whose ids are their row ids, and an index of these."""

    made: MadeTable
    service: IndexService

    def commit(
        self,
        files: int,
        indexed: int | None = None,
        *more: IndexEntry,
        habits: Habits | None = None,
        kind: str = "btree",
        **meta: Any,
    ) -> Path:
        """Make a version of so many files, of which the first ``indexed`` have an index; its file."""
        rows = ROWS * (files if indexed is None else indexed)
        content, told = WRITERS[kind]([(row, row) for row in range(rows)], ID.type, habits or Habits())
        path = self.made.directory / "index" / f"{kind}-global-index-1.index"
        path.write_bytes(content)
        covered = replace(GlobalIndex(0, rows - 1, ID.id, None, told), **meta)
        file = IndexFileMeta(kind, path.name, len(content), rows, global_index=covered)
        entries = [data(at, at * ROWS) for at in range(files)]
        self.made.commit(entries, index_entries=[IndexEntry(FileKind.ADD, EMPTY_ROW, 0, file), *more])
        return path

    def alter(self, **options: str) -> None:
        """Give the table a schema with these options; later versions are committed under it."""
        schemas = sorted(self.made.directory.glob("schema/schema-*"))
        schema = json.loads(schemas[-1].read_text())
        schema |= {"id": len(schemas), "options": {**TRACKED, **options}}
        (self.made.directory / "schema" / f"schema-{len(schemas)}").write_text(json.dumps(schema))

    def commit_again(self, *index_entries: IndexEntry) -> None:
        """Make a version of the same rows, compacted into one file, under the newest schema."""
        entries = index_entries or _entries(self)
        self.made.commit([data(9, 0, row_count=4 * ROWS)], index_entries=entries)
        snapshot = max(self.made.directory.glob("snapshot/snapshot-*"))
        schema_id = len([*self.made.directory.glob("schema/schema-*")]) - 1
        snapshot.write_text(json.dumps({**json.loads(snapshot.read_text()), "schemaId": schema_id}))

    def rebuilt(self) -> IndexEntry:
        """Return the index in another file."""
        (entry,) = _entries(self)
        name = "btree-global-index-2.index"
        shutil.copy(
            self.made.directory / "index" / entry.file.file_name, self.made.directory / "index" / name
        )
        return replace(entry, file=replace(entry.file, file_name=name))

    def expire(self, *numbers: int) -> None:
        for number in numbers:
            (self.made.directory / "snapshot" / f"snapshot-{number}").unlink()

    def plan(self, written: str, **asked: Any) -> Plan:
        request = PlanRequest(filter=written, **{"selection": SelectionForm.RANGES, **asked})
        return self.service.plan(self.made.version(self.service), request)


def data(number: int, first_row: int, **others: Any) -> Any:
    described = {
        "value_statistics": NO_STATISTICS,
        "value_statistics_columns": (),
        "row_count": ROWS,
        **others,
    }
    return entry(
        file_name=f"data-{number}.parquet",
        first_row_id=first_row,
        min_sequence_number=number,
        max_sequence_number=number,
        partition=EMPTY_ROW,
        **described,
    )


def rows(plan: Plan) -> dict[str, Sequence[int] | None]:
    """Positions by file; None for all."""
    return {file.file_name: None if file.selection is None else [*file.selection] for file in plan.files}


@pytest.fixture
def indexed(tmp_path: Path) -> Iterator[Indexed]:
    with closing(open_service(tmp_path)) as service:
        yield Indexed(MadeTable.make(tmp_path, [ID, NAME], options=TRACKED), service)


def test_a_point_is_one_row_of_one_file(indexed: Indexed) -> None:
    indexed.commit(4)

    plan = indexed.plan("id = 23")

    assert rows(plan) == {"data-2.parquet": [3]}
    assert plan.files[0].reason is KeepReason.MATCHED
    assert not plan.files[0].residual
    assert plan.summary.skipped_by == {SkipStep.GLOBAL_INDEX: 3}
    assert plan.warnings == ()


def test_files_that_the_index_does_not_cover_are_named_with_what_to_extend(indexed: Indexed) -> None:
    indexed.commit(4, indexed=2)

    warnings = indexed.plan("id = 3").warnings

    assert any("2 files are kept undecided" in each for each in warnings)
    assert any(
        "id = 3 (extend the global index of id, which does not cover them)" in each for each in warnings
    )


def test_a_version_weighs_more_once_its_rows_were_grouped(indexed: Indexed) -> None:
    files = 40
    indexed.commit(files)

    def weight() -> int:
        return indexed.service.caches.statistics()["manifests"]["bytes"]

    contents = indexed.made.version(indexed.service).contents()
    unasked, of_cache = contents.nbytes, weight()
    indexed.plan("id = 23")
    asked = contents.nbytes
    grown = weight()
    indexed.plan("id = 24")

    # Of each file its row ids, its group and who holds the column are known: 64-bit numbers.
    assert asked - unasked > files * 8 * 8
    assert grown - of_cache >= asked - unasked
    assert (contents.nbytes, weight()) == (asked, grown)


def test_partitions_that_a_filter_leaves_out_are_grouped_apart(tmp_path: Path) -> None:
    city = DataField(2, "city", parse_type("INT"))
    made = MadeTable.make(tmp_path, [ID, city], [city], options=TRACKED)
    made.commit(
        [
            replace(
                data(at, at * ROWS, write_columns=("id",)), partition=serialize_row([at % 2], [city.type])
            )
            for at in range(4)
        ],
    )
    with closing(open_service(tmp_path)) as service:
        plans = [made.plan(service, f"{test}_ROW_ID < 20") for test in ("city = 1 AND ", "", "city = 1 AND ")]

    assert [[file.file_name for file in plan.files] for plan in plans] == [
        ["data-1.parquet"],
        ["data-0.parquet", "data-1.parquet"],
        ["data-1.parquet"],
    ]


def test_a_plan_is_explained_by_what_the_index_says(indexed: Indexed) -> None:
    path = indexed.commit(4, 3)

    plan = indexed.plan("id = 23", explain=True)
    steps = [step for file in (*plan.files, *plan.skipped_files) for step in file.explain or ()]
    asked = [step for step in steps if step.index == "btree"]

    assert {(step.step, step.outcome, step.column, step.predicate) for step in asked} == {
        ("global_index", "rows", "id", "id = 23"),
        ("global_index", "skip", "id", "id = 23"),
    }
    assert {step.index_bytes for step in asked} == {path.stat().st_size}
    # The end of the file, and in it the index block and a block of keys.
    (evidence,) = {step.evidence for step in asked}
    assert re.fullmatch(r"index files searched: 1, pieces: 3, bytes: \d{3}", evidence or "")


def test_a_limit_counts_on_what_an_index_proves(indexed: Indexed) -> None:
    indexed.commit(4)

    assert len(indexed.plan("id >= 5", limit=5).files) == 1
    assert len(indexed.plan("id >= 5 AND name = 'x'", limit=5).files) == 4


def test_rows_of_vectors_are_left_out(tmp_path: Path) -> None:
    options = {**TRACKED, "deletion-vectors.enabled": "true"}
    with closing(open_service(tmp_path)) as service:
        table = Indexed(MadeTable.make(tmp_path, [ID, NAME], options=options), service)
        vector = write_file([EncodedVector.encode("data-2.parquet", BitMap([3]), is64=True)], "index-v")
        (table.made.directory / "index" / "index-v").write_bytes(vector.content)
        table.commit(4, None, IndexEntry(FileKind.ADD, EMPTY_ROW, 0, vector.meta))

        assert rows(table.plan("id = 23")) == {}
        assert rows(table.plan("id IN (23, 24)")) == {"data-2.parquet": [4]}


def _flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 4
    path.write_bytes(content)


def _write_huge_size(path: Path) -> None:
    """Of the index block, whose size lies in both footers where the magic is."""
    content, (place, form) = path.read_bytes(), (-24, "<i") if path.name.startswith("btree") else (-16, ">i")
    path.write_bytes(content[:place] + struct.pack(form, 2**31 - 1) + content[place + 4 :])


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("compression", ["none", "zstd", "lz4"])
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.unlink(), "-global-index-1"),
        (lambda path: path.write_bytes(b""), "found"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "found"),
        (lambda path: path.write_bytes(bytes(path.stat().st_size)), "expected"),
        (lambda path: _flip(path, -70), "checksum"),
        (_write_huge_size, "expected"),
    ],
)
def test_a_file_that_cannot_be_read_keeps_its_rows(
    indexed: Indexed, kind: str, compression: str, damage: Callable[[Path], Any], said: str
) -> None:
    path = indexed.commit(4, kind=kind, habits=Habits(compression=compression))
    damage(path)

    plan = indexed.plan("id = 23", limit=1)

    assert rows(plan) == dict.fromkeys((f"data-{at}.parquet" for at in range(4)), None)
    assert any("the global index of id is not used" in each and said in each for each in plan.warnings)
    assert not plan.summary.complete


def test_blocks_of_another_compression_keep_their_rows(indexed: Indexed) -> None:
    indexed.commit(4, habits=Habits(compression="lzo"))

    plan = indexed.plan("id = 23")

    assert len(plan.files) == 4
    assert any("lzo" in each for each in plan.warnings)
    assert plan.summary.complete


def test_files_of_the_same_rows_go_together(indexed: Indexed) -> None:
    indexed.commit(3)
    indexed.made.commit(
        [*(data(at, at * ROWS) for at in range(3)), data(9, ROWS, write_columns=("name",))],
        index_entries=_entries(indexed),
    )

    assert {*rows(indexed.plan("id = 13"))} == {"data-1.parquet", "data-9.parquet"}
    assert {*rows(indexed.plan("id = 23"))} == {"data-2.parquet"}


def test_an_update_behind_the_index_keeps_its_rows(indexed: Indexed) -> None:
    indexed.commit(3)
    indexed.made.commit(
        [*(data(at, at * ROWS) for at in range(3)), data(9, ROWS, write_columns=("id",))],
        index_entries=_entries(indexed),
    )

    plan = indexed.plan("id = 1000")

    assert {*rows(plan)} == {"data-1.parquet", "data-9.parquet"}
    assert any("it was updated" in each for each in plan.warnings)


def test_a_table_that_ignores_updates_is_not_believed(tmp_path: Path) -> None:
    options = {**TRACKED, "global-index.column-update-action": "IGNORE"}
    with closing(open_service(tmp_path)) as service:
        table = Indexed(MadeTable.make(tmp_path, [ID, NAME], options=options), service)
        table.commit(4)

        assert len(table.plan("id = 23").files) == 4


IGNORE = {"global-index.column-update-action": "Ignore"}


def test_an_index_that_was_built_before_updates_were_ignored_is_not_believed(indexed: Indexed) -> None:
    indexed.commit(4)
    indexed.alter(**IGNORE)
    indexed.commit_again()
    indexed.alter()
    indexed.commit_again()

    plan = indexed.plan("id = 1000")

    assert rows(plan) == {"data-9.parquet": None}
    assert any("no retained snapshot shows that the index was built since" in each for each in plan.warnings)


def test_an_index_that_was_built_after_updates_were_ignored_is_believed(indexed: Indexed) -> None:
    indexed.commit(4)
    indexed.alter(**IGNORE)
    indexed.commit_again()
    indexed.alter()
    indexed.commit_again(indexed.rebuilt())

    assert rows(indexed.plan("id = 23")) == {"data-9.parquet": [23]}
    # The version before the rebuild has the former file.
    before = indexed.service.plan(indexed.made.ref, PlanRequest(filter="id = 1000", snapshot_id=2))
    assert len(before.files) == 1


@pytest.mark.parametrize(
    ("expired", "is_believed"),
    [
        pytest.param((1,), True, id="a snapshot under the option lacks the file"),
        pytest.param((1, 2), True, id="a later one lacks the file"),
        pytest.param((1, 2, 3), False, id="each has the file"),
    ],
)
def test_snapshots_show_that_an_index_was_rebuilt_as_long_as_they_are_retained(
    indexed: Indexed, expired: Sequence[int], *, is_believed: bool
) -> None:
    indexed.commit(4)
    indexed.alter(**IGNORE)
    indexed.commit_again()
    indexed.alter()
    indexed.commit_again()
    indexed.commit_again(indexed.rebuilt())
    indexed.expire(*expired)

    assert rows(indexed.plan("id = 23")) == {"data-9.parquet": [23] if is_believed else None}


def test_a_version_under_the_option_is_read_by_no_index_of_its_time(indexed: Indexed) -> None:
    indexed.alter(**IGNORE)
    indexed.commit(4)
    indexed.commit_again()
    indexed.alter()
    indexed.commit_again(indexed.rebuilt())

    plan = indexed.service.plan(indexed.made.ref, PlanRequest(filter="id = 1000", snapshot_id=2))

    assert len(plan.files) == 1


@pytest.mark.parametrize("written", ["false", " FALSE"])
def test_a_table_may_forbid_global_indexes(indexed: Indexed, written: str) -> None:
    indexed.commit(4)
    assert len(indexed.plan("id = 23").files) == 1
    indexed.alter(**{"global-index.enabled": written})

    plan = indexed.plan("id = 23", explain=True)

    assert rows(plan) == dict.fromkeys((f"data-{at}.parquet" for at in range(4)), None)
    assert not any("global" in each for each in plan.warnings)
    advice = advise_table(indexed.made.version(indexed.service), TableUsage())
    assert not any("global" in each for each in advice.warnings)
    indexed.alter(**{"global-index.enabled": "true"})
    assert len(indexed.plan("id = 23").files) == 1


def test_an_index_of_a_level_decides_nothing(indexed: Indexed) -> None:
    """Releases after 1.4 write a member for those that the service writes no manifests with."""
    indexed.commit(4)
    (manifest,) = indexed.made.directory.glob("manifest/index-manifest-*")
    reader = fastavro.reader(io.BytesIO(manifest.read_bytes()))
    records: list[Any] = list(reader)
    schema: Any = reader.writer_schema
    covered = next(each for each in schema["fields"] if each["name"] == "_GLOBAL_INDEX")["type"][1]
    covered["fields"].append({"name": "_SOURCE_META", "type": ["null", "bytes"], "default": None})
    records[0]["_GLOBAL_INDEX"]["_SOURCE_META"] = b"a level"
    with manifest.open("wb") as file:
        fastavro.writer(file, schema, records)

    plan = indexed.plan("id = 23")

    assert len(plan.files) == 4
    assert any("the engine alone reads (btree)" in each for each in plan.warnings)


@pytest.mark.parametrize("meta", [{"extra_field_ids": (1,)}, {"field_id": 7}])
def test_other_entries_decide_nothing(indexed: Indexed, meta: dict[str, Any]) -> None:
    indexed.commit(4, **meta)

    assert len(indexed.plan("id = 23").files) == 4


def test_a_range_that_lacks_a_file_keeps_its_rows(indexed: Indexed) -> None:
    indexed.commit(4)
    (whole,) = _entries(indexed)
    part = replace(whole, file=replace(whole.file, row_count=whole.file.row_count - 1))
    indexed.made.commit([data(at, at * ROWS) for at in range(4)], index_entries=[part])

    plan = indexed.plan("id = 1000")

    assert len(plan.files) == 4
    assert any("its files lack 1 of the rows 0 to 39" in each for each in plan.warnings)


def test_rows_of_an_index_that_is_searched_too_slowly_are_covered(
    indexed: Indexed, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexed.commit(4)
    monkeypatch.setattr("app.planning.side_files.pieces._SHARE_OF_TIME", 0)

    with time_limit(60):
        plan = indexed.plan("id >= 1")

    assert len(plan.files) == 4
    assert any("its search took half of the request's time" in each for each in plan.warnings)
    assert not any("no usable global index" in each for each in plan.warnings)


def test_readers_that_search_all_rows_are_not_warned_of(tmp_path: Path) -> None:
    options = {**TRACKED, "scalar-index.search-mode": "FULL"}
    with closing(open_service(tmp_path)) as service:
        table = Indexed(MadeTable.make(tmp_path, [ID, NAME], options=options), service)
        table.commit(4, 3)

        assert rows(table.plan("id = 23")) == {"data-2.parquet": [3], "data-3.parquet": None}
        assert not any("no usable global index" in each for each in table.plan("id = 23").warnings)


def test_the_list_of_index_files_tells_the_rows(indexed: Indexed) -> None:
    indexed.commit(4)

    (listed,) = indexed.service.tables.index_files(indexed.made.version(indexed.service), None)

    assert listed.path.endswith("/index/btree-global-index-1.index")
    assert listed.global_index is not None
    assert (listed.global_index.column, listed.global_index.last_row_id) == ("id", 39)


def test_a_table_is_described_with_its_global_indexes(indexed: Indexed) -> None:
    path = indexed.commit(4)

    described = indexed.service.tables.describe(indexed.made.ref, SnapshotSelector(), lambda *_: None)

    assert [astuple(each) for each in described.global_indexes or ()] == [
        ("id", "btree", 1, 40, path.stat().st_size)
    ]


def test_a_table_is_described_without_its_index_manifest(indexed: Indexed) -> None:
    indexed.commit(2)
    (manifest,) = (indexed.made.directory / "manifest").glob("index-manifest-*")
    manifest.write_bytes(b"no Avro")

    described = indexed.service.tables.describe(indexed.made.ref, SnapshotSelector(), lambda *_: None)

    assert described.snapshot is not None
    assert described.global_indexes is None


def test_a_warm_plan_reads_nothing(indexed: Indexed) -> None:
    path = indexed.commit(4)
    indexed.plan("id = 23")
    path.unlink()

    assert rows(indexed.plan("id = 31")) == {"data-3.parquet": [1]}


def _entries(indexed: Indexed) -> list[IndexEntry]:
    version = indexed.made.version(indexed.service)
    return [*version.table.metadata.index_entries(version.resolved)]
