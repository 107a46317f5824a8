import datetime as dt
import os
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import numpy as np
import pytest
from fsspec.implementations.local import LocalFileSystem

from app.errors import FileMissingError, PathNotAllowedError, StorageError
from app.storage import Maintenance, RetryPolicy, StoredFile, Warehouse
from app.storage.array_file import ArrayFile, Block, array_file_parts
from app.storage.locations import Root
from app.storage.mapped_files import Look, MappedFiles

WRITTEN = dt.datetime(2024, 2, 29, 12, 30, tzinfo=dt.UTC)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A warehouse with a few files, all of them written at one time."""
    root = tmp_path / "warehouse"
    for path, content in {"t/b": b"22", "t/a": b"1", "t/below/c": b"333", "t/below/deep/d": b""}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
        os.utime(root / path, (WRITTEN.timestamp(), WRITTEN.timestamp()))
    return root


def open_root(root: Path, **options: Any) -> Maintenance:
    return Maintenance(Warehouse("w", str(root), **options))


def test_contents_are_files_with_size_and_time_and_directories(root: Path) -> None:
    found = open_root(root).contents("t")

    assert found.files == (StoredFile("t/a", 1, WRITTEN), StoredFile("t/b", 2, WRITTEN))
    assert found.directories == ("t/below",)
    assert [file.name for file in found.files] == ["a", "b"]


@pytest.mark.parametrize("directory", ["none", "t/none/below", "t/a"])
def test_what_is_no_directory_has_no_contents(root: Path, directory: str) -> None:
    found = open_root(root).contents(directory)

    assert (found.files, found.directories) == ((), ())


def test_a_walk_comes_to_every_depth_and_follows_no_link(root: Path) -> None:
    (root / "t" / "below" / "link").symlink_to(root / "t")

    walked = open_root(root).walk("t")

    assert walked == ["t/a", "t/b", "t/below/c", "t/below/link", "t/below/deep/d"]


def test_a_walk_tells_files_that_go_away_while_they_are_listed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ls = LocalFileSystem.ls

    def list_then_lose(filesystem: LocalFileSystem, path: str, **options: Any) -> list[Any]:
        found: list[Any] = ls(filesystem, path, **options)
        if (root / "t" / "a").exists():
            (root / "t" / "a").rename(root / "t" / "z")
        return found

    monkeypatch.setattr(LocalFileSystem, "ls", list_then_lose)

    assert open_root(root).walk("t")[:3] == ["t/a", "t/b", "t/z"]


def test_deleting(root: Path) -> None:
    maintenance = open_root(root)

    maintenance.delete("t/a")

    assert not (root / "t" / "a").exists()
    assert (root / "t" / "b").exists()
    with pytest.raises(FileMissingError, match="t/a"):
        maintenance.delete("t/a")


def test_a_directory_is_not_deleted(root: Path) -> None:
    with pytest.raises(StorageError, match="t/below"):
        open_root(root).delete("t/below")
    assert (root / "t" / "below" / "c").exists()


def test_of_a_link_only_the_link_is_deleted(root: Path) -> None:
    (root / "t" / "link").symlink_to(root / "t" / "a")

    open_root(root).delete("t/link")

    assert not (root / "t" / "link").is_symlink()
    assert (root / "t" / "a").exists()


@pytest.mark.parametrize("path", ["", "../outside/x", "t/../../outside/x", "/etc/passwd", "t//a", "way/x"])
def test_nothing_outside_of_the_warehouse_is_touched(root: Path, path: str) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "x").write_bytes(b"")
    (root / "way").symlink_to(outside)
    maintenance = open_root(root)

    with pytest.raises(PathNotAllowedError):
        maintenance.delete(path)
    with pytest.raises(PathNotAllowedError):
        maintenance.contents(path)
    assert (outside / "x").exists()


def test_external_roots_are_only_read(root: Path, tmp_path: Path) -> None:
    (tmp_path / "external").mkdir()
    (tmp_path / "external" / "x").write_bytes(b"x")
    uri = f"file:{tmp_path}/external/x"
    maintenance = open_root(root, allow_external=[str(tmp_path / "external")])

    assert maintenance.warehouse.read(uri) == b"x"
    with pytest.raises(PathNotAllowedError, match="no path inside of the warehouse"):
        maintenance.delete(uri)


class Refusing(LocalFileSystem):  # type: ignore[misc] # fsspec is untyped
    """Fails a few times, then for good."""

    cachable = False

    def __init__(self, errors: list[OSError]) -> None:
        super().__init__()
        self.errors = errors

    def rm_file(self, path: str) -> None:
        if self.errors:
            raise self.errors.pop(0)
        super().rm_file(path)


def refusing(root: Path, monkeypatch: pytest.MonkeyPatch, *errors: OSError) -> Maintenance:
    filesystem = Refusing(list(errors))
    monkeypatch.setattr(fsspec, "filesystem", lambda *_, **__: filesystem)
    retry = RetryPolicy(attempts=3, first_wait_seconds=0, max_wait_seconds=0)
    return open_root(root, retry=retry)


def test_deletions_are_repeated(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusing(root, monkeypatch, OSError("reset"), TimeoutError()).delete("t/a")

    assert not (root / "t" / "a").exists()


def test_a_refused_deletion_names_the_file(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maintenance = refusing(root, monkeypatch, PermissionError("read-only"))

    with pytest.raises(StorageError, match=r"cannot delete t/a: PermissionError$") as caught:
        maintenance.delete("t/a")
    assert caught.value.path == "t/a"


def test_a_warehouse_in_memory() -> None:
    url = f"memory://{uuid4()}"
    files = Root.open(url).filesystem
    for name in ("a", "below/b"):
        files.pipe_file(f"{url}/t/{name}", b"12")
    before = dt.datetime.now(dt.UTC) - dt.timedelta(minutes=1)
    maintenance = Maintenance(Warehouse("w", url))

    found = maintenance.contents("t")
    maintenance.delete("t/a")

    assert [(file.path, file.size, file.modified > before) for file in found.files] == [("t/a", 2, True)]
    assert found.directories == ("t/below",)
    assert maintenance.walk("t") == ["t/below/b"]


@pytest.mark.parametrize(
    ("member", "message"),
    [({}, "does not tell when t/a was written"), ({"mtime": 1e300}, "t/a was written at an impossible time")],
)
def test_a_file_without_a_time_is_an_error(
    root: Path, monkeypatch: pytest.MonkeyPatch, member: dict[str, Any], message: str
) -> None:
    entries = [{"name": f"{root}/t/a", "size": 1, "type": "file", **member}]
    monkeypatch.setattr(LocalFileSystem, "ls", lambda *_, **__: entries)

    with pytest.raises(StorageError, match=message):
        open_root(root).contents("t")


def test_times_without_a_zone_are_universal(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {"name": f"{root}/t/a", "size": 1, "type": "file", "LastModified": WRITTEN.replace(tzinfo=None)}
    monkeypatch.setattr(LocalFileSystem, "ls", lambda *_, **__: [entry])

    assert open_root(root).contents("t").files[0].modified == WRITTEN


KEY = b"key"
GROUP = "table"
MIB = 1 << 20
PATIENCE_SECONDS = 60
NAMES = [f"block {number}" for number in range(8)]


class Held:
    """A file of arrays that somebody uses."""

    def __init__(self, directory: Path, mapped: MappedFiles) -> None:
        self.path = directory / "file"
        blocks = {name: Block({"x": np.zeros(MIB, np.uint8)}, None) for name in NAMES}
        self.path.write_bytes(b"".join(array_file_parts(KEY, blocks)))
        self.file, _ = ArrayFile.map(str(self.path), KEY)
        mapped.add(GROUP, self.file.file)
        self.arrays = [self.file.block(name).arrays["x"] for name in NAMES[:-1]]

    def damage(self, block: int) -> None:
        with self.path.open("r+b") as file:
            file.seek(self.path.stat().st_size - (len(NAMES) - block) * MIB)
            file.write(b"\1")


@pytest.fixture
def mapped() -> MappedFiles:
    return MappedFiles()


@pytest.fixture
def held(tmp_path: Path, mapped: MappedFiles) -> Held:
    return Held(tmp_path, mapped)


@pytest.mark.parametrize("block", [0, 3, 6])
def test_blocks_are_verified_in_turn(held: Held, mapped: MappedFiles, block: int) -> None:
    for _ in NAMES:
        assert mapped.look(GROUP, Look.SOME) == ([], 0)

    held.damage(block)

    give_up = time.monotonic() + PATIENCE_SECONDS
    while (found := mapped.look(GROUP, Look.SOME)) == ([], 0):
        assert time.monotonic() < give_up
    assert found == ([held.file.file], 1)
    # Those who have used the file meanwhile see that one more was lost.
    assert mapped.look(GROUP, Look.SOME) == ([], 1)


def test_all_are_verified_where_something_went_wrong(held: Held, mapped: MappedFiles) -> None:
    assert mapped.look(GROUP, Look.ALL) == ([], 0)

    held.damage(6)

    assert mapped.look("another table", Look.ALL) == ([], 0)
    assert mapped.look(GROUP, Look.NONE) == ([], 0)
    assert mapped.look(GROUP, Look.ALL) == ([held.file.file], 1)


def test_what_nobody_asked_for_is_not_read(held: Held, mapped: MappedFiles) -> None:
    held.damage(7)

    assert mapped.look(GROUP, Look.ALL) == ([], 0)


def test_verifying_holds_nothing(held: Held, mapped: MappedFiles) -> None:
    mapped.look(GROUP, Look.SOME)
    held.damage(0)
    file = held.file.file
    held.arrays.clear()
    del held.file

    assert not file.is_held
    assert mapped.look(GROUP, Look.ALL) == ([], 0)


@pytest.mark.parametrize("size", [0, MIB, 100 * MIB])
def test_a_file_that_was_cut_is_not_looked_at(held: Held, mapped: MappedFiles, size: int) -> None:
    with held.path.open("r+b") as file:
        file.truncate(size)

    assert mapped.look(GROUP, Look.LENGTHS) == ([held.file.file], 1)


def test_a_file_that_was_cut_is_damaged(held: Held, mapped: MappedFiles) -> None:
    with held.path.open("r+b") as file:
        file.truncate(MIB)

    assert mapped.look(GROUP, Look.ALL) == ([held.file.file], 1)


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_file_without_its_name_cannot_be_cut(held: Held, mapped: MappedFiles, *, is_replaced: bool) -> None:
    held.path.unlink()
    if is_replaced:
        held.path.write_bytes(b"another one")

    assert mapped.look(GROUP, Look.LENGTHS) == ([], 0)
    assert mapped.look(GROUP, Look.ALL) == ([], 0)
