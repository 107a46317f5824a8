from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import FileMissingError, PathNotAllowedError, RequestError
from app.storage import Warehouse
from app.storage.locations import normal_uri, without_credentials
from app.storage.stores import LocalFiles


@given(
    st.lists(
        st.sampled_from(["a", "file", "inside", "aside", "outside", "away", "loop"]), min_size=1, max_size=4
    )
)
def test_what_is_opened_is_refused_where_its_links_would_be(segments: list[str]) -> None:
    with TemporaryDirectory() as name:
        root = Path(name).resolve() / "w"
        (root / "a" / "a").mkdir(parents=True)
        (root / "b").mkdir()
        (root / "b" / "file").write_bytes(b"another's")
        for directory in (root, root / "a"):
            (directory / "file").write_bytes(b"inside")
            (directory / "inside").symlink_to(root / "a")
            (directory / "aside").symlink_to(root / "b")
            (directory / "outside").symlink_to(root.parent)
            (directory / "away").symlink_to(root.parent / "file")
            (directory / "loop").symlink_to("loop")
        (root.parent / "file").write_bytes(b"outside")
        for home in (root, root.parent / "link"):
            (root.parent / "link").unlink(missing_ok=True)
            (root.parent / "link").symlink_to(root)
            files, path = LocalFiles(str(home)), "/".join(segments)
            for files.has_databases in (False, True):
                assert _outcome(path, partial(files.read, start=0, end=9)) == _outcome(
                    path, partial(_read_checked, files)
                )


def _read_checked(files: LocalFiles, path: str) -> bytes:
    return Path(files.path_of(path)).read_bytes()


def _outcome(path: str, read: Callable[[str], bytes]) -> bytes | type[Exception]:
    try:
        return read(path)
    except (PathNotAllowedError, OSError) as error:
        return type(error)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("webhdfs://reader:pix_SECRET@lake:9870/w", "webhdfs://lake:9870/w"),
        ("webhdfs://reader@lake:9870/w", "webhdfs://reader@lake:9870/w"),
        ("abfss://container@account.dfs/w", "abfss://container@account.dfs/w"),
        ("hdfs://lake:8020/a:b@c", "hdfs://lake:8020/a:b@c"),
    ],
)
def test_no_password_is_told_and_no_part_of_the_place_is_lost(url: str, shown: str) -> None:
    assert without_credentials(url) == shown


@pytest.mark.parametrize("user", ["me", "me:pix_SECRET"])
def test_nobody_logs_in_to_a_file(tmp_path: Path, user: str) -> None:
    warehouse = Warehouse("w", str(tmp_path))

    with pytest.raises(RequestError, match="names a user") as caught:
        warehouse.path_of(f"file://{user}@{tmp_path}/orders")
    assert "pix_SECRET" not in str(caught.value)


@pytest.mark.parametrize("url", ["file:/w/a", "file:///w/a/", "/w/a", "FILE:/w/a", "file://localhost/w/a"])
def test_a_place_of_this_machine_has_one_spelling(url: str) -> None:
    assert normal_uri(url) == "file:///w/a"


def test_the_host_of_a_file_is_not_taken_for_a_directory(tmp_path: Path) -> None:
    (tmp_path / "orders").write_bytes(b"one")
    warehouse = Warehouse("w", str(tmp_path))

    with pytest.raises(PathNotAllowedError, match="with three slashes"):
        warehouse.read(f"file:/{tmp_path}/orders")


def test_no_part_is_looked_at_of_a_path_that_is_longer_than_any(tmp_path: Path) -> None:
    warehouse = Warehouse("w", str(tmp_path))
    for name in ("a/" * 25_000 + "a", "ä" * 3_000):
        with pytest.raises(FileMissingError, match="its name is too long"):
            warehouse.read(name)
    with pytest.raises(FileMissingError, match="there is no file"):
        warehouse.read("/".join(["a" * 200] * 10))
