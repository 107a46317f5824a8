import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from app.errors import CorruptIndexError
from app.types.roaring import bitmap_size, read_bitmap

RANGES = st.tuples(st.integers(0, 2**32 - 1), st.integers(1, 70_000))


def _bitmap(values: set[int], ranges: list[tuple[int, int]], *, runs: bool) -> BitMap:
    bitmap = BitMap(values)
    for start, count in ranges:
        bitmap.add_range(start, min(start + count, 2**32))
    if runs:
        bitmap.run_optimize()
    return bitmap


@given(
    values=st.sets(st.integers(0, 2**32 - 1), max_size=40),
    ranges=st.lists(RANGES, max_size=6),
    runs=st.booleans(),
    behind=st.binary(),
)
def test_reads_every_container_kind_and_stops_at_its_end(
    values: set[int], ranges: list[tuple[int, int]], behind: bytes, *, runs: bool
) -> None:
    bitmap = _bitmap(values, ranges, runs=runs)
    written = bitmap.serialize()

    assert read_bitmap(b"abc" + written + behind, 3) == (bitmap, len(written))
    assert bitmap_size(memoryview(written + behind)) == len(written)


@pytest.mark.parametrize("containers", [1, 3, 4, 5, 65536])
@pytest.mark.parametrize("runs", [False, True])
def test_knows_when_the_offsets_are_there(containers: int, *, runs: bool) -> None:
    bitmap = BitMap([container << 16 for container in range(containers)])
    if runs:
        bitmap.add_range(0, 1000)
        bitmap.run_optimize()
    written = bitmap.serialize()

    assert read_bitmap(written, length=len(written)) == (bitmap, len(written))


def test_holds_the_length_and_the_row_count() -> None:
    written = BitMap([1, 5, 9]).serialize()

    assert read_bitmap(written, row_count=10)[0] == BitMap([1, 5, 9])
    with pytest.raises(CorruptIndexError, match=r"below 9 .*, found 9"):
        read_bitmap(written, row_count=9)
    with pytest.raises(CorruptIndexError, match="of 21 bytes, found 22"):
        read_bitmap(written, length=21)


@pytest.mark.parametrize("size", [*range(22)])
def test_refuses_every_truncation(size: int) -> None:
    written = BitMap([1, 5, 9]).serialize()

    with pytest.raises(CorruptIndexError):
        read_bitmap(written[:size])


@pytest.mark.parametrize("offset", [-1, 23])
def test_refuses_an_offset_outside_of_the_bytes(offset: int) -> None:
    with pytest.raises(CorruptIndexError, match="within 22 bytes"):
        read_bitmap(BitMap([1, 5, 9]).serialize(), offset)


def test_names_the_place_of_broken_containers() -> None:
    descending = struct.pack("<IIHHIHH", 12346, 1, 0, 1, 16, 9, 5)

    with pytest.raises(CorruptIndexError, match="broken containers") as caught:
        read_bitmap(b"...." + descending, 4)
    assert caught.value.offset == 4


def test_survives_damage() -> None:
    chance = random.Random(7)  # noqa: S311 - repeatable damage, no secret
    bitmap = _bitmap({3, 70_000}, [(200_000, 9_000), (400_000, 70_000)], runs=True)
    bitmap.update(range(600_000, 700_000, 3))
    written = bitmap.serialize()

    for _ in range(3_000):
        damaged = bytearray(
            written[: chance.randrange(len(written) + 1)] if chance.random() < 0.2 else written
        )
        for _ in range(chance.randrange(1, 4)):
            if damaged:
                damaged[chance.randrange(min(len(damaged), 200))] = chance.randrange(256)
        try:
            found, size = read_bitmap(bytes(damaged))
        except CorruptIndexError:
            continue
        assert size <= len(damaged)
        assert len(found) == len(found.to_array())
