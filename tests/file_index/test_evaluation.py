"""Where the engine errs, where it leaves questions open, and what an answer says about itself."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyroaring import BitMap

from app.errors import CorruptIndexError
from app.file_index.answers.result import KEEP, SKIP, Result, Rows, Step
from app.file_index.bitmap import bitmap
from app.file_index.bloom_filter import bloom_filter
from app.file_index.bsi import bsi
from app.file_index.container import FileIndex, write
from app.file_index.evaluation import evaluate
from app.file_index.index_kinds import KINDS
from app.file_index.range_bitmap import range_bitmap
from app.file_index.top_n import top_n
from app.predicates.model import ALWAYS_FALSE, ALWAYS_TRUE, BoundAnd, BoundLeaf, BoundOr, Operator, Unknown
from app.types import DataField, Value, parse_type
from tests.key_columns import key_column


def _field(type_text: str, name: str = "c") -> DataField:
    return DataField(0, name, parse_type(type_text))


def _payload(kind: str, type_text: str, rows: Sequence[Value | None]) -> bytes:
    column = key_column(rows, parse_type(type_text))
    match KINDS[kind]:
        case "bloom-filter":
            return bloom_filter.write(column, 100, 0.01)
        case "bitmap":
            return bitmap.write(column)
        case "range-bitmap":
            return range_bitmap.write(column)
        case _:
            return bsi.write(column)


def _ask(
    kind: str, type_text: str, rows: Sequence[Value | None], operator: Operator, *literals: Value
) -> Result:
    index = FileIndex.read(write({"c": [(kind, _payload(kind, type_text, rows))]}))
    return evaluate(BoundLeaf(operator, _field(type_text), literals), index, row_count=len(rows))


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
    index = FileIndex.read(write({"c": [("range-bitmap", _payload("range-bitmap", "INT", [5, 4]))]}))

    with pytest.raises(CorruptIndexError, match="expected more than 2 rows, found 2"):
        top_n(
            index,
            _field("INT"),
            descending=False,
            nulls_first=False,
            limit=1,
            strict=True,
            selection=exactly(0, 1, 2),
        )


def test_an_exact_index_settles_a_leaf_before_others_are_opened() -> None:
    rows = [1, 2, 3]
    index = FileIndex.read(write({"c": [("bsi", b"broken"), ("bitmap", _payload("bitmap", "INT", rows))]}))

    assert evaluate(BoundLeaf(Operator.EQUAL, _field("INT"), (2,)), index) == exactly(1)


def test_constants_decide_every_row() -> None:
    index = FileIndex.read(write({}))

    assert evaluate(ALWAYS_TRUE, index, row_count=2) == exactly(0, 1)
    assert evaluate(ALWAYS_TRUE, index) is KEEP
    assert evaluate(ALWAYS_FALSE, index) is SKIP
    assert evaluate(BoundOr((ALWAYS_FALSE, Unknown("?"))), index) is KEEP


def test_refuses_an_index_of_another_number_of_rows() -> None:
    index = FileIndex.read(write({"c": [("bitmap", _payload("bitmap", "INT", [1, 2]))]}))

    with pytest.raises(CorruptIndexError, match="expected the 3 rows of the data file, found 2"):
        evaluate(BoundLeaf(Operator.IS_NULL, _field("INT")), index, row_count=3)


def test_refuses_an_index_that_the_type_cannot_have() -> None:
    index = FileIndex.read(write({"c": [("bitmap", _payload("bitmap", "INT", [1, 2]))]}))

    with pytest.raises(CorruptIndexError, match="no bitmap index on a column of type BYTES"):
        evaluate(BoundLeaf(Operator.IS_NULL, _field("BYTES")), index)


def test_tells_what_it_asked() -> None:
    rows = [1, 2, None]
    index = FileIndex.read(
        write(
            {
                "c": [
                    ("bsi", _payload("bsi", "INT", rows)),
                    ("bloom-filter", _payload("bloom-filter", "INT", rows)),
                ],
                "d": [("from-the-future", b"?")],
            }
        )
    )
    trace: list[Step] = []

    evaluate(
        BoundAnd(
            (
                BoundLeaf(Operator.EQUAL, _field("INT"), (2,)),
                BoundLeaf(Operator.EQUAL, _field("INT", "d"), (1,)),
                Unknown("f(x)"),
                BoundLeaf(Operator.EQUAL, _field("INT"), (77,)),
                BoundLeaf(Operator.EQUAL, _field("INT"), (1,)),
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
        Step("d", None, "d = 1", "unknown", evidence="its from-the-future cannot tell"),
        Step(None, None, "f(x)", "unknown", evidence="no index can decide it"),
        Step("c", "bloom-filter", "c = 77", "skip", 0, fpp=fpp, index_bytes=sizes["bloom-filter"]),
    ]


def test_tells_that_conditions_have_no_row_in_common() -> None:
    index = FileIndex.read(write({"c": [("bitmap", _payload("bitmap", "INT", [1, 2]))]}))
    one, two = (BoundLeaf(Operator.EQUAL, _field("INT"), (value,)) for value in (1, 2))
    trace: list[Step] = []

    answer = evaluate(BoundAnd((one, two)), index, trace=trace)

    assert answer is SKIP
    assert [(step.predicate, step.outcome, step.rows) for step in trace] == [
        ("c = 1", "rows", 1),
        ("c = 2", "rows", 1),
        ("c = 1 AND c = 2", "skip", 0),
    ]
