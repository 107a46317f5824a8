from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

from app.errors import FileMissingError, LimitExceededError, PathNotAllowedError, SettingsError, StorageError
from app.storage import RetryPolicy, Warehouse

ODD_NAMES = ["dt=20%2F24", "dte=x%252Fy z", "ü=é", "plus+and&", "a#b?c"]


@pytest.mark.parametrize("spelling", ["{}", "file:{}", "file://{}", "file://localhost{}", "{}/"])
def test_a_local_root_may_be_spelled_in_many_ways(root: Path, spelling: str) -> None:
    warehouse = Warehouse("w", spelling.format(root))
    assert warehouse.read("db.db/t/file") == b"0123456789"
    assert warehouse.url == f"file://{root}/"


def test_reading(root: Path) -> None:
    warehouse = Warehouse("w", str(root))
    places = [(2, 3), (8, 5), (8, 0)]
    assert warehouse.read_ranges([("db.db/t/file", *place) for place in places]) == [b"234", b"89", b""]
    assert warehouse.size("db.db/t/file") == 10
    assert warehouse.exists("db.db/t/file")
    assert warehouse.exists("db.db/t")
    assert not warehouse.exists("db.db/t/other")
    assert not warehouse.exists("db.db/t/file/below")


def test_listing(root: Path) -> None:
    warehouse = Warehouse("w", str(root))
    assert warehouse.list_names("") == ["db.db"]
    assert warehouse.list_names("db.db/t") == ["file"]
    assert warehouse.list_names("db.db/none") == []
    assert warehouse.list_names("db.db/t/file") == []


@pytest.mark.parametrize("name", ODD_NAMES)
def test_names_are_taken_literally(root: Path, name: str) -> None:
    (root / name).mkdir()
    (root / name / "file").write_bytes(name.encode())
    warehouse = Warehouse("w", str(root))
    assert warehouse.read(f"{name}/file") == name.encode()
    assert name in warehouse.list_names("")


@pytest.mark.parametrize("path", ["none", "db.db", "db.db/t/file/below"])
def test_what_is_not_a_file_is_missing(root: Path, path: str) -> None:
    with pytest.raises(FileMissingError, match=path) as caught:
        Warehouse("w", str(root)).read(path)
    assert caught.value.path == path


@pytest.mark.parametrize(
    "path",
    [
        *("", "/", "/etc/passwd", "..", "../secret", "db.db/../../secret", "db.db//t", "./db.db"),
        *("db.db/.", "db.db/t/", "db.db/\x00", "db.db/a\nb", "file:/etc/passwd", "file:///etc/passwd"),
        *("s3://bucket/key", "memory://x/y", "http://127.0.0.1/x", "FILE:/etc/passwd"),
    ],
)
def test_paths_out_of_the_warehouse_are_refused(root: Path, path: str) -> None:
    warehouse = Warehouse("w", str(root))
    for operation in (warehouse.read, warehouse.exists, warehouse.size):
        with pytest.raises(PathNotAllowedError):
            operation(path)


def test_an_encoded_traversal_is_only_a_strange_name(root: Path) -> None:
    with pytest.raises(FileMissingError):
        Warehouse("w", str(root)).read("%2e%2e/secret")


def test_links_may_not_leave_the_root(root: Path, tmp_path: Path) -> None:
    (root / "db.db" / "inside").symlink_to(root / "db.db" / "t")
    (root / "outside").symlink_to(tmp_path)
    (root / "file").symlink_to(tmp_path / "secret")
    warehouse = Warehouse("w", str(root))
    assert warehouse.read("db.db/inside/file") == b"0123456789"
    for path in ("outside/secret", "file", "outside"):
        with pytest.raises(PathNotAllowedError, match="link"):
            warehouse.exists(path)
    with pytest.raises(PathNotAllowedError, match="link"):
        warehouse.list_names("outside")


def test_links_may_not_leave_their_database(root: Path) -> None:
    (root / "other.db").mkdir()
    (root / "other.db" / "link").symlink_to(root / "db.db" / "t")
    (root / "alias.db").symlink_to(root / "db.db")
    warehouse = Warehouse("w", str(root))

    for path in ("other.db/link/file", "alias.db/t/file"):
        with pytest.raises(PathNotAllowedError, match="out of its root or database"):
            warehouse.read(path)
        with pytest.raises(PathNotAllowedError, match="out of its root or database"):
            warehouse.list_names(path.removesuffix("/file"))


def test_a_link_to_itself_is_no_path(root: Path) -> None:
    (root / "loop").symlink_to(root / "loop")
    warehouse = Warehouse("w", str(root))
    for path in ("loop", "loop/file"):
        with pytest.raises(PathNotAllowedError, match="itself"):
            warehouse.read(path)


@pytest.mark.parametrize("name", ["n" * 300, "é" * 200, "/".join(["n" * 200] * 30)])
def test_no_file_has_a_name_that_the_file_system_cannot_hold(root: Path, name: str) -> None:
    warehouse = Warehouse("w", str(root))
    with pytest.raises(FileMissingError):
        warehouse.read(f"db.db/{name}")
    (found,) = warehouse.read_ranges([(f"db.db/{name}", 0, 1)])
    assert isinstance(found, FileMissingError)
    assert warehouse.list_names(f"db.db/{name}") == []
    assert not warehouse.exists(f"db.db/{name}")


def test_a_root_that_is_a_link_itself(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    assert Warehouse("w", str(tmp_path / "link")).read("db.db/t/file") == b"0123456789"


class TestExternalRoots:
    def test_a_file_under_an_allowed_root_is_read(self, root: Path, tmp_path: Path) -> None:
        (tmp_path / "external").mkdir()
        (tmp_path / "external" / "data").write_bytes(b"external")
        warehouse = Warehouse("w", str(root), allow_external=[f"file:{tmp_path}/external/"])
        assert warehouse.read(f"file:{tmp_path}/external/data") == b"external"
        assert warehouse.read(f"file://{tmp_path}/external/data") == b"external"

    def test_the_warehouse_itself_is_always_allowed(self, root: Path) -> None:
        assert Warehouse("w", str(root)).read(f"file:{root}/db.db/t/file") == b"0123456789"

    @pytest.mark.parametrize(
        ("root_of", "path"),
        [
            # A tree that was moved is read where it is now.
            ("oss://bucket/x=file:{}/moved", "oss://bucket/x/dt=1/data"),
            # An equals sign in a root is part of it.
            ("file:{}/moved/dt=1", "file:{}/moved/dt=1/data"),
        ],
    )
    def test_an_equals_sign_names_the_place_of_a_moved_tree(
        self, root: Path, tmp_path: Path, root_of: str, path: str
    ) -> None:
        (tmp_path / "moved" / "dt=1").mkdir(parents=True)
        (tmp_path / "moved" / "dt=1" / "data").write_bytes(b"moved")
        warehouse = Warehouse("w", str(root), allow_external=[root_of.format(tmp_path)])
        assert warehouse.read(path.format(tmp_path)) == b"moved"

    @pytest.mark.parametrize("tail", ["-sibling/data", "/../secret", "", "/", "/./data", "//data"])
    def test_what_only_looks_like_it_is_refused(self, root: Path, tmp_path: Path, tail: str) -> None:
        warehouse = Warehouse("w", str(root), allow_external=[f"file:{tmp_path}/external"])
        with pytest.raises(PathNotAllowedError):
            warehouse.read(f"file:{tmp_path}/external{tail}")

    def test_links_may_not_leave_an_external_root(self, root: Path, tmp_path: Path) -> None:
        (tmp_path / "external").mkdir()
        (tmp_path / "external" / "link").symlink_to(tmp_path / "secret")
        warehouse = Warehouse("w", str(root), allow_external=[f"file:{tmp_path}/external"])
        with pytest.raises(PathNotAllowedError, match="link"):
            warehouse.read(f"file:{tmp_path}/external/link")

    def test_the_refusal_says_how_to_allow(self, root: Path) -> None:
        with pytest.raises(PathNotAllowedError, match=r"--allow-external URL or PAIMON_INDEX_ALLOW_EXTERNAL"):
            Warehouse("w", str(root)).read("s3://bucket/key")


def test_the_byte_limit(root: Path) -> None:
    exact, tight = (Warehouse("w", str(root), max_file_bytes=limit) for limit in (10, 9))
    assert exact.read("db.db/t/file") == b"0123456789"
    with pytest.raises(LimitExceededError, match=r"db\.db/t/file") as caught:
        tight.read("db.db/t/file")
    assert caught.value.limit == 9
    most, too_long, none = tight.read_ranges(
        [("db.db/t/file", *place) for place in [(1, 9), (0, 10), (-1, 5)]]
    )
    assert most == b"123456789"
    assert isinstance(too_long, LimitExceededError)
    assert isinstance(none, StorageError)


def test_a_protocol_that_nothing_reads(root: Path) -> None:
    for arguments in ({"url": "gopher://host/x"}, {"url": str(root), "allow_external": ["gopher://host/x"]}):
        with pytest.raises(SettingsError, match="cannot open gopher://host/x"):
            Warehouse("w", **arguments)


def test_memory() -> None:
    files = fsspec.filesystem("memory")
    files.pipe_file("/test-warehouse/db.db/t/file", b"0123456789")
    warehouse = Warehouse("w", "memory://test-warehouse")
    assert warehouse.read("db.db/t/file") == b"0123456789"
    assert warehouse.list_names("db.db") == ["t"]
    assert warehouse.list_names("") == ["db.db"]
    assert warehouse.list_names("none") == []
    with pytest.raises(FileMissingError):
        warehouse.read("db.db/t/none")


class UnreliableFileSystem(LocalFileSystem):  # type: ignore[misc]
    """Local files behind a line that drops every other call."""

    protocol = "unreliable"
    calls = 0

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        type(self).calls += 1
        if self.calls % 2:
            raise ConnectionResetError("dropped")
        content: bytes = super().cat_file(path.removeprefix("unreliable:/"), start, end, **options)
        return content

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + path.removeprefix("unreliable://").strip("/")


def test_dropped_calls_are_repeated(root: Path) -> None:
    fsspec.register_implementation("unreliable", UnreliableFileSystem, clobber=True)
    quick = RetryPolicy(first_wait_seconds=0)
    warehouse = Warehouse("w", f"unreliable:/{root}", retry=quick)
    assert warehouse.read("db.db/t/file") == b"0123456789"
    assert UnreliableFileSystem.calls == 2
