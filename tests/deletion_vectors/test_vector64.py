import struct

import pytest
from pyroaring import BitMap, BitMap64

from app.deletion_vectors import vector32, vector64
from app.errors import CorruptIndexError


def vector(*entries: tuple[int, list[int]], count: int | None = None) -> memoryview:
    parts = b"".join(struct.pack("<i", key) + BitMap(lows).serialize() for key, lows in entries)
    number = len(entries) if count is None else count
    return memoryview(vector64.MAGIC + struct.pack("<q", number) + parts)


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([], []),
        ([(0, [])], []),
        ([(0, [7]), (1, []), (2, [5])], [7, 2 * 2**32 + 5]),
        ([(1, [0])], [2**32]),
        ([(3, [1]), (2**31 - 2, [2**31])], [3 * 2**32 + 1, vector64.MAX_POSITION]),
        ([(0, [2**32 - 1])], [2**32 - 1]),
    ],
)
def test_gaps_and_empty_bitmaps_are_read(entries: list[tuple[int, list[int]]], expected: list[int]) -> None:
    assert list(vector64.read(vector(*entries))) == expected


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(vector((1, [1]), (0, [1])), id="descending"),
        pytest.param(vector((1, [1]), (1, [2])), id="repeated"),
        pytest.param(vector((-1, [1])), id="negative key"),
        pytest.param(vector((2**31 - 1, [1])), id="key above the highest"),
        pytest.param(vector((0, [1]), count=-1), id="negative count"),
        pytest.param(vector((0, [1]), count=0), id="left over"),
        pytest.param(vector((0, [1]), count=2), id="missing"),
        pytest.param(vector((0, list(range(0, 100, 2))), count=5), id="several missing"),
        pytest.param(vector((0, [1]), count=2**62), id="huge count"),
        pytest.param(vector((0, [1]))[:-1], id="cut"),
        pytest.param(vector()[:-1], id="cut count"),
    ],
)
def test_broken_structure_is_corrupt(data: memoryview) -> None:
    with pytest.raises(CorruptIndexError):
        vector64.read(data)


def test_gaps_are_written_as_empty_bitmaps() -> None:
    assert vector64.write(BitMap64([7, 2 * 2**32 + 5])) == vector((0, [7]), (1, []), (2, [5]))


def test_only_a_widened_empty_vector_has_a_bitmap() -> None:
    assert vector64.write(BitMap()) == vector((0, []))
    assert vector64.write(BitMap64()) == vector()


def test_writing_leaves_the_positions_as_they_are() -> None:
    narrow, wide = BitMap(range(5000)), BitMap64(range(5000))
    before = narrow.serialize(), wide.serialize()
    vector32.write(narrow)
    vector64.write(narrow)
    vector64.write(wide)
    assert (narrow.serialize(), wide.serialize()) == before


def test_positions_above_31_bits_in_a_32_bit_vector_are_corrupt() -> None:
    data = vector32.MAGIC + BitMap([2**31]).serialize()
    with pytest.raises(CorruptIndexError, match="positions below 2147483648"):
        vector32.read(memoryview(data))
