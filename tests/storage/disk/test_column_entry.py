import weakref
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.storage.disk.column_entry import Columns, DamagedEntryError, write_columns
from app.work.memory import MappedBytes

KEY = b'["w", "path"]["manifest", "1.0"]'
DESCRIPTORS = Path("/proc/self/fd")
END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"
COLUMNS = {
    "numbers": pa.array([range(40)], pa.large_list(pa.int64())),
    "strings": pa.array([[b"a", None, b"\xff" * 20]], pa.large_list(pa.large_binary())),
    "truths": pa.ListArray.from_arrays([0, 2], pa.Bool8Array.from_numpy(np.array([True, False]))),
    "members": pa.array([{"a": [1.5], "b": {"c": [], "d": None}}]),
}
LISTS = st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=20).map(lambda items: pa.array([items]))


def entry(columns: Mapping[str, pa.Array] = COLUMNS, key: bytes = KEY) -> bytes:
    return b"".join(map(bytes, write_columns(key, columns)))


def read(content: bytes, key: bytes = KEY) -> Columns:
    return Columns.read(key, np.frombuffer(content, np.uint8))


def mapped(path: Path) -> Columns:
    with path.open("rb") as file:
        return Columns.read(KEY, MappedBytes.map(file.fileno()))


@given(columns=st.dictionaries(st.text(max_size=5), LISTS | st.sampled_from([*COLUMNS.values()]), min_size=1))
def test_round_trip(columns: dict[str, pa.Array]) -> None:
    found = read(entry(columns))

    assert {name: found[name] for name in columns} == columns
    assert {name: found[name].type for name in columns} == {name: each.type for name, each in columns.items()}


def test_anybody_reads_an_entry_as_a_stream_of_arrow() -> None:
    assert pa.ipc.open_stream(entry()).read_next_batch() == pa.record_batch(COLUMNS)


def test_the_length_of_a_list_is_known_without_its_items() -> None:
    assert read(entry()).length("numbers") == 40


@given(data=st.data())
def test_damage_never_comes_back_as_content(data: st.DataObject) -> None:
    written = entry()
    damaged = bytearray(written)
    match data.draw(st.sampled_from(["flip", "cut", "cut out", "grow", "other"])):
        case "flip":
            damaged[data.draw(st.integers(0, len(written) - 1))] ^= data.draw(st.integers(1, 255))
        case "cut":
            del damaged[data.draw(st.integers(0, len(written) - 1)) :]
        case "cut out":
            start = data.draw(st.integers(0, len(written) - 1))
            del damaged[start : data.draw(st.integers(start + 1, len(written)))]
        case "grow":
            damaged += data.draw(st.binary(min_size=1, max_size=100))
        case _:
            damaged = bytearray(data.draw(st.binary(max_size=200)))

    try:
        columns = read(bytes(damaged))
    except DamagedEntryError:
        return
    for name, column in COLUMNS.items():
        try:
            # Padding between buffers belongs to nothing.
            assert columns[name] == column
        except DamagedEntryError:
            continue


def damaged_columns(columns: Columns) -> list[str]:
    damaged = []
    for name in COLUMNS:
        try:
            columns[name]
        except DamagedEntryError:
            damaged.append(name)
    return damaged


def test_each_column_is_verified_by_itself_and_all_else_at_once() -> None:
    written = entry()
    # The buffers begin with where the first list starts and ends.
    first = written.index(np.arange(40).tobytes()) - 2 * np.int64().itemsize
    end = written.rindex(END_OF_STREAM) + len(END_OF_STREAM)
    found = set()
    for at in range(len(written)):
        damaged = written[:at] + bytes([written[at] ^ 1]) + written[at + 1 :]
        if first <= at < end:
            names = damaged_columns(read(damaged))
            assert len(names) <= 1
            found.update(names)
        else:
            with pytest.raises(DamagedEntryError):
                read(damaged)
    assert found == set(COLUMNS)


def test_an_entry_of_another_key_is_damaged() -> None:
    for other in (KEY + b" ", KEY[:-1], KEY[1:], b"x" * len(KEY)):
        with pytest.raises(DamagedEntryError):
            read(entry(), other)


def test_views_lie_where_the_entry_lies(tmp_path: Path) -> None:
    path = tmp_path / "entry"
    path.write_bytes(entry())
    columns = mapped(path)
    path.unlink()

    view = columns.view(columns["numbers"].values)

    assert view.tolist() == list(range(40))
    assert isinstance(view.base, MappedBytes)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1


@pytest.mark.skipif(not DESCRIPTORS.exists(), reason="the system does not tell")
def test_mapped_entries_keep_no_descriptor(tmp_path: Path) -> None:
    path = tmp_path / "entry"
    path.write_bytes(entry())
    before = len(list(DESCRIPTORS.iterdir()))

    held = [mapped(path) for _ in range(50)]

    assert len(list(DESCRIPTORS.iterdir())) < before + 50
    assert all(columns["numbers"] == COLUMNS["numbers"] for columns in held)


def test_an_entry_in_memory_ends_with_whoever_holds_it() -> None:
    data = np.frombuffer(entry(), np.uint8)
    columns, alive = Columns.read(KEY, data, held=len(data)), weakref.ref(data)
    assert columns["numbers"] == COLUMNS["numbers"]

    del columns, data

    assert alive() is None
