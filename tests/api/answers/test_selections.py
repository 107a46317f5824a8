import base64
from itertools import chain, pairwise

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from app.api.answers.selections import bitmap_format, encode_positions, sized_for
from app.errors import LimitExceededError
from app.planning.request.requests import SelectionForm

WIDE_ROWS = 1 << 31
SETS = st.sets(st.one_of(st.integers(0, 300), st.integers(0, (1 << 32) - 1)), max_size=200)


def as_json(encoded: object) -> object:
    return orjson.loads(orjson.dumps(encoded, option=orjson.OPT_SERIALIZE_NUMPY))


@given(SETS, st.sampled_from([BitMap, BitMap64]))
def test_every_form_stands_for_the_same_set(rows: set[int], kind: type[BitMap | BitMap64]) -> None:
    positions = kind(rows)

    ranges = as_json(encode_positions(positions, SelectionForm.RANGES, limit=1000))
    listed = as_json(encode_positions(positions, SelectionForm.POSITIONS, limit=1000))
    bitmap = encode_positions(positions, SelectionForm.BITMAP, limit=1000)

    assert isinstance(ranges, list)
    assert isinstance(bitmap, str)
    assert listed == sorted(rows)
    assert list(chain.from_iterable(range(start, end) for start, end in ranges)) == sorted(rows)
    assert all(end < start for (_, end), (start, _) in pairwise(ranges))
    assert set(kind.deserialize(base64.b64decode(bitmap))) == rows


def test_a_billion_rows_in_two_runs_are_two_ranges() -> None:
    positions = BitMap(range(1_000_000_000)) - BitMap([5])

    assert as_json(encode_positions(positions, SelectionForm.RANGES, limit=10)) == [
        [0, 5],
        [6, 1_000_000_000],
    ]


def test_a_billion_positions_are_refused() -> None:
    with pytest.raises(LimitExceededError, match="ask for ranges"):
        encode_positions(BitMap(range(1_000_000_000)), SelectionForm.POSITIONS, limit=10)


@pytest.mark.parametrize("form", [SelectionForm.NONE, SelectionForm.COUNT])
def test_forms_without_positions_give_none(form: SelectionForm) -> None:
    assert encode_positions(BitMap([1]), form, limit=10) is None


@pytest.mark.parametrize(
    ("given_as", "row_count", "expected"),
    [
        (BitMap([1]), WIDE_ROWS - 1, "roaring32"),
        (BitMap64([1]), WIDE_ROWS - 1, "roaring32"),
        (BitMap([1]), WIDE_ROWS, "roaring64"),
        (BitMap64([1]), WIDE_ROWS, "roaring64"),
    ],
)
def test_the_width_follows_the_rows_of_the_file(
    given_as: BitMap | BitMap64, row_count: int, expected: str
) -> None:
    positions = sized_for(given_as, row_count)

    assert bitmap_format(positions, SelectionForm.BITMAP) == expected
    assert list(positions) == [1]


@given(SETS)
def test_changing_the_width_keeps_the_set(rows: set[int]) -> None:
    wide = sized_for(BitMap(rows), WIDE_ROWS)

    assert wide == BitMap64(rows)
    assert sized_for(wide, row_count=1) == BitMap(rows)


def test_positions_beyond_32_bits_stay_wide_whatever_the_file_claims() -> None:
    assert sized_for(BitMap64([1 << 40]), row_count=1) == BitMap64([1 << 40])
