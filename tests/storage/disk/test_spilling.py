"""Columns are spilled to a directory on a disk, and nowhere else."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from app.storage.disk import spill, temporary_directory
from app.work.memory import is_in_memory

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - a private directory is made in it
COLUMNS = {"numbers": pa.array([[1, 2, 3]])}


@pytest.fixture(name="in_memory")
def directory_in_memory() -> Iterator[str]:
    if not (SHARED_MEMORY.is_dir() and is_in_memory(str(SHARED_MEMORY))):
        pytest.skip("there is no file system in memory")
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY) as directory:
        yield directory


def test_columns_are_mapped_and_leave_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    assert spill(COLUMNS)["numbers"].to_pylist() == [[1, 2, 3]]
    assert not [*tmp_path.iterdir()]


def test_nothing_is_spilled_to_memory(in_memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", in_memory)

    with pytest.raises(OSError, match="is in memory"):
        spill(COLUMNS)


def test_a_directory_that_is_missing_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = tmp_path / "none"
    monkeypatch.setenv("TMPDIR", str(missing))
    monkeypatch.chdir(tmp_path)

    with pytest.raises(OSError, match="none cannot be written to: No such file or directory"):
        spill(COLUMNS)
    assert not [*tmp_path.iterdir()]


def test_a_directory_may_be_mounted_later(tmp_path: Path) -> None:
    later = tmp_path / "later"
    with pytest.raises(OSError, match="cannot be written to"):
        temporary_directory(str(later))

    later.mkdir()

    assert temporary_directory(str(later)) == str(later)
