"""Pruning a shared cache: what is old goes, what is not an object of it stays."""

import datetime as dt
import os
from pathlib import Path

import pytest

from app.observation import StorageOperation
from app.storage import Warehouse
from app.storage.shared_object import key_name, object_name
from app.storage.shared_upkeep import Pruned, prune_shared
from tests import s3_server

NOW = dt.datetime.now(dt.UTC)
OLD, NEW, OTHER = object_name(b"old"), object_name(b"new"), "README"


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    for path, days in (
        (f"1/{OLD}", 40),
        (f"2/{OLD}", 40),
        (f"1/{NEW}", 2),
        (f"1/{OTHER}", 40),
        (f"x/{OLD}", 40),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(b"12345")
        written = (NOW - dt.timedelta(days=days)).timestamp()
        os.utime(tmp_path / path, (written, written))
    return tmp_path


def files(directory: Path) -> set[str]:
    return {path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()}


def test_old_objects_of_all_formats_go(prefix: Path) -> None:
    before = files(prefix)
    cut = NOW - dt.timedelta(days=30)

    assert prune_shared(Warehouse("shared", str(prefix)), cut, is_tried=True) == Pruned(2, 10, 1, 5)
    assert files(prefix) == before
    assert prune_shared(Warehouse("shared", str(prefix)), cut, is_tried=False) == Pruned(2, 10, 1, 5)
    assert before - files(prefix) == {f"1/{OLD}", f"2/{OLD}"}


def test_objects_of_all_keys_go(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    for key in (b"", b"one key", b"another key"):
        (tmp_path / "1" / f"{OLD}{key_name(key)}").write_bytes(b"12345")
    store, cut = Warehouse("shared", str(tmp_path)), NOW + dt.timedelta(days=1)
    assert prune_shared(store, cut, is_tried=False) == Pruned(3, 15, 0, 0)
    assert not files(tmp_path)


class KilledError(BaseException):
    """Ends a writer where a signal would."""


def test_the_draft_of_a_writer_that_was_killed_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(_file: int) -> None:
        raise KilledError

    store, cut = Warehouse("shared", str(tmp_path)), NOW + dt.timedelta(days=1)
    monkeypatch.setattr(os, "fsync", die)
    with pytest.raises(KilledError):
        store.ask(StorageOperation.WRITE, f"1/{OLD}", lambda found, place: found.create(place, b"12345"))
    assert len(files(tmp_path)) == 1

    assert prune_shared(store, cut, is_tried=False) == Pruned(1, 5, 0, 0)
    assert not files(tmp_path)


def test_a_prefix_that_is_not_there_has_nothing(tmp_path: Path) -> None:
    assert prune_shared(Warehouse("shared", f"{tmp_path}/none"), NOW, is_tried=False) == Pruned(0, 0, 0, 0)


def test_a_store_tells_when_objects_were_written() -> None:
    with s3_server.serve("shared-upkeep", {f"prefix/1/{OLD}": b"123", "prefix/else": b"4"}) as options:
        store = Warehouse("shared", "s3://shared-upkeep/prefix", options=options)
        assert prune_shared(store, NOW - dt.timedelta(days=1), is_tried=False) == Pruned(0, 0, 1, 3)
        assert prune_shared(store, NOW + dt.timedelta(days=1), is_tried=False) == Pruned(1, 3, 0, 0)
        assert store.list_names("") == ["else"]
