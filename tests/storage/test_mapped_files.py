from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from app.storage.array_file import ArrayFile, Block, array_file_parts
from app.storage.mapped_files import Look, MappedFiles

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


@pytest.mark.parametrize("look", [Look.LENGTHS, Look.ALL])
@pytest.mark.parametrize("size", [0, MIB, 100 * MIB])
def test_a_file_that_was_cut_is_damaged(held: Held, mapped: MappedFiles, size: int, look: Look) -> None:
    with held.path.open("r+b") as file:
        file.truncate(size)

    assert mapped.look(GROUP, look) == ([held.file.file], 1)


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_file_without_its_name_cannot_be_cut(held: Held, mapped: MappedFiles, *, is_replaced: bool) -> None:
    held.path.unlink()
    if is_replaced:
        held.path.write_bytes(b"another one")

    assert mapped.look(GROUP, Look.LENGTHS) == ([], 0)
    assert mapped.look(GROUP, Look.ALL) == ([], 0)
