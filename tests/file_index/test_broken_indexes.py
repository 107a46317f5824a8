"""Indexes that are broken, missing or of another schema, among others that are not."""

import struct
from collections.abc import Sequence

import numpy as np
import pytest

from app.errors import CorruptIndexError
from app.file_index.answers import Answer
from app.file_index.bitmap import bitmap
from app.file_index.bitmap.stack import BitmapStack
from app.file_index.container import write
from app.file_index.evaluation import decide_files, evaluate
from app.file_index.findings import FileDecisions
from app.file_index.index_kinds import BITMAP
from app.file_index.range_bitmap import range_bitmap
from app.file_index.stacked_index import FileIndex, Heads, StackedIndex
from app.predicates.model import BoundAnd, BoundLeaf, BoundOr, BoundPredicate, Operator
from app.types import DataField, Value, parse_type
from app.types.bytes_column import BytesColumn
from tests.key_columns import key_column

INT = parse_type("INT")
C, D = DataField(0, "c", INT), DataField(1, "d", INT)


def _bitmap(*rows: Value | None, version: int = 2) -> bytes:
    return bitmap.write(key_column(rows, INT), version)


def _file(**columns: Sequence[tuple[str, bytes | None]]) -> bytes:
    return write(columns)


def _equal(field: DataField, value: Value) -> BoundLeaf:
    return BoundLeaf(Operator.EQUAL, field, (value,))


def _decide(
    predicate: BoundPredicate, contents: Sequence[bytes | None], row_counts: int | Sequence[int] = -1
) -> FileDecisions:
    index = StackedIndex.read(BytesColumn.of(contents))
    counts = np.broadcast_to(np.array(row_counts, np.int64), len(contents))
    return decide_files(predicate, index, np.arange(len(contents)), counts)


def _raised(predicate: BoundPredicate, content: bytes, row_count: int | None = None) -> CorruptIndexError:
    with pytest.raises(CorruptIndexError) as caught:
        evaluate(predicate, FileIndex.read(content), row_count=row_count)
    return caught.value


BROKEN = {
    "head": b"no container",
    "payload": _file(c=[("bitmap", b"\3broken")]),
    "outside": _file(c=[("bitmap", _bitmap(1, 2))])[:-1],
    "type": _file(c=[("bsi", b""), ("bitmap", b"")]),
}


@pytest.mark.parametrize("name", BROKEN)
def test_keeps_a_broken_file_and_says_what_its_reader_says(name: str) -> None:
    decisions = _decide(_equal(C, 9), [_file(c=[("bitmap", _bitmap(1, 2))]), BROKEN[name]])

    assert decisions.skip.tolist() == [True, False]
    assert list(decisions.errors) == [1]
    if name == "head":
        with pytest.raises(CorruptIndexError) as caught:
            FileIndex.read(BROKEN[name])
        raised = caught.value
    else:
        raised = _raised(_equal(C, 9), BROKEN[name])
    assert (str(decisions.errors[1]), decisions.errors[1].offset) == (str(raised), raised.offset)


def test_an_index_that_no_column_of_the_type_can_have_is_broken() -> None:
    text = DataField(0, "c", parse_type("BYTES"))
    content = _file(c=[("bitmap", _bitmap(1))])
    leaf = BoundLeaf(Operator.IS_NULL, text)

    decisions = _decide(leaf, [content, None])

    assert not decisions.skip.any()
    assert {file: str(error) for file, error in decisions.errors.items()} == {0: str(_raised(leaf, content))}


def test_every_index_must_have_the_rows_of_the_file() -> None:
    content = _file(c=[("bitmap", _bitmap(1, 2))])

    decisions = _decide(_equal(C, 9), [content] * 3, [2, 3, -1])

    assert decisions.skip.tolist() == [True, False, True]
    assert str(decisions.errors[1]) == str(_raised(_equal(C, 9), content, 3))


def test_asks_nothing_of_files_that_are_ruled_out_or_broken() -> None:
    contents = [
        _file(c=[("bitmap", _bitmap(1))], d=[("bitmap", b"?")]),
        _file(c=[("bitmap", _bitmap(2))], d=[("bitmap", b"?")]),
    ]

    both = _decide(BoundAnd((_equal(C, 1), _equal(D, 1))), contents)
    any_of = _decide(BoundOr((_equal(D, 1), _equal(C, 9))), contents)

    assert both.skip.tolist() == [False, True]
    assert list(both.errors) == [0]
    assert not any_of.skip.any()
    assert list(any_of.errors) == [0, 1]


def test_an_entry_that_is_there_twice_is_broken_only_here() -> None:
    payload = bytearray(_bitmap(1, 2, version=1))
    payload[10:14] = payload[18:22]
    content = _file(c=[("bitmap", bytes(payload))])

    decisions = _decide(_equal(C, 9), [content])

    assert decisions.skip.tolist() == [False]
    assert "once" in decisions.errors[0].expectation


def test_a_file_may_lack_everything() -> None:
    decisions = _decide(_equal(C, 9), [None, _file(), _file(c=[]), _file(c=[("later", b"?")])])

    assert decisions.answers.tolist() == [Answer.KEEP] * 4
    assert not decisions.answered.any()
    assert decisions.errors == {}
    assert _decide(_equal(C, 9), []).skip.tolist() == []


def test_an_empty_entry_decides_what_needs_a_value() -> None:
    contents = [_file(c=[("bitmap", None)]), _file(c=[("later", None)]), _file(c=[("bitmap", _bitmap(1))])]
    around = BoundOr((BoundLeaf(Operator.LESS_THAN, C, (5,)), BoundLeaf(Operator.GREATER_THAN, C, (6,))))

    assert _decide(_equal(C, 1), contents).skip.tolist() == [True, True, False]
    assert _decide(BoundLeaf(Operator.NOT_EQUAL, C, (1,)), contents).skip.tolist() == [False, False, True]
    assert _decide(around, contents).skip.tolist() == [False, False, False]


def test_an_empty_entry_keeps_a_file_before_anything_else_is_asked() -> None:
    content = _file(c=[("bitmap", None)], d=[("bitmap", b"broken")])
    parts = (BoundLeaf(Operator.LESS_THAN, C, (5,)), BoundLeaf(Operator.GREATER_THAN, C, (6,)), _equal(D, 1))

    decisions = _decide(BoundOr(parts), [content])

    assert decisions.skip.tolist() == [False]
    assert decisions.errors == {}


def test_asks_no_further_index_once_one_has_settled_it() -> None:
    content = _file(c=[("range-bitmap", b"broken"), ("bitmap", _bitmap(1, 2))])

    found, ruled_out = _decide(_equal(C, 1), [content]), _decide(_equal(C, 9), [content])

    assert (found.answers.tolist(), found.errors) == ([Answer.ROWS], {})
    assert (ruled_out.answers.tolist(), ruled_out.errors) == ([Answer.SKIP], {})


@pytest.mark.parametrize("kind", ["bitmap 1", "bitmap 2", "range-bitmap"])
def test_a_wrong_number_of_values_hides_none(kind: str) -> None:
    match kind:
        case "range-bitmap":
            payload, at = bytearray(range_bitmap.write(key_column([1, 1, 2, 2], INT))), 9
        case _:
            version = 1 if kind == "bitmap 1" else 2
            payload, at = bytearray(_bitmap(1, 1, 2, 2, version=version)), 5
    struct.pack_into(">i", payload, at, 1)
    content = _file(c=[(kind.partition(" ")[0], bytes(payload))])

    for leaf in (BoundLeaf(Operator.NOT_EQUAL, C, (1,)), _equal(C, 2)):
        decisions = _decide(leaf, [content])
        assert not decisions.skip.any()
        assert list(decisions.errors) == [0]


def test_a_range_bitmap_has_slices_for_all_of_its_values() -> None:
    rows = np.arange(3, dtype=np.uint32)
    slices, fewer = (
        b"".join(range_bitmap.write_slices([(rows, np.array(codes, np.uint32))], len(set(codes))))
        for codes in ((0, 1, 2), (0, 1, 1))
    )
    sound = range_bitmap.write(key_column([1, 2, 3], INT))
    content = _file(c=[("range-bitmap", sound.removesuffix(slices) + fewer)])

    assert str(_decide(_equal(C, 9), [content]).errors[0]) == str(_raised(_equal(C, 9), content))


def test_a_bitmap_of_version_1_ends_with_its_entries_if_no_rows_need_a_bitmap() -> None:
    content = _file(c=[("bitmap", _bitmap(1, 2, version=1) + b"\0\0\0\3")])

    assert list(_decide(_equal(C, 9), [content]).errors) == [0]


def test_two_sets_of_rows_leave_doubt_whether_they_meet() -> None:
    content = _file(c=[("bitmap", _bitmap(1, 2))], d=[("bitmap", _bitmap(1, 2))])
    meeting, apart = (BoundAnd((_equal(C, 1), _equal(D, value))) for value in (1, 2))

    decisions = [_decide(predicate, [content], 2) for predicate in (meeting, apart)]

    assert [(one.answers != Answer.DOUBT).tolist() for one in decisions] == [[False], [False]]
    assert [one.skip.tolist() for one in decisions] == [[False], [False]]


@pytest.mark.parametrize(
    ("test", "certain"),
    [
        (BoundLeaf(Operator.NOT_EQUAL, C, (1,)), True),
        (BoundLeaf(Operator.EQUAL, C, (2,)), True),
        # Of a column of its own, or where no index answers the test, IS NOT NULL still says something.
        (BoundLeaf(Operator.NOT_EQUAL, D, (1,)), False),
        (BoundLeaf(Operator.CONTAINS, C, (2,)), True),
    ],
)
def test_is_not_null_leaves_no_doubt_beside_a_test_of_its_column(test: BoundLeaf, *, certain: bool) -> None:
    content = _file(c=[("bitmap", _bitmap(1, None, 2))], d=[("bitmap", _bitmap(1, 2, None))])

    decided = _decide(BoundAnd((BoundLeaf(Operator.IS_NOT_NULL, C), test)), [content], 3)

    assert ((decided.answers != Answer.DOUBT).tolist(), decided.skip.tolist()) == ([certain], [False])


def test_opens_each_kind_once_and_estimates_its_memory_before() -> None:
    contents = [_file(c=[("bitmap", _bitmap(*range(file, file + 30)))]) for file in range(50)]
    index = StackedIndex.read(BytesColumn.of(contents))
    estimated, before = index.own_nbytes, index.opened_nbytes

    opened = index.open("c", BITMAP, INT)

    assert opened is index.open("c", BITMAP, INT)
    assert isinstance(opened.stack, BitmapStack)
    stack = opened.stack
    assert stack.directory.nbytes + stack.row_counts.nbytes < stack.nbytes <= estimated
    assert index.nbytes == estimated + sum(map(len, contents))
    assert before + stack.nbytes <= index.opened_nbytes <= estimated


def test_payloads_outside_of_a_side_file_are_broken_though_nobody_can_fetch_them() -> None:
    content = _file(c=[("bitmap", _bitmap(1, 2))], d=[("bitmap", _bitmap(1, 2))])
    heads = Heads.read(BytesColumn.of([content, content]), np.array([len(content), len(content) - 1]))
    fetched = {("d", "bitmap"): BytesColumn.of([_bitmap(1, 2), None])}
    index = StackedIndex(heads, fetched)

    decisions = decide_files(_equal(D, 9), index, np.arange(2), np.full(2, 2))
    unfetched = decide_files(_equal(C, 9), index, np.arange(2), np.full(2, 2))

    assert decisions.skip.tolist() == [True, False]
    assert list(decisions.errors) == [1]
    assert f"within {len(content) - 1} bytes" in decisions.errors[1].expectation
    assert not unfetched.skip.any()
    assert not unfetched.answered.any()
    with pytest.raises(CorruptIndexError, match="within"):
        evaluate(_equal(D, 9), index.file_index(1))
