"""Files that are made once: of several writers of one name exactly one succeeds."""

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.errors import PathNotAllowedError, StorageError
from app.storage import RetryPolicy, Warehouse
from app.storage.writing import Writing
from tests import s3_server
from tests.faulty_store import BUCKET, Fault, Store


@contextmanager
def opened(kind: str, directory: Path) -> Iterator[Warehouse]:
    if kind == "s3":
        bucket = f"written-{uuid.uuid4()}"
        with s3_server.serve(bucket, {}) as options:
            yield Warehouse("main", f"s3://{bucket}/warehouse", options=options)
        return
    yield Warehouse("main", str(directory))


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_of_writers_of_one_name_one_succeeds(kind: str, tmp_path: Path) -> None:
    contents = [b"writer %d" % number for number in range(16)]
    with opened(kind, tmp_path) as warehouse, ThreadPoolExecutor(8) as threads:
        writing = Writing(warehouse)
        won = list(
            threads.map(lambda content: writing.create("db.db/t/snapshot/snapshot-1", content), contents)
        )

        assert won.count(True) == 1
        assert warehouse.read("db.db/t/snapshot/snapshot-1") == contents[won.index(True)]
        assert warehouse.list_names("db.db/t/snapshot") == ["snapshot-1"]


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_a_repeated_call_finds_its_own_file(kind: str, tmp_path: Path) -> None:
    with opened(kind, tmp_path) as warehouse:
        writing = Writing(warehouse)
        assert writing.create("db.db/t/a", b"ours")
        assert writing.create("db.db/t/a", b"ours")
        assert not writing.create("db.db/t/a", b"another")


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_hints_are_replaced_and_files_deleted(kind: str, tmp_path: Path) -> None:
    with opened(kind, tmp_path) as warehouse:
        writing = Writing(warehouse)
        writing.replace("db.db/t/snapshot/LATEST", b"1")
        writing.replace("db.db/t/snapshot/LATEST", b"2")
        assert warehouse.read("db.db/t/snapshot/LATEST") == b"2"
        writing.delete("db.db/t/snapshot/LATEST")
        writing.delete("db.db/t/snapshot/LATEST")
        assert warehouse.list_names("db.db/t/snapshot") == []


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_files_below_a_directory_are_listed_at_every_depth(kind: str, tmp_path: Path) -> None:
    with opened(kind, tmp_path) as warehouse:
        writing = Writing(warehouse)
        paths = ["db.db/t/a", "db.db/t/below/b", "db.db/t/below/deep/c"]
        for path in paths:
            writing.create(path, b"1")

        assert sorted(writing.files_below("db.db/t")) == paths
        assert writing.files_below("db.db/none") == []
        assert writing.files_below("db.db/t/a") == []


def test_links_are_listed_and_deleted_not_followed(tmp_path: Path) -> None:
    writing = Writing(Warehouse("main", str(tmp_path)))
    writing.create("t/below/c", b"1")
    (tmp_path / "t" / "link").symlink_to(tmp_path / "t")

    assert sorted(writing.files_below("t")) == ["t/below/c", "t/link"]
    writing.delete("t/link")

    assert writing.files_below("t") == ["t/below/c"]


def test_nothing_outside_of_the_warehouse_is_listed(tmp_path: Path) -> None:
    with pytest.raises(PathNotAllowedError):
        Writing(Warehouse("main", str(tmp_path / "inside"))).files_below("../outside")


def test_nothing_is_written_outside_of_the_warehouse(tmp_path: Path) -> None:
    writing = Writing(Warehouse("main", str(tmp_path / "inside")))
    for path in ("../outside", f"file://{tmp_path}/outside"):
        with pytest.raises(PathNotAllowedError):
            writing.create(path, b"")
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="cannot write file/below"):
        Writing(Warehouse("main", str(tmp_path))).create("file/below", b"")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_lost_answer_is_no_lost_file() -> None:
    faults = [Fault.RESET]
    store = Store({}, lambda _: faults.pop() if faults else None)
    with store.serving() as options:
        retry = RetryPolicy(first_wait_seconds=0)
        writing = Writing(Warehouse("w", f"s3://{BUCKET}/w", options=options, retry=retry))
        assert writing.create("db.db/t/snapshot/snapshot-1", b"ours")
        assert not writing.create("db.db/t/snapshot/snapshot-1", b"another")
        writing.delete("db.db/t/snapshot/snapshot-1")
        assert writing.create("db.db/t/snapshot/snapshot-1", b"another")
    assert store.objects == {"w/db.db/t/snapshot/snapshot-1": b"another"}
