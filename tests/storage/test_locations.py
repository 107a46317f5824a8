from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import FileMissingError, PathNotAllowedError
from app.storage import Warehouse
from app.storage.locations import Neighbours, Root, normal_uri, without_credentials


@given(
    st.lists(st.sampled_from(["a", "db.db", "t", "..", ".", "", "file", "x\n", "file:", "link"]), max_size=6)
)
def test_neighbours_are_located_as_each_path_by_itself(segments: list[str]) -> None:
    with TemporaryDirectory() as name:
        root = os.path.realpath(name)
        (Path(root) / "w" / "db.db").mkdir(parents=True)
        (Path(root) / "w" / "db.db" / "link").symlink_to("/")
        warehouse = Warehouse("w", f"{root}/w")
        neighbours = Neighbours(warehouse.locate)
        for path in ("/".join(segments), f"file:{root}/w/" + "/".join(segments)):
            for _ in range(2):
                assert _place(neighbours.locate, path) == _place(warehouse.locate, path)


def _place(locate: Callable[[str], tuple[Root, str]], path: str) -> str | None:
    try:
        return os.path.normpath(locate(path)[1])
    except PathNotAllowedError:
        return None


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
