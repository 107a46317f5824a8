"""An index passes exactly if what it answers is right."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from app.building import Verification, verify
from app.errors import CorruptIndexError, RequestError
from app.file_index.answers import KEEP, SKIP
from app.file_index.bitmap.kind import BitmapOptions
from app.file_index.bloom_filter.kind import BloomFilterOptions
from app.file_index.bsi.kind import BsiOptions
from app.file_index.container import write, write_index
from app.file_index.evaluation import evaluate
from app.file_index.index_kinds import BITMAP, BLOOM_FILTER, BSI, KINDS, RANGE_BITMAP, IndexKind
from app.file_index.keys.key_column import KeyColumn
from app.file_index.range_bitmap.kind import RangeBitmapOptions
from app.file_index.stacked_index import FileIndex
from app.predicates.model import BoundLeaf, Operator
from app.types import DataField, DataType, Value, parse_type
from tests.brute_force import matching_rows
from tests.examples import examples, share
from tests.file_index import strategies
from tests.key_columns import key_column

OPTIONS: dict[IndexKind, list[object]] = {
    BLOOM_FILTER: [BloomFilterOptions(4, 0.2), BloomFilterOptions(40, 0.01)],
    BITMAP: [BitmapOptions(), BitmapOptions(1), BitmapOptions(2, 64)],
    RANGE_BITMAP: [RangeBitmapOptions(), RangeBitmapOptions(0)],
    BSI: [BsiOptions()],
}
COMPARED = (
    Operator.EQUAL,
    Operator.NOT_EQUAL,
    Operator.LESS_THAN,
    Operator.LESS_OR_EQUAL,
    Operator.GREATER_THAN,
    Operator.GREATER_OR_EQUAL,
)
ASKED_ALONE = (Operator.IS_NULL, Operator.IS_NOT_NULL)
BIGINT = parse_type("BIGINT")
STRING = parse_type("STRING")


def _verify(content: bytes, column: KeyColumn, sample: int | None = None) -> Verification:
    def column_of(name: str) -> KeyColumn:
        if name != column.name:
            raise RequestError(f"there is no column {name!r}")
        return column

    return verify(content, column_of, column.row_count, sample=sample)


def _container(kind: IndexKind, column: KeyColumn, options: object | None = None) -> bytes:
    return write({column.name: [(kind, write_index(kind, column, options or OPTIONS[kind][0]))]})


def _assert_answers_are_right(
    content: bytes, kind: IndexKind, data_type: DataType, rows: Sequence[Value | None]
) -> None:
    index, field = FileIndex.read(content), DataField(0, "c", data_type)
    leaves = [BoundLeaf(operator, field) for operator in ASKED_ALONE]
    for value in {repr(row): row for row in rows if row is not None}.values():
        leaves += [BoundLeaf(operator, field, (value,)) for operator in COMPARED]
    for leaf in leaves:
        found, truth = (
            evaluate(leaf, index, row_count=len(rows)),
            matching_rows(leaf, {"c": rows}, len(rows)),
        )
        if found is KEEP:
            continue
        positions = BitMap() if found is SKIP else found.positions
        assert positions >= truth, f"{leaf} loses rows"
        if kind is not BLOOM_FILTER and (found is SKIP or found.exact):
            assert positions == truth, f"{leaf} finds others"


@st.composite
def _indexed(draw: st.DrawFn) -> tuple[IndexKind, DataType, list[Value | None], bytes]:
    data_type = draw(st.sampled_from(strategies.TYPES))
    kind = draw(st.sampled_from([kind for kind in KINDS.values() if kind.takes(data_type)]))
    rows = draw(strategies.columns(data_type, least_integer=kind is not BSI))
    options = draw(st.sampled_from(OPTIONS[kind]))
    return kind, data_type, rows, _container(kind, key_column(rows, data_type), options)


@examples(300)
@given(_indexed())
def test_what_is_written_here_passes(indexed: tuple[IndexKind, DataType, list[Value | None], bytes]) -> None:
    _, data_type, rows, content = indexed

    found = _verify(content, key_column(rows, data_type))

    assert found.passed
    assert found.unused_bytes == 0
    assert [entry.checked for entry in found.entries] == [found.entries[0].distinct]


@examples(1000)
@given(_indexed(), st.data())
def test_one_flipped_bit_is_found_or_harmless(
    indexed: tuple[IndexKind, DataType, list[Value | None], bytes], data: st.DataObject
) -> None:
    kind, data_type, rows, content = indexed
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    damaged = bytearray(content)
    damaged[bit >> 3] ^= 1 << (bit & 7)
    try:
        found = _verify(bytes(damaged), key_column(rows, data_type))
    except CorruptIndexError:
        return
    if found.passed:
        _assert_answers_are_right(bytes(damaged), kind, data_type, rows)


@pytest.mark.parametrize("kind", list(KINDS.values()))
def test_every_bit_of_an_index(kind: IndexKind) -> None:
    rows: list[Value | None] = [3, None, -7, 3, 12, 500, None, 12]
    column = key_column(rows, BIGINT)
    content = _container(kind, column)
    outcomes = {"unreadable": 0, "lost": 0, "wrong": 0, "harmless": 0}

    for bit in share(range(8 * len(content)), 7):
        damaged = bytearray(content)
        damaged[bit >> 3] ^= 1 << (bit & 7)
        try:
            found = _verify(bytes(damaged), column)
        except CorruptIndexError:
            outcomes["unreadable"] += 1
            continue
        if found.passed:
            outcomes["harmless"] += 1
            _assert_answers_are_right(bytes(damaged), kind, BIGINT, rows)
        else:
            (problem,) = [entry.problem for entry in found.entries if entry.problem]
            outcomes["lost" if problem.lost else "wrong"] += 1

    assert all(outcomes.values())


def test_a_lost_row_is_named() -> None:
    rows: list[Value | None] = [b"Rome", b"Oslo", None, b"Rome", b"Bonn"]
    wrong: list[Value | None] = [b"Rome", b"Oslo", None, b"Oslo", b"Bonn"]
    content = _container(BITMAP, key_column(wrong, STRING, "city"))

    found = _verify(content, key_column(rows, STRING, "city"))

    assert not found.passed
    (entry,) = found.entries
    assert (entry.column, entry.kind) == ("city", "bitmap")
    assert entry.problem is not None
    assert (entry.problem.row, entry.problem.value, entry.problem.lost) == (3, "Rome", True)
    assert entry.problem.detail == '= "Rome" leaves out row 3, whose value is "Rome"'


@pytest.mark.parametrize("kind", list(KINDS.values()))
def test_a_row_that_no_key_leads_to_is_lost(kind: IndexKind) -> None:
    column = key_column([5, 6, 7, None, 8], BIGINT)
    without: list[Value | None] = [5, 6, None, None, 8]

    found = _verify(_container(kind, key_column(without, BIGINT)), column).entries[0].problem

    assert found is not None
    assert (found.row, found.value, found.lost) == (2, 7, True)


def test_an_index_that_names_too_many_rows_is_wrong_unless_it_is_a_bloom_filter() -> None:
    rows: list[Value | None] = [1, 2, None]
    more = key_column([1, 2, 2], BIGINT)
    content = write(
        {"c": [(kind, write_index(kind, more, OPTIONS[kind][0])) for kind in (BITMAP, BLOOM_FILTER)]}
    )

    bitmap, bloom = _verify(content, key_column(rows, BIGINT)).entries

    assert bitmap.problem is not None
    assert (bitmap.problem.row, bitmap.problem.value) == (2, None)
    assert bloom.problem is None


@pytest.mark.parametrize("kind", [kind for kind in KINDS.values() if kind is not BLOOM_FILTER])
def test_rows_must_be_as_many(kind: IndexKind) -> None:
    problem = (
        _verify(_container(kind, key_column([1, 2, 3], BIGINT)), key_column([1, 2], BIGINT))
        .entries[0]
        .problem
    )

    assert problem is not None
    assert problem.detail == "is about 3 rows, the data file has 2"


def test_empty_entries_are_right_without_values_only() -> None:
    content = write({"c": [("bitmap", None)]})

    assert _verify(content, key_column([None, None], BIGINT)).passed
    problem = _verify(content, key_column([None, 4], BIGINT)).entries[0].problem
    assert problem is not None
    assert problem.detail == "IS NOT NULL leaves out row 1, whose value is 4"


def test_what_cannot_be_checked_is_a_problem_of_its_own_index() -> None:
    column = key_column([1, 2], BIGINT)
    good = (BITMAP, write_index(BITMAP, column, BitmapOptions()))
    content = write({"c": [good, ("zone-map", b"?"), ("bsi", b"\x07")], "gone": [good]})

    found = {(entry.column, entry.kind): entry.problem for entry in _verify(content, column).entries}

    assert found["c", "bitmap"] is None
    assert "no index type 'zone-map'" in str(found["c", "zone-map"])
    assert "cannot be read: expected version" in str(found["c", "bsi"])
    assert "no column 'gone'" in str(found["gone", "bitmap"])


def test_a_sample_looks_up_so_many_values() -> None:
    column = key_column(list(range(1_000)), BIGINT)
    content = write({"c": [(kind, write_index(kind, column, OPTIONS[kind][0])) for kind in KINDS.values()]})

    found = _verify(content, column, sample=100)

    assert found.passed
    assert [(entry.distinct, entry.checked) for entry in found.entries] == [(1_000, 100)] * 4


def test_bloom_filters_are_measured() -> None:
    column = key_column([f"user {row}".encode() for row in range(10_000)], STRING)

    fitting = _verify(_container(BLOOM_FILTER, column, BloomFilterOptions(10_000, 0.02)), column)
    default = _verify(_container(BLOOM_FILTER, column, BloomFilterOptions()), column)

    bloom = fitting.entries[0].bloom
    assert bloom is not None
    assert bloom.false_positive_rate == pytest.approx(0.02, rel=0.2)
    assert bloom.expected_rate == pytest.approx(0.02, rel=0.05)
    assert bloom.wasted_bytes < 200
    wasteful = default.entries[0].bloom
    assert wasteful is not None
    assert wasteful.false_positive_rate == 0
    assert wasteful.wasted_bytes == pytest.approx(594_000, abs=1_000)


def test_a_type_of_which_every_value_is_present_has_no_false_positives() -> None:
    column = key_column(list(range(-128, 128)), parse_type("TINYINT"))

    bloom = _verify(_container(BLOOM_FILTER, column), column).entries[0].bloom

    assert bloom is not None
    assert bloom.false_positive_rate is None


def test_bytes_of_no_index_are_counted() -> None:
    column = key_column([1, 2], BIGINT)

    assert _verify(_container(BSI, column) + bytes(17), column).unused_bytes == 17
