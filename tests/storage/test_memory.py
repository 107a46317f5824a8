"""Buffers that large files share."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from app.errors import FileMissingError, LimitExceededError
from app.storage import Warehouse
from app.storage.memory import Scratch

LARGE = 5 << 20


def address(view: memoryview) -> int:
    return memoryview(view).obj.ctypes.data  # type: ignore[attr-defined, no-any-return] # it is NumPy's


def test_a_buffer_serves_the_next_file_while_others_are_in_use() -> None:
    scratch = Scratch()
    with scratch.buffer(100):
        with scratch.buffer(1000) as one:
            first = address(one)
        with scratch.buffer(900) as another:
            assert (address(another), len(another)) == (first, 900)


def test_buffers_in_use_are_not_shared() -> None:
    scratch = Scratch()
    with scratch.buffer(100) as one, scratch.buffer(100) as another:
        assert address(one) != address(another)


def test_an_error_gives_the_buffer_back() -> None:
    scratch = Scratch()
    found = []
    with scratch.buffer(10):
        with contextlib.suppress(KeyError), scratch.buffer(1000) as one:
            found.append(address(one))
            raise KeyError
        with scratch.buffer(1000) as another:
            assert [address(another)] == found


@pytest.mark.parametrize("size", [10, LARGE])
def test_a_file_is_read_whole(tmp_path: Path, size: int) -> None:
    content = bytes(range(256)) * (size // 256) + b"end"
    (tmp_path / "file").write_bytes(content)
    warehouse = Warehouse("main", str(tmp_path))

    # What metadata says of the size may be wrong: a file that is longer is at least no longer seen as whole.
    for stated in (len(content), len(content) + 1, None):
        with warehouse.reading("file", stated) as found:
            assert bytes(found) == content
    with warehouse.reading("file", len(content) - 2) as found:
        assert len(found) > len(content) - 2


def test_errors_of_large_files_are_those_of_all_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(LARGE))
    warehouse = Warehouse("main", str(tmp_path), max_file_bytes=LARGE - 1)

    with pytest.raises(FileMissingError, match="none"), warehouse.reading("none", LARGE - 2):
        pass
    with pytest.raises(LimitExceededError), warehouse.reading("file", LARGE):
        pass
