"""New snapshots: what they say, what they refuse, and that of several at once none is lost."""

import contextlib
import shutil
import threading
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import orjson
import pytest

from app.errors import CommitConflictError, UncertainCommitError, UnsupportedFormatError
from app.storage import Readers, RetryPolicy, Warehouse
from app.storage.writing import Writing
from app.table.commits import Changes, CommitKind, Committer
from app.table.manifests.index_manifest import IndexEntry
from app.table.manifests.live_files import live_rows
from app.table.manifests.manifest_entry import FileKind, ManifestEntry
from app.types.index_files import DELETION_VECTORS, DeletionRange, IndexFileMeta
from tests import s3_server
from tests.copied_tables import WritableTable, files_below, open_table
from tests.examples import share
from tests.faulty_store import BUCKET, Fault, Store
from tests.golden_cases import DATABASE, GoldenWarehouse
from tests.table.later_release import read_records


def replaced(old: ManifestEntry, new: ManifestEntry) -> Changes:
    return Changes(CommitKind.COMPACT, (replace(new, kind=FileKind.ADD), replace(old, kind=FileKind.DELETE)))


def without_index(entry: ManifestEntry) -> ManifestEntry:
    return replace(entry, file=replace(entry.file, embedded_index=None, extra_files=()))


def added(like: ManifestEntry, name: str) -> Changes:
    return Changes(CommitKind.APPEND, (replace(like, file=replace(like.file, file_name=name)),))


@pytest.mark.parametrize(
    "name",
    ["append_embedded", "append_partitioned", "append_part_types", "dyn_bucket", "pk_dv", "row_tracking"],
)
def test_what_is_committed_is_read_back(golden: GoldenWarehouse, tmp_path: Path, name: str) -> None:
    golden.copy(name, tmp_path)
    table = open_table(tmp_path, name)
    before, snapshot, index_files = table.entries(), table.snapshot(), table.table.metadata.index_entries
    old_index_files = index_files(table.table.resolve())
    old = next((entry for entry in before if entry.file.embedded_index or entry.file.extra_files), before[0])
    new = replace(without_index(old), file=replace(without_index(old).file, embedded_index=b"another"))

    committed = table.committer.commit(replaced(old, new))

    again = open_table(tmp_path, name)
    assert sorted(again.entries(), key=str) == sorted(
        [new if entry == old else entry for entry in before], key=str
    )
    assert index_files(again.table.resolve()) == old_index_files
    document = again.snapshot()
    assert committed == document["id"] == snapshot["id"] + 1
    assert document["commitKind"] == "COMPACT"
    assert document["deltaRecordCount"] == 0
    for member in ("totalRecordCount", "schemaId", "nextRowId", "version", "indexManifest"):
        assert document.get(member) == snapshot.get(member), member
    assert (tmp_path / f"{DATABASE}.db" / name / "snapshot" / "LATEST").read_text() == str(committed)


def test_a_removal_stands_before_what_is_added_under_its_name(
    golden: GoldenWarehouse, tmp_path: Path
) -> None:
    directory = golden.copy("append_embedded", tmp_path)
    table = open_table(tmp_path, "append_embedded")
    old = table.entries()[0]

    table.committer.commit(replaced(old, without_index(old)))

    delta = directory / "manifest" / table.snapshot()["deltaManifestList"]
    (listed,) = read_records(delta)
    assert (listed["_NUM_ADDED_FILES"], listed["_NUM_DELETED_FILES"]) == (1, 1)
    assert [entry["_KIND"] for entry in read_records(directory / "manifest" / listed["_FILE_NAME"])] == [1, 0]


def test_changes_that_do_not_fit_leave_the_table_as_it_is(golden: GoldenWarehouse, tmp_path: Path) -> None:
    name = "append_dv32"
    directory = golden.copy(name, tmp_path)
    table = open_table(tmp_path, name)
    there, before = table.entries()[0], files_below(directory)
    gone = replace(there, file=replace(there.file, file_name="data-gone-0.parquet"))
    vectors = table.table.metadata.index_entries(table.table.resolve())
    stray = IndexFileMeta(
        DELETION_VECTORS, "index-stray-0", 1, 1, (DeletionRange(gone.file.file_name, 1, 30, 1),)
    )
    conflicts = {
        "removed or changed by another commit": replaced(gone, without_index(gone)),
        "exists already": Changes(CommitKind.APPEND, (there,)),
        "cannot be removed twice": Changes(CommitKind.OVERWRITE, (replace(there, kind=FileKind.DELETE),) * 2),
        "another commit has removed the file": Changes(
            CommitKind.OVERWRITE, (), (IndexEntry(FileKind.ADD, there.partition, 0, stray),)
        ),
        "another commit has done so": Changes(
            CommitKind.OVERWRITE, (), (IndexEntry(FileKind.DELETE, there.partition, 0, stray),)
        ),
        "has its deletion vector": Changes(
            CommitKind.OVERWRITE,
            (),
            (replace(vectors[0], file=replace(vectors[0].file, file_name="index-another-0")),),
        ),
    }

    for message, changes in conflicts.items():
        with pytest.raises(CommitConflictError, match=message):
            table.committer.commit(changes)
        assert files_below(directory) == before, message


def test_a_file_does_not_come_back_as_what_it_was(golden: GoldenWarehouse, tmp_path: Path) -> None:
    golden.copy("append_embedded", tmp_path)
    table = open_table(tmp_path, "append_embedded")
    before = table.entries()
    old, new = before[0], without_index(before[0])
    table.committer.commit(replaced(old, new))

    with pytest.raises(CommitConflictError, match="cannot come back as what it was"):
        table.committer.commit(replaced(new, old))

    assert len(table.entries()) == len(before)


@pytest.mark.parametrize("name", ["bucketed_dv", "dyn_bucket"])
def test_an_index_file_of_a_bucket_replaces_only_the_one_it_was_made_from(
    golden: GoldenWarehouse, tmp_path: Path, name: str
) -> None:
    golden.copy(name, tmp_path)
    table = open_table(tmp_path, name)
    old = table.table.metadata.index_entries(table.table.resolve())[0]
    new = replace(old, file=replace(old.file, file_name=f"index-{uuid.uuid4()}-0"))

    with pytest.raises(CommitConflictError, match="which another commit has written"):
        table.committer.commit(Changes(CommitKind.OVERWRITE, (), (new,)))
    table.committer.commit(Changes(CommitKind.OVERWRITE, (), (replace(old, kind=FileKind.DELETE), new)))

    assert new in table.table.metadata.index_entries(table.table.resolve())
    with pytest.raises(CommitConflictError, match="another commit has done so"):
        table.committer.commit(Changes(CommitKind.OVERWRITE, (), (replace(old, kind=FileKind.DELETE), new)))


def test_buckets_of_a_partition_stay_as_many_as_they_are(golden: GoldenWarehouse, tmp_path: Path) -> None:
    golden.copy("append_bucketed", tmp_path)
    table = open_table(tmp_path, "append_bucketed")
    there = table.entries()[0]
    changes = added(replace(there, total_buckets=there.total_buckets + 1), "data-new-0.parquet")
    with pytest.raises(CommitConflictError, match="buckets now"):
        table.committer.commit(changes)


def test_metadata_that_is_not_written_is_refused_before_any_work(
    golden: GoldenWarehouse, tmp_path: Path
) -> None:
    directory = golden.copy("append_embedded", tmp_path)
    for schema in (directory / "schema").iterdir():
        schema.write_text(
            schema.read_text().replace('"options" : {', '"options" : {"manifest.format": "orc",')
        )
    with pytest.raises(UnsupportedFormatError, match="use the engine instead"):
        open_table(tmp_path, "append_embedded").committer.check()


def named_by_snapshots(directory: Path) -> set[str]:
    named = set()
    for snapshot in (directory / "snapshot").glob("snapshot-*"):
        document = orjson.loads(snapshot.read_bytes())
        for name in (document["baseManifestList"], document["deltaManifestList"]):
            listed = directory / "manifest" / name
            named |= {name, *(record["_FILE_NAME"] for record in read_records(listed))}
    return {f"manifest/{name}" for name in named}


def test_manifests_do_not_become_more_and_more(golden: GoldenWarehouse, tmp_path: Path) -> None:
    directory = golden.copy("append_partitioned", tmp_path)
    table = open_table(tmp_path, "append_partitioned")
    contents, there, first = table.table.metadata, table.entries(), table.table.resolve()
    counts, versions = [len(contents.manifests(first))], [(first, there)]

    for at in range(35):
        like = there[at % len(there)]
        table.committer.commit(added(like, f"data-new-{at}.parquet"))
        there = [*there, *added(like, f"data-new-{at}.parquet").files]
        resolved = table.table.resolve()
        counts.append(len(contents.manifests(resolved)))
        versions.append((resolved, there))

    # One more with each commit, until thirty become one.
    merged = [at for at, (before, after) in enumerate(pairwise(counts)) if after != before + 1]
    assert [counts[at] for at in merged] == [30] * len(merged)
    assert [counts[at + 1] for at in merged] == [2]
    # Versions from before are what they were.
    for resolved, entries in share(versions, 4):
        names = Counter(entry.file.file_name for entry in entries)
        manifests = open_table(tmp_path, "append_partitioned").table.metadata.manifests(resolved)
        found = [
            manifest.file_name(row)
            for manifest, rows in zip(manifests, live_rows(manifests), strict=True)
            for row in rows.tolist()
        ]
        assert Counter(found) == names
    listed = read_records(directory / "manifest" / table.snapshot()["baseManifestList"])
    for record in listed:
        path = directory / "manifest" / record["_FILE_NAME"]
        entries_in_file = read_records(path)
        assert record["_FILE_SIZE"] == path.stat().st_size
        assert (record["_NUM_ADDED_FILES"], record["_NUM_DELETED_FILES"]) == (len(entries_in_file), 0)
        assert record["_MIN_BUCKET"] == min(each["_BUCKET"] for each in entries_in_file)


def test_an_attempt_after_a_lost_race_merges_nothing(golden: GoldenWarehouse, tmp_path: Path) -> None:
    """It has to be quick, or it loses again; the next commit merges."""
    directory = golden.copy("codec_null", tmp_path)
    table = open_table(tmp_path, "codec_null")
    like, before = table.entries()[0], files_below(directory)

    def count() -> int:
        return len(table.table.metadata.manifests(table.table.resolve()))

    while count() < 30:
        table.committer.commit(added(like, f"data-{count()}.parquet"))

    class Overtaken(Writing):
        """The first snapshot is not made: its name is another's."""

        def create(self, path: str, content: bytes) -> bool:
            if "/snapshot/" in path and not lost:
                lost.append(path)
                return False
            return super().create(path, content)

    lost: list[str] = []
    Committer(table.table, Overtaken(table.warehouse)).commit(added(like, "data-again.parquet"))

    assert lost
    assert count() == 31
    # The manifest that was merged in vain is gone.
    manifests = {name for name in files_below(directory) - before if name.startswith("manifest/")}
    assert manifests == named_by_snapshots(directory) - before
    table.committer.commit(added(like, "data-next.parquet"))
    assert count() == 2


class Interrupted(Writing):
    """Other writers act while snapshots are made."""

    def __init__(
        self, warehouse: Warehouse, *meanwhile: Callable[[], object], then: Callable[[], object] = int
    ) -> None:
        super().__init__(warehouse)
        self.meanwhile, self.then = list(meanwhile), [then]

    def create(self, path: str, content: bytes) -> bool:
        if "/snapshot/" in path and self.then and not self.meanwhile:
            self.then.pop()()
        return super().create(path, content)

    def replace(self, path: str, content: bytes) -> None:
        super().replace(path, content)
        while self.meanwhile:
            self.meanwhile.pop(0)()


class Late(Writing):
    """Of a writer that does not look again: its snapshot comes when it is published."""

    snapshot: tuple[str, bytes]

    def create(self, path: str, content: bytes) -> bool:
        if "/snapshot/" in path:
            self.snapshot = path, content
            raise InterruptedError
        return super().create(path, content)

    def publish(self) -> None:
        path, content = self.snapshot
        place = self.warehouse.local_path(path)
        assert place is not None
        place.write_bytes(content)


def overwriting(directory: Path, elsewhere: Path, changes: Changes) -> Callable[[], None]:
    """Return what renames another snapshot to the name of the next one, as an engine does without a lock."""
    before = files_below(directory)
    copy = elsewhere / f"{DATABASE}.db" / directory.name
    shutil.copytree(directory, copy)
    number = open_table(elsewhere, directory.name).committer.commit(changes)

    def overwrite() -> None:
        for name in files_below(copy) - before:
            (copy / name).replace(directory / name)
        assert (directory / "snapshot" / f"snapshot-{number}").exists()

    return overwrite


def names_of(table: WritableTable) -> Counter[str]:
    return Counter(entry.file.file_name for entry in table.entries())


def test_what_another_commit_was_built_on_stays_when_a_rename_overwrites_it(
    golden: GoldenWarehouse, tmp_path: Path
) -> None:
    """Without our manifests the third writer's snapshot could not be read."""
    directory = golden.copy("codec_null", tmp_path)
    table, third = open_table(tmp_path, "codec_null"), open_table(tmp_path, "codec_null")
    before, like = names_of(table), table.entries()[0]
    overwrite = overwriting(directory, tmp_path / "elsewhere", added(like, "data-foreign.parquet"))
    writing = Interrupted(
        table.warehouse, lambda: third.committer.commit(added(like, "data-third.parquet")), overwrite
    )

    made = Committer(table.table, writing).commit(added(like, "data-ours.parquet"))

    assert made == table.snapshot()["id"]
    assert named_by_snapshots(directory) <= files_below(directory)
    assert names_of(table) == before + Counter(("data-ours.parquet", "data-third.parquet"))


def test_what_another_commit_is_about_to_name_stays_when_a_rename_overwrites_it(
    golden: GoldenWarehouse, tmp_path: Path
) -> None:
    directory = golden.copy("codec_null", tmp_path)
    table, third = open_table(tmp_path, "codec_null"), open_table(tmp_path, "codec_null")
    before, like = names_of(table), table.entries()[0]
    overwrite = overwriting(directory, tmp_path / "elsewhere", added(like, "data-foreign.parquet"))
    late = Late(third.warehouse)

    def build_on_ours() -> None:
        with contextlib.suppress(InterruptedError):
            Committer(third.table, late).commit(added(like, "data-third.parquet"))

    writing = Interrupted(table.warehouse, build_on_ours, overwrite, then=late.publish)
    made = Committer(table.table, writing).commit(added(like, "data-ours.parquet"))

    assert made == table.snapshot()["id"]
    assert named_by_snapshots(directory) <= files_below(directory)
    assert names_of(table) == before + Counter(("data-ours.parquet", "data-third.parquet"))


def test_a_snapshot_that_was_overwritten_is_made_again(golden: GoldenWarehouse, tmp_path: Path) -> None:
    directory = golden.copy("codec_null", tmp_path)
    table = open_table(tmp_path, "codec_null")
    before, like = names_of(table), table.entries()[0]
    overwrite = overwriting(directory, tmp_path / "elsewhere", added(like, "data-foreign.parquet"))

    Committer(table.table, Interrupted(table.warehouse, overwrite)).commit(added(like, "data-ours.parquet"))

    assert names_of(table) == before + Counter(("data-ours.parquet", "data-foreign.parquet"))


def test_nobody_knows_of_changes_that_no_longer_fit_once_their_snapshot_was_overwritten(
    golden: GoldenWarehouse, tmp_path: Path
) -> None:
    """Whoever has read the snapshot may still build on it, so files that it names have to stay."""
    directory = golden.copy("append_embedded", tmp_path)
    table = open_table(tmp_path, "append_embedded")
    old, before = table.entries()[0], files_below(directory)
    overwrite = overwriting(
        directory,
        tmp_path / "elsewhere",
        Changes(CommitKind.OVERWRITE, (replace(old, kind=FileKind.DELETE),)),
    )
    ours: set[str] = set()

    def look() -> None:
        ours.update(name for name in files_below(directory) - before if name.startswith("manifest/"))

    with pytest.raises(
        UncertainCommitError, match=r"overwritten.*removed or changed by another commit.*run it again"
    ):
        Committer(table.table, Interrupted(table.warehouse, look, overwrite)).commit(
            replaced(old, without_index(old))
        )

    assert ours
    assert ours <= files_below(directory)


def test_the_first_snapshot_of_a_table(golden: GoldenWarehouse, tmp_path: Path) -> None:
    golden.copy("append_embedded", tmp_path)
    golden.copy("empty", tmp_path)
    like = open_table(tmp_path, "append_embedded").entries()[0]
    table = open_table(tmp_path, "empty")
    assert table.table.resolve().snapshot is None

    assert table.committer.commit(added(like, "data-first-0.parquet")) == 1

    assert [entry.file.file_name for entry in table.entries()] == ["data-first-0.parquet"]
    assert table.snapshot()["totalRecordCount"] == like.file.row_count


def test_what_may_be_in_use_stays_where_the_answer_about_the_snapshot_is_lost(
    golden: GoldenWarehouse,
) -> None:
    directory = golden.table("codec_null")
    keys = {
        f"w/{DATABASE}.db/codec_null/{name}": (directory / name).read_bytes()
        for name in files_below(directory)
    }
    before = len(keys)
    latest = int((directory / "snapshot" / "LATEST").read_text())
    is_down = True
    new = f"w/{DATABASE}.db/codec_null/snapshot/snapshot-{latest + 1}"
    store = Store(keys, lambda key: Fault.RESET if is_down and key == new and key in store.objects else None)
    with store.serving() as options:
        retry = RetryPolicy(first_wait_seconds=0)
        warehouse = Warehouse("w", f"s3://{BUCKET}/w", options=options, retry=retry)
        table = WritableTable.of(warehouse, "codec_null")
        like = table.entries()[0]
        committer = table.committer

        with pytest.raises(UncertainCommitError, match=f"names commitUser {committer.user}"):
            committer.commit(added(like, "data-new-0.parquet"))
        is_down = False

        assert table.snapshot()["commitUser"] == committer.user
        assert "data-new-0.parquet" in {entry.file.file_name for entry in table.entries()}
    # A manifest, two lists and the snapshot; no hint.
    assert len(store.objects) == before + 4


def race(tables: list[WritableTable], rounds: int) -> None:
    """Every table, which are one, commits a file in every round, at the same time as the others."""
    like = tables[0].entries()[0]
    before = {entry.file.file_name for entry in tables[0].entries()}
    first = tables[0].snapshot()["id"]
    start = threading.Barrier(len(tables))

    def commit(number: int) -> list[int]:
        made = []
        for at in range(rounds):
            start.wait(60)
            changes = added(like, f"data-{number}-{at}.parquet")
            made.append(Committer(tables[number].table, tables[number].committer.writing).commit(changes))
        return made

    with ThreadPoolExecutor(len(tables)) as threads:
        made = [snapshot for each in threads.map(commit, range(len(tables))) for snapshot in each]

    assert sorted(made) == list(range(first + 1, first + 1 + len(tables) * rounds))
    names = [entry.file.file_name for entry in tables[0].entries()]
    expected = before | {
        f"data-{number}-{at}.parquet" for number in range(len(tables)) for at in range(rounds)
    }
    assert len(names) == len(expected)
    assert set(names) == expected


def test_two_committers_at_once_lose_nothing(golden: GoldenWarehouse, tmp_path: Path) -> None:
    directory = golden.copy("codec_null", tmp_path)
    before = files_below(directory)

    race([open_table(tmp_path, "codec_null") for _ in range(2)], rounds=15)

    # Of attempts that lost nothing is left.
    made = files_below(directory) - before
    assert {name for name in made if name.startswith("manifest/")} == named_by_snapshots(directory) - before
    assert len([name for name in made if name.startswith("snapshot/")]) == 30


def test_two_committers_at_once_on_s3_lose_nothing(golden: GoldenWarehouse) -> None:
    bucket = f"race-{uuid.uuid4()}"
    directory = golden.table("codec_null")
    content = {
        f"w/{DATABASE}.db/codec_null/{name}": (directory / name).read_bytes()
        for name in files_below(directory)
    }
    with s3_server.serve(bucket, content) as options:

        def opened() -> WritableTable:
            warehouse = Warehouse("main", f"s3://{bucket}/w", options=options, readers=Readers(2))
            return WritableTable.of(warehouse, "codec_null")

        # Enough that manifests are merged.
        race([opened(), opened()], rounds=6)
