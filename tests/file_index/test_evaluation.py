"""Answers of indexes: held to every row, where they leave questions open, and what they say of themselves."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from app.errors import CorruptIndexError
from app.file_index import container
from app.file_index.answers import KEEP, SKIP, Result, Rows, Step
from app.file_index.container import write
from app.file_index.evaluation import evaluate
from app.file_index.index_kinds import BITMAP, BLOOM_FILTER, BSI, KINDS, RANGE_BITMAP, IndexKind, open_payload
from app.file_index.keys.keys import key_space
from app.file_index.stacked_index import FileIndex
from app.file_index.top_rows import top_n
from app.predicates.model import (
    ALWAYS_FALSE,
    ALWAYS_TRUE,
    BoundAnd,
    BoundLeaf,
    BoundOr,
    BoundPredicate,
    Operator,
    Unknown,
)
from app.types import DataField, DataType, TypeRoot, Value, parse_type, sql_key
from tests.brute_force import matching_rows
from tests.examples import examples
from tests.file_index.strategies import TYPES, columns, leaves
from tests.file_index.tables import payloads, selected
from tests.tables import payload


def _field(type_text: str, name: str = "c") -> DataField:
    return DataField(0, name, parse_type(type_text))


def _ask(
    kind: str, type_text: str, rows: Sequence[Value | None], operator: Operator, *literals: Value
) -> Result:
    index = FileIndex.read(write({"c": [(kind, payload(KINDS[kind], rows, _field(type_text)))]}))
    return evaluate(BoundLeaf(operator, _field(type_text), literals), index, row_count=len(rows))


C = _field("INT")


def exactly(*rows: int) -> Rows:
    return Rows(BitMap(rows), exact=True)


@pytest.mark.parametrize("kind", ["bitmap", "bsi"])
class TestNanoseconds:
    """Indexes hold microseconds of a TIMESTAMP(9)."""

    ROWS = (1_999, 2_000, 2_500, None, 3_000)

    def _ask(self, kind: str, operator: Operator, *literals: int) -> Result:
        return _ask(kind, "TIMESTAMP(9)", self.ROWS, operator, *literals)

    def test_inequality_keeps_every_row_with_a_value(self, kind: str) -> None:
        kept = Rows(BitMap([0, 1, 2, 4]), exact=False)
        assert self._ask(kind, Operator.NOT_EQUAL, 2_500) == kept
        assert self._ask(kind, Operator.NOT_IN, 2_000, 3_000) == kept

    def test_equality_keeps_the_microsecond(self, kind: str) -> None:
        assert self._ask(kind, Operator.EQUAL, 2_500) == Rows(BitMap([1, 2]), exact=False)
        assert self._ask(kind, Operator.IN, 2_500, 3_001) == Rows(BitMap([1, 2, 4]), exact=False)

    def test_comparisons_keep_the_microsecond_they_cut(self, kind: str) -> None:
        assert self._ask(kind, Operator.LESS_THAN, 2_001) == Rows(BitMap([0, 1, 2]), exact=False)
        assert self._ask(kind, Operator.GREATER_THAN, 2_000) == Rows(BitMap([1, 2, 4]), exact=False)
        assert self._ask(kind, Operator.BETWEEN, 2_001, 2_002) == Rows(BitMap([1, 2]), exact=False)

    def test_comparisons_between_microseconds_are_exact(self, kind: str) -> None:
        assert self._ask(kind, Operator.LESS_THAN, 2_000) == exactly(0)
        assert self._ask(kind, Operator.GREATER_THAN, 1_999) == exactly(1, 2, 4)
        assert self._ask(kind, Operator.BETWEEN, 2_000, 2_999) == exactly(1, 2)


def test_a_bloom_filter_knows_a_whole_microsecond() -> None:
    rows = [1_999, 2_500]

    assert _ask("bloom-filter", "TIMESTAMP(9)", rows, Operator.BETWEEN, 2_000, 2_999) is KEEP
    assert _ask("bloom-filter", "TIMESTAMP(9)", rows, Operator.BETWEEN, 5_000, 5_999) is SKIP
    assert _ask("bloom-filter", "TIMESTAMP(9)", rows, Operator.BETWEEN, 5_000, 6_000) is KEEP


def test_decimals_beyond_64_bits_are_ordinary_literals_of_bsi() -> None:
    assert _ask("bsi", "DECIMAL(38, 10)", [1, -1], Operator.LESS_THAN, 10**37) == exactly(0, 1)
    assert _ask("bsi", "DECIMAL(38, 10)", [1, -1], Operator.EQUAL, -(10**37)) is SKIP


@pytest.mark.parametrize("kind", ["bitmap", "range-bitmap"])
def test_text_tests_use_the_order_of_the_dictionary(kind: str) -> None:
    rows = [b"apple", b"apricot", None, b"b", b"ap", b"\xf4\x8f\xbf\xbf"]

    assert _ask(kind, "STRING", rows, Operator.STARTS_WITH, b"ap") == exactly(0, 1, 4)
    assert _ask(kind, "STRING", rows, Operator.STARTS_WITH, b"") == exactly(0, 1, 3, 4, 5)
    assert _ask(kind, "STRING", rows, Operator.STARTS_WITH, b"\xf4\x8f\xbf\xbf") == exactly(5)
    assert _ask(kind, "STRING", rows, Operator.LIKE, b"ap%t") == Rows(BitMap([0, 1, 4]), exact=False)
    assert _ask(kind, "STRING", rows, Operator.LIKE, b"%t") is KEEP
    assert _ask(kind, "STRING", rows, Operator.CONTAINS, b"p") is KEEP


@pytest.mark.parametrize("operator", list(Operator))
def test_an_empty_entry_decides_what_the_engine_lets_it(operator: Operator) -> None:
    index = FileIndex.read(write({"m[k]": [("bitmap", None)]}))
    leaf = BoundLeaf(operator, _field("STRING", "m[k]"), (b"a", b"b"))

    open_tests = {Operator.IS_NULL, Operator.NOT_EQUAL, Operator.NOT_IN, Operator.BETWEEN, Operator.LIKE}
    assert evaluate(leaf, index, row_count=3) is (KEEP if operator in open_tests else SKIP)


def test_top_n_refuses_an_index_of_fewer_rows_than_the_file_has() -> None:
    index = FileIndex.read(write({"c": [("range-bitmap", payload(RANGE_BITMAP, [5, 4], C))]}))

    with pytest.raises(CorruptIndexError, match="expected more than 2 rows, found 2"):
        top_n(
            index,
            C,
            descending=False,
            nulls_first=False,
            limit=1,
            strict=True,
            selection=exactly(0, 1, 2),
        )


def test_an_exact_index_settles_a_leaf_before_others_are_opened() -> None:
    rows = [1, 2, 3]
    index = FileIndex.read(write({"c": [("bsi", b"broken"), ("bitmap", payload(BITMAP, rows, C))]}))

    assert evaluate(BoundLeaf(Operator.EQUAL, C, (2,)), index) == exactly(1)


def test_constants_decide_every_row() -> None:
    index = FileIndex.read(write({}))

    assert evaluate(ALWAYS_TRUE, index, row_count=2) == exactly(0, 1)
    assert evaluate(ALWAYS_TRUE, index) is KEEP
    assert evaluate(ALWAYS_FALSE, index) is SKIP
    assert evaluate(BoundOr((ALWAYS_FALSE, Unknown("?"))), index) is KEEP


def test_refuses_an_index_of_another_number_of_rows() -> None:
    index = FileIndex.read(write({"c": [("bitmap", payload(BITMAP, [1, 2], C))]}))

    with pytest.raises(CorruptIndexError, match="expected the 3 rows of the data file, found 2"):
        evaluate(BoundLeaf(Operator.IS_NULL, C), index, row_count=3)


def test_refuses_an_index_that_the_type_cannot_have() -> None:
    index = FileIndex.read(write({"c": [("bitmap", payload(BITMAP, [1, 2], C))]}))

    with pytest.raises(CorruptIndexError, match="no bitmap index on a column of type BYTES"):
        evaluate(BoundLeaf(Operator.IS_NULL, _field("BYTES")), index)


def test_tells_what_it_asked() -> None:
    rows = [1, 2, None]
    index = FileIndex.read(
        write(
            {
                "c": [
                    ("bsi", payload(BSI, rows, C)),
                    ("bloom-filter", payload(BLOOM_FILTER, rows, C)),
                ],
                "d": [("from-the-future", b"?")],
            }
        )
    )
    trace: list[Step] = []

    evaluate(
        BoundAnd(
            (
                BoundLeaf(Operator.EQUAL, C, (2,)),
                BoundLeaf(Operator.EQUAL, _field("INT", "d"), (1,)),
                Unknown("f(x)"),
                BoundLeaf(Operator.EQUAL, C, (77,)),
                BoundLeaf(Operator.EQUAL, C, (1,)),
            )
        ),
        index,
        trace=trace,
    )

    sizes = {entry.kind: entry.length for entry in index.entries["c"]}
    fpp = trace[0].fpp
    assert fpp is not None
    assert 0 < fpp < 0.01
    assert trace == [
        Step("c", "bloom-filter", "c = 2", "keep", fpp=fpp, index_bytes=sizes["bloom-filter"]),
        Step("c", "bsi", "c = 2", "rows", 1, index_bytes=sizes["bsi"]),
        Step("d", None, "d = 1", "unknown", evidence="its from-the-future cannot decide"),
        Step(None, None, "f(x)", "unknown", evidence="no index can decide it"),
        Step("c", "bloom-filter", "c = 77", "skip", 0, fpp=fpp, index_bytes=sizes["bloom-filter"]),
    ]


def test_tells_that_conditions_have_no_row_in_common() -> None:
    index = FileIndex.read(write({"c": [("bitmap", payload(BITMAP, [1, 2], C))]}))
    one, two = (BoundLeaf(Operator.EQUAL, C, (value,)) for value in (1, 2))
    trace: list[Step] = []

    answer = evaluate(BoundAnd((one, two)), index, trace=trace)

    assert answer is SKIP
    assert [(step.predicate, step.outcome, step.rows) for step in trace] == [
        ("c = 1", "rows", 1),
        ("c = 2", "rows", 1),
        ("c = 1 AND c = 2", "skip", 0),
    ]


INDEXED = [(kind, data_type) for kind in KINDS.values() for data_type in TYPES if kind.takes(data_type)]
RANGED = [
    data_type for kind, data_type in INDEXED if kind is RANGE_BITMAP and data_type.root is not TypeRoot.CHAR
]
"""Types by which a range bitmap ranks rows; stored values of CHAR may differ where Spark has them equal."""
_NANOSECONDS = 9
_TEXT_TESTS = (Operator.ENDS_WITH, Operator.CONTAINS, Operator.LIKE)


def indexes(
    kind: IndexKind, rows: Sequence[Value | None], data_type: DataType
) -> st.SearchStrategy[FileIndex]:
    return payloads(kind, rows, data_type).map(
        lambda payload: FileIndex.read(container.write({"c": [(kind, payload)]}))
    )


@pytest.mark.parametrize(("kind", "data_type"), INDEXED, ids=str)
@given(data=st.data())
@examples(20)
def test_holds_every_match_and_nothing_else_where_it_is_exact(
    kind: IndexKind, data_type: DataType, data: st.DataObject
) -> None:
    field = DataField(0, "c", data_type)
    rows = data.draw(columns(data_type, least_integer=kind is not BSI))
    index = data.draw(indexes(kind, rows, data_type))

    for _ in range(8):
        leaf = data.draw(leaves(field, rows))
        result = evaluate(leaf, index, row_count=len(rows))
        ours, truth = selected(result, len(rows)), matching_rows(leaf, {"c": rows}, len(rows))
        assert truth <= ours
        is_exact = result is SKIP or (isinstance(result, Rows) and result.exact)
        if is_exact:
            assert ours == truth
        if kind is not BLOOM_FILTER and leaf.operator not in _TEXT_TESTS:
            assert is_exact or data_type.precision == _NANOSECONDS


@pytest.mark.parametrize(
    ("kind", "data_type"), [each for each in INDEXED if each[0] is not BLOOM_FILTER], ids=str
)
@given(data=st.data())
@examples(10)
def test_counts_the_rows_of_each_key(kind: IndexKind, data_type: DataType, data: st.DataObject) -> None:
    rows = data.draw(columns(data_type, least_integer=kind is not BSI))
    asked = data.draw(st.none() | st.sets(st.integers(0, max(0, len(rows) - 1))).map(BitMap))
    space = key_space(data_type)
    assert space is not None
    index = open_payload(kind, data.draw(payloads(kind, rows, data_type)), data_type).of_file(0)

    counted = [
        value for row, value in enumerate(rows) if value is not None and (asked is None or row in asked)
    ]
    assert list(index.key_counts(asked)) == sorted(Counter(map(space.key, counted)).items())


@given(data=st.data())
@examples(150)
def test_combines_leaves_of_several_columns(data: st.DataObject) -> None:
    row_count = data.draw(st.integers(0, 20))
    kinds: dict[str, IndexKind | None] = {"a": RANGE_BITMAP, "b": BITMAP, "c": BLOOM_FILTER, "d": None}
    rows = {
        name: data.draw(st.lists(st.none() | st.integers(0, 3), min_size=row_count, max_size=row_count))
        for name in kinds
    }
    written = {
        name: [] if kind is None else [(kind, data.draw(payloads(kind, rows[name], C.type)))]
        for name, kind in kinds.items()
    }
    fields = [DataField(at, name, C.type) for at, name in enumerate(kinds)]
    leaf = st.sampled_from(fields).flatmap(lambda field: leaves(field, rows[field.name]))
    predicates: st.SearchStrategy[BoundPredicate] = st.recursive(
        leaf,
        lambda parts: (
            st.builds(BoundAnd, st.lists(parts, max_size=3).map(tuple))
            | st.builds(BoundOr, st.lists(parts, max_size=3).map(tuple))
        ),
        max_leaves=8,
    )
    predicate = data.draw(predicates)

    result = evaluate(predicate, FileIndex.read(container.write(written)), row_count=row_count)

    ours, truth = selected(result, row_count), matching_rows(predicate, rows, row_count)
    assert truth <= ours
    if isinstance(result, Rows) and result.exact:
        assert ours == truth


@pytest.mark.parametrize("data_type", RANGED, ids=str)
@given(data=st.data())
@examples(30)
def test_top_n_keeps_the_first_rows(data_type: DataType, data: st.DataObject) -> None:
    field = DataField(0, "c", data_type)
    rows = data.draw(columns(data_type))
    index = data.draw(indexes(RANGE_BITMAP, rows, data_type))
    filters: st.SearchStrategy[BoundPredicate] = st.just(ALWAYS_TRUE) | leaves(field, rows)
    chosen = data.draw(filters)
    descending, nulls_first, strict = (data.draw(st.booleans()) for _ in range(3))
    limit = data.draw(st.integers(1, 12))
    selection = evaluate(chosen, index, row_count=len(rows))

    result = top_n(
        index,
        field,
        descending=descending,
        nulls_first=nulls_first,
        limit=limit,
        strict=strict,
        selection=selection,
    )

    if not isinstance(selection, Rows) or not selection.exact:
        assert result == selection
        return
    ours = selected(result, len(rows))
    key = sql_key(data_type)
    nulls: list[tuple[Any, int]] = [(None, row) for row in selection.positions if rows[row] is None]
    valued = [(key(value), row) for row in selection.positions if (value := rows[row]) is not None]
    valued.sort(key=lambda one: one[0], reverse=descending)
    ordered = nulls + valued if nulls_first else valued + nulls
    last = ordered[:limit][-1][0]
    before = BitMap([row for at, row in ordered[:limit] if at != last])
    tied = BitMap([row for at, row in ordered if at == last])
    assert ours <= before | tied
    assert before <= ours
    if strict:
        assert len(ours) == min(limit, len(ordered))
    else:
        assert ours == before | tied
