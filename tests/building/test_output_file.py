"""Files that are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.building.output_file import write_file
from app.errors import RequestError, StorageError


def test_writes_a_file_and_nothing_else(tmp_path: Path) -> None:
    write_file(tmp_path / "data.index", b"content")

    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("data.index", b"content")]


def test_keeps_a_file_that_is_there_already(tmp_path: Path) -> None:
    target = tmp_path / "data.index"
    target.write_bytes(b"old")

    with pytest.raises(RequestError, match=r"data\.index exists"):
        write_file(target, b"new")

    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"old"]


def test_replaces_a_file_if_allowed_to(tmp_path: Path) -> None:
    target = tmp_path / "data.index"
    target.write_bytes(b"old")

    write_file(target, b"new", replace=True)

    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"new"]


def test_targets_that_cannot_be_written_leave_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "directory"
    directory.mkdir()

    with pytest.raises(
        StorageError, match=r"nowhere/data\.index cannot be written: No such file or directory"
    ):
        write_file(tmp_path / "nowhere" / "data.index", b"content")
    with pytest.raises(StorageError, match="directory cannot be written"):
        write_file(directory, b"content", replace=True)

    assert list(tmp_path.iterdir()) == [directory]
    assert list(directory.iterdir()) == []
