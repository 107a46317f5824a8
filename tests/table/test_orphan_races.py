"""Other writers of the table, at work while its orphans are told."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from app.errors import CorruptMetadataError, SnapshotExpiredError
from app.storage import Warehouse
from app.table import OrphanSearch
from tests.table.index_tables import DAY, NOW, IndexTable, ReaderOf, find, orphans_of, paths_of


class WatchedWarehouse(Warehouse):
    """Tells what is about to be read or listed."""

    def __init__(self, root: Path, before: Callable[[str], None]) -> None:
        super().__init__("w", str(root))
        self.before = before

    def read_start(self, path: str, count: int) -> bytes:
        self.before(path)
        return super().read_start(path, count)

    def list_names(self, directory: str) -> list[str]:
        self.before(directory)
        return super().list_names(directory)


@pytest.fixture
def table(tmp_path: Path) -> IndexTable:
    return IndexTable.make(tmp_path)


def watched(table: IndexTable, reader_of: ReaderOf, path: str, action: Callable[[], object]) -> OrphanSearch:
    """Does something when a path below the table is first read or listed."""
    actions = [action]

    def before(asked: str) -> None:
        if asked == f"db.db/t/{path}" and actions:
            actions.pop()()

    return orphans_of(WatchedWarehouse(table.root, before), reader_of)


def test_a_commit_after_the_files_were_listed(table: IndexTable, reader_of: ReaderOf) -> None:
    manifest = table.index_manifest(table.index_file())
    files = watched(table, reader_of, "snapshot", lambda: table.version("snapshot/snapshot-1", manifest))

    assert files.find(DAY, NOW).found == ()


@pytest.mark.parametrize("kept", ["tag/tag-kept", "branch/branch-kept/snapshot/snapshot-1"])
def test_a_snapshot_that_lives_on_in_a_tag_or_branch(
    table: IndexTable, reader_of: ReaderOf, kept: str
) -> None:
    manifest = table.index_manifest(table.index_file())
    snapshot = table.version("snapshot/snapshot-1", manifest)

    def keep_and_expire() -> None:
        table.version(kept, manifest)
        table.delete(snapshot)

    # Everything is listed by then.
    files = watched(table, reader_of, snapshot, keep_and_expire)

    assert files.find(DAY, NOW).found == ()


@pytest.mark.parametrize("is_read", ["snapshot/snapshot-1", "the index manifest"])
def test_a_snapshot_that_expires(table: IndexTable, reader_of: ReaderOf, is_read: str) -> None:
    index_file = table.index_file()
    manifest = table.index_manifest(index_file)
    snapshot = table.version("snapshot/snapshot-1", manifest)
    table.version("snapshot/snapshot-2", None)

    def expire() -> None:
        for path in (index_file, manifest, snapshot):
            table.delete(path)

    place = is_read if is_read == snapshot else manifest
    orphans = watched(table, reader_of, place, expire).find(DAY, NOW)

    assert set(paths_of(orphans.found)) == {index_file, manifest}


def test_a_snapshot_that_is_about_to_expire(table: IndexTable, reader_of: ReaderOf) -> None:
    manifest = table.index_manifest(table.index_file())
    table.version("snapshot/snapshot-1", manifest)

    with pytest.raises(CorruptMetadataError, match="a snapshot, tag or branch needs it"):
        watched(table, reader_of, manifest, lambda: table.delete(manifest)).find(DAY, NOW)


def test_a_snapshot_number_that_comes_again(table: IndexTable, reader_of: ReaderOf) -> None:
    """After a rollback, another commit takes the number."""
    abandoned, manifest = table.index_manifest(), table.index_manifest(table.index_file())
    table.version("snapshot/snapshot-1", abandoned)

    def roll_back_and_commit() -> None:
        table.delete(abandoned)
        table.version("snapshot/snapshot-1", manifest)

    found = watched(table, reader_of, abandoned, roll_back_and_commit).find(DAY, NOW)

    assert paths_of(found.found) == [abandoned]
    assert find(table, reader_of) == []


def test_versions_that_never_rest(table: IndexTable, reader_of: ReaderOf) -> None:
    manifest = table.index_manifest()
    tags = [table.version("tag/tag-0", manifest)]

    def rename(asked: str) -> None:
        if asked.endswith(tags[-1]):
            tags.append(table.version(f"tag/tag-{len(tags)}", manifest))
            table.delete(tags[-2])

    with pytest.raises(SnapshotExpiredError, match="faster than they could be read"):
        orphans_of(WatchedWarehouse(table.root, rename), reader_of).find(DAY, NOW)


def test_a_tag_that_is_renamed_all_the_time(table: IndexTable, reader_of: ReaderOf) -> None:
    """A real thread, at no chosen moment: what the tag names is never an orphan."""
    used = table.index_file()
    manifest = table.index_manifest(used)
    table.version("tag/tag-0", manifest)
    done = threading.Event()

    def rename() -> None:
        number = 0
        while not done.is_set():
            number += 1
            table.version(f"tag/tag-{number}", manifest)
            table.delete(f"tag/tag-{number - 1}")

    writer = threading.Thread(target=rename)
    writer.start()
    try:
        for _ in range(20):
            stray = table.index_file()
            try:
                found = paths_of(table.orphans(reader_of).find(DAY, NOW).found)
            except SnapshotExpiredError:
                continue
            assert stray in found
            assert not {used, manifest} & {*found}
    finally:
        done.set()
        writer.join()
