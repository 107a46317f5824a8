from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.storage.array_file import ArrayFile, Block, DamagedArraysError, array_file_parts

KEY = b'["w", "path"]["manifest", "1.0"]'
DESCRIPTORS = Path("/proc/self/fd")
LARGE = Block({"large": np.arange(1 << 18)}, None)
DTYPES = st.sampled_from([np.uint8, np.int8, np.bool_, np.int32, np.int64, np.float64])
ARRAYS = st.builds(lambda dtype, count: np.ones(count, dtype) * 3, DTYPES, st.integers(0, 200)).map(
    lambda array: array.astype(np.int64) if array.dtype.kind not in "uibf" else array
)
FACTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda facts: st.lists(facts, max_size=3) | st.dictionaries(st.text(max_size=3), facts, max_size=3),
    max_leaves=5,
)
BLOCKS = st.dictionaries(
    st.text(max_size=5), st.builds(Block, st.dictionaries(st.text(max_size=5), ARRAYS, max_size=3), FACTS)
)


def write(path: Path, blocks: Mapping[str, Block], key: bytes = KEY) -> Path:
    path.write_bytes(b"".join(array_file_parts(key, blocks)))
    return path


def read(path: Path, name: str, key: bytes = KEY) -> dict[str, Any]:
    found, _ = ArrayFile.map(str(path), key)
    return {each: array.tolist() for each, array in found.block(name).arrays.items()}


@given(blocks=BLOCKS)
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, blocks: dict[str, Block]) -> None:
    path = write(tmp_path_factory.mktemp("arrays") / "file", blocks)

    found, _ = ArrayFile.map(str(path), KEY)

    for name, block in blocks.items():
        read_back = found.block(name)
        assert read_back.facts == block.facts
        assert list(read_back.arrays) == list(block.arrays)
        for each, array in block.arrays.items():
            assert read_back.arrays[each].dtype == array.dtype
            np.testing.assert_array_equal(read_back.arrays[each], array)


@given(data=st.data())
def test_damage_never_comes_back_as_content(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    blocks = {"a": Block({"x": np.arange(40), "y": np.ones(3, np.bool_)}, [1]), "b": Block({}, None)}
    path = write(tmp_path_factory.mktemp("arrays") / "file", blocks)
    written = path.read_bytes()
    damaged = bytearray(written)
    match data.draw(st.sampled_from(["flip", "cut", "grow", "other"])):
        case "flip":
            damaged[data.draw(st.integers(0, len(written) - 1))] ^= data.draw(st.integers(1, 255))
        case "cut":
            del damaged[data.draw(st.integers(0, len(written) - 1)) :]
        case "grow":
            damaged += data.draw(st.binary(min_size=1, max_size=100))
        case _:
            damaged = bytearray(data.draw(st.binary(max_size=200)))
    path.write_bytes(damaged)

    try:
        found = read(path, "a")
    except DamagedArraysError:
        return

    # Padding behind the header belongs to nothing.
    assert found == {"x": list(range(40)), "y": [True] * 3}


def test_a_file_of_another_key_is_damaged(tmp_path: Path) -> None:
    path = write(tmp_path / "file", {"a": Block({}, None)})

    with pytest.raises(DamagedArraysError, match="another file"):
        ArrayFile.map(str(path), KEY + b" ")


def test_nobody_can_write_to_arrays(tmp_path: Path) -> None:
    path = write(tmp_path / "file", {"a": Block({"x": np.arange(3)}, None)})
    found, _ = ArrayFile.map(str(path), KEY)

    with pytest.raises(ValueError, match="read-only"):
        found.block("a").arrays["x"][0] = 1


def test_arrays_outlive_their_file(tmp_path: Path) -> None:
    path = write(tmp_path / "file", {"a": Block({"x": np.arange(3)}, None)})
    array = ArrayFile.map(str(path), KEY)[0].block("a").arrays["x"]

    path.unlink()

    assert array.tolist() == [0, 1, 2]


@pytest.mark.skipif(not DESCRIPTORS.exists(), reason="the system does not tell")
def test_mapped_files_keep_no_descriptor(tmp_path: Path) -> None:
    path = write(tmp_path / "file", {"a": Block({"x": np.arange(3)}, None)})
    before = len(list(DESCRIPTORS.iterdir()))

    held = [ArrayFile.map(str(path), KEY)[0].block("a") for _ in range(50)]

    assert len(list(DESCRIPTORS.iterdir())) < before + 50
    assert all(block.arrays["x"].tolist() == [0, 1, 2] for block in held)


def test_objects_are_refused() -> None:
    with pytest.raises(ValueError, match="is of object"):
        array_file_parts(KEY, {"a": Block({"x": np.array([1 << 70], object)}, None)})


@pytest.mark.parametrize("blocks", [{"a": LARGE}, {"a": Block({"large": np.arange(3)}, None)}])
def test_a_block_is_verified_by_everybody_who_maps_it(tmp_path: Path, blocks: dict[str, Block]) -> None:
    path = write(tmp_path / "file", blocks)
    read(path, "a")
    with path.open("r+b") as file:
        file.seek(-64, os.SEEK_END)
        file.write(b"\7")

    with pytest.raises(DamagedArraysError, match="block 'a' is damaged"):
        read(path, "a")
