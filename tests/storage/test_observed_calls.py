"""What storage tells of its calls and caches."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.errors import FileMissingError, PathNotAllowedError, StorageError
from app.observation import Observer, StorageCall, StorageOperation, observed_by
from app.storage import ByteCache, RetryPolicy, Warehouse
from app.storage.writing import Writing

QUICK = RetryPolicy(attempts=3, first_wait_seconds=0, max_wait_seconds=0)


class Calls(Observer):
    def __init__(self) -> None:
        self.calls: list[tuple[str, str, int, type | None, bool]] = []
        self.asked: list[tuple[str, int, int]] = []

    def storage_called(self, call: StorageCall) -> None:
        assert call.seconds >= 0
        error = type(call.error) if call.error else None
        self.calls.append((call.operation.value, call.path, call.size_bytes, error, call.is_repeated))

    def cache_asked(self, cache: str, hits: int, misses: int) -> None:
        self.asked.append((cache, hits, misses))


@pytest.fixture
def told() -> Iterator[Calls]:
    calls = Calls()
    with observed_by(calls):
        yield calls


def test_each_call_is_told_with_its_bytes(told: Calls, tmp_path: Path) -> None:
    (tmp_path / "db.db").mkdir()
    (tmp_path / "db.db" / "file").write_bytes(b"0123456789")
    warehouse = Warehouse("w", str(tmp_path))

    warehouse.read("db.db/file")
    warehouse.list_names("db.db")
    warehouse.size("db.db/file")
    warehouse.read_ranges([("db.db/file", 2, 3)])
    warehouse.readers.close()

    assert told.calls == [
        ("read", "db.db/file", 10, None, False),
        ("list", "db.db", 0, None, False),
        ("stat", "db.db/file", 0, None, False),
        ("read_range", "db.db/file", 3, None, False),
    ]


def test_writing_and_deleting_is_told(told: Calls, tmp_path: Path) -> None:
    writing = Writing(Warehouse("w", str(tmp_path)))

    writing.create("db.db/file", b"0123456789")
    writing.delete("db.db/file")

    assert told.calls == [
        ("write", "db.db/file", 0, None, False),
        ("delete", "db.db/file", 0, None, False),
    ]


def test_a_path_that_is_refused_is_no_failure_of_storage(told: Calls, tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "out").symlink_to(tmp_path)

    with pytest.raises(PathNotAllowedError):
        Warehouse("w", str(tmp_path / "w")).read("out/secret")

    assert told.calls == [("read", "out/secret", 0, None, False)]


def test_repeated_calls_and_their_errors_are_told(told: Calls) -> None:
    errors: list[Exception] = [ConnectionResetError(), TimeoutError()]

    def read() -> bytes:
        if errors:
            raise errors.pop(0)
        return b"content"

    assert QUICK.call("file", read, kind=StorageOperation.READ_RANGE) == b"content"
    assert told.calls == [
        ("read_range", "file", 0, ConnectionResetError, False),
        ("read_range", "file", 0, TimeoutError, True),
        ("read_range", "file", 7, None, True),
    ]


def test_a_missing_file_is_told_once(told: Calls, tmp_path: Path) -> None:
    with pytest.raises(FileMissingError):
        Warehouse("w", str(tmp_path)).read("nothing")

    assert told.calls == [("read", "nothing", 0, FileNotFoundError, False)]


@pytest.mark.parametrize("kind", [StorageOperation.LIST, StorageOperation.DELETE, StorageOperation.STAT])
def test_messages_say_what_was_tried(kind: StorageOperation) -> None:
    verb = {StorageOperation.STAT: "read"}.get(kind, kind.value)

    def fail() -> bytes:
        raise PermissionError

    with pytest.raises(StorageError, match=f"cannot {verb} file"):
        QUICK.call("file", fail, kind=kind)


def test_what_caches_find_is_told(told: Calls) -> None:
    cache: ByteCache[bytes] = ByteCache("test", 100, len)

    cache.get_or_load("a", lambda: b"a")
    cache.get_or_load("a", lambda: b"a")
    cache.get_many(["a", "b"])

    assert told.asked == [("test", 0, 1), ("test", 1, 0), ("test", 1, 1)]
