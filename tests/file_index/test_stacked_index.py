import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import CorruptIndexError
from app.file_index.container import write
from app.file_index.stacked_index import FileIndex, Heads
from app.types.bytes_column import BytesColumn

_NAMES = st.sampled_from(["a", "b", "m[k]", "ä\0"])
_INDEXES = st.lists(
    st.tuples(st.sampled_from(["bitmap", "bsi", "later"]), st.none() | st.binary(max_size=9)),
    max_size=3,
    unique_by=lambda index: index[0],
)
_CONTAINERS = st.dictionaries(_NAMES, _INDEXES, max_size=3).map(write)


@st.composite
def _damaged(draw: st.DrawFn) -> bytes:
    content = bytearray(draw(_CONTAINERS))
    content[draw(st.integers(0, len(content) - 1))] = draw(st.integers(0, 255))
    return bytes(content[: draw(st.integers(0, len(content)))])


def _error(content: bytes) -> CorruptIndexError | None:
    try:
        FileIndex.read(content)
    except CorruptIndexError as error:
        return error
    return None


@given(st.lists(st.none() | _CONTAINERS | _damaged() | st.binary(max_size=30), max_size=12))
def test_reads_heads_as_the_reader_of_one_file(contents: list[bytes | None]) -> None:
    heads = Heads.read(BytesColumn.of(contents))

    assert len(heads) == len(contents)
    columns = {column: set(heads.kinds(column)) for column in heads.columns}
    for file, content in enumerate(contents):
        error = None if content is None else _error(content)
        if content is None or error is not None:
            assert str(heads.broken.get(file)) == str(error)
            assert heads.entries(file) == {}
            continue
        index = FileIndex.read(content)
        assert file not in heads.broken
        assert heads.entries(file) == index.entries
        assert {column: {one.kind for one in listed} for column, listed in index.entries.items()}.items() <= {
            column: kinds & {one.kind for one in index.entries.get(column, ())}
            for column, kinds in columns.items()
        }.items()
        for column, kinds in columns.items():
            of_kind = {one.kind: one for one in index.entries.get(column, ())}
            for kind in kinds:
                extents = heads.extents(column, kind)
                entry = of_kind.get(kind)
                assert extents.present[file] == (entry is not None)
                if entry is not None:
                    assert (extents.starts[file], extents.lengths[file]) == (entry.start, entry.length)
                    assert extents.empty[file] == entry.is_empty
                    assert extents.within(heads.sizes)[file] == entry.lies_within(len(content))


def test_knows_no_index_without_a_container() -> None:
    heads = Heads.read(BytesColumn.of([None, None]))

    assert heads.columns == ()
    assert heads.kinds("c") == ()
    assert heads.extents("c", "bitmap").present.tolist() == [False, False]


def test_reads_prefixes_of_files_whose_sizes_are_known() -> None:
    contents = [write({"c": [("bitmap", bytes(size))]}) for size in (5, 600, 7)]
    sizes = np.array([len(content) for content in contents])
    sizes[2] -= 1

    heads = Heads.read(
        BytesColumn.of([content[:-size] for content, size in zip(contents, (5, 600, 7), strict=True)]), sizes
    )

    extents = heads.extents("c", "bitmap")
    assert extents.lengths.tolist() == [5, 600, 7]
    assert extents.within(heads.sizes).tolist() == [True, True, False]


@pytest.mark.parametrize("files", [70, 200])
def test_reads_any_number_of_layouts(files: int) -> None:
    contents = [write({f"c{file % 100}": [("bsi", b"x" * file)]}) for file in range(files)]

    heads = Heads.read(BytesColumn.of(contents))

    assert len(heads.columns) == min(files, 100)
    for file, content in enumerate(contents):
        assert heads.entries(file) == FileIndex.read(content).entries


def test_notices_every_byte_that_differs() -> None:
    content = write({"c": [("bsi", b"xy"), ("bitmap", None)], "d": []})
    changed = []
    for at in range(len(content) - 2):
        copy = bytearray(content)
        copy[at] ^= 1
        changed.append(bytes(copy))

    heads = Heads.read(BytesColumn.of([content, *changed]))

    for file, each in enumerate(changed, start=1):
        error = _error(each)
        assert str(heads.broken.get(file)) == str(error)
        assert heads.entries(file) == ({} if error else FileIndex.read(each).entries)


def test_tells_heads_apart_that_are_equally_long() -> None:
    contents = [write({"c": [("bsi", b"xy")], name: []}) for name in ("a", "b", "a")]
    later = bytearray(contents[0])
    struct.pack_into(">i", later, 8, 2)

    heads = Heads.read(BytesColumn.of([*contents, bytes(later)]))

    assert heads.layout_of.tolist() == [0, 1, 0, -1]
    assert list(heads.broken) == [3]
