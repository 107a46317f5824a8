"""The rows of many files at once beside the readers of each file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from app.errors import CorruptIndexError
from app.file_index import container
from app.file_index.answers.result import Rows
from app.file_index.answers.row_stack import SelectingRows
from app.file_index.bitmap import bitmap
from app.file_index.container import FileIndex
from app.file_index.evaluation import evaluate
from app.file_index.index_choice import condition_of
from app.file_index.index_kinds import BITMAP, RANGE_BITMAP, IndexKind
from app.file_index.stacked.evaluation import decide_files
from app.file_index.stacked.index import StackedIndex
from app.file_index.stacked.joined import JoinedIndexes
from app.file_index.stacked.rows import FileRows, select_rows
from app.predicates.model import BoundLeaf, Operator
from app.types import DataField, parse_type
from app.types.bytes_column import BytesColumn
from tests import golden_file_index
from tests.file_index.stacked.tables import INDEXED, joined, predicates, tables
from tests.file_index.strategies import leaves
from tests.key_columns import key_column
from tests.planning.made_tables import payload

if TYPE_CHECKING:
    from app.file_index.answers.trace import Step
    from app.predicates.model import BoundPredicate
    from app.types import DataType, Value


def by_file(predicate: BoundPredicate, content: bytes, row_count: int) -> FileRows | str:
    """What the readers of one file say; of what is wrong with it, the text."""
    trace: list[Step] = []
    try:
        result = evaluate(predicate, FileIndex.read(content), row_count=row_count, trace=trace)
    except CorruptIndexError as error:
        return str(error)
    kinds = [step.index for step in trace if step.index is not None]
    return FileRows(result, kinds[-1] if kinds else None)


def told(rows: FileRows) -> FileRows | str:
    return rows if rows.error is None else str(rows.error)


@pytest.mark.parametrize("data_type", INDEXED, ids=str)
@given(data=st.data())
@settings(deadline=None, max_examples=8)
def test_selects_the_rows_that_the_indexes_of_each_file_select(
    data_type: DataType, data: st.DataObject
) -> None:
    rows, contents = data.draw(tables(data_type))
    fields = [DataField(at, name, data_type) for at, name in enumerate("ab")]
    counts = np.array([len(each["a"]) for each in rows])
    values = [value for each in rows for value in each["a"]]

    for _ in range(4):
        predicate = data.draw(
            predicates(st.sampled_from(fields).flatmap(lambda field: leaves(field, values)))
        )
        chosen = np.flatnonzero(
            (data.draw(st.lists(st.booleans(), min_size=7, max_size=7)) * 20)[: len(rows)]
        )
        chosen = chosen[::-1]
        index = data.draw(joined(contents, predicate))

        found = select_rows(predicate, index, chosen, counts[chosen])

        assert [told(each) for each in found] == [
            by_file(predicate, contents[file], int(counts[file])) for file in chosen.tolist()
        ]


@given(data=st.data())
@settings(deadline=None, max_examples=80)
def test_says_of_a_damaged_index_what_its_readers_say(data: st.DataObject) -> None:
    data_type = data.draw(
        st.sampled_from([parse_type(text) for text in ("INT", "STRING", "TINYINT", "DOUBLE")])
    )
    rows, contents = data.draw(tables(data_type))
    counts = np.array([len(each["a"]) for each in rows])
    damaged = []
    for content in contents:
        changed = bytearray(content)
        for _ in range(data.draw(st.integers(0, 2)) if len(contents) < 20 else 0):
            changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
        damaged.append(bytes(changed))
    damaged *= 20 if len(damaged) < 20 else 1
    counts = np.resize(counts, len(damaged))
    leaf = data.draw(leaves(DataField(0, "a", data_type), [value for each in rows for value in each["a"]]))
    index = data.draw(joined(damaged, leaf))

    found = select_rows(leaf, index, np.arange(len(damaged)), counts)

    for content, count, each in zip(damaged, counts.tolist(), found, strict=True):
        assert told(each) == by_file(leaf, content, count)


@pytest.mark.parametrize("name", golden_file_index.names())
def test_selects_what_the_readers_of_golden_files_select(name: str) -> None:
    golden = golden_file_index.load(name)
    stack = StackedIndex.read(BytesColumn.of([golden.content, None, *[golden.content] * 9]))
    index = JoinedIndexes(((stack, np.arange(2, 6)), (stack, np.arange(6, 11))))

    for check in golden.document["checks"]:
        predicate = golden.bind(check["predicate"])

        found = select_rows(predicate, index, np.arange(9), np.full(9, golden.row_count))

        assert [told(each) for each in found] == [by_file(predicate, golden.content, golden.row_count)] * 9


@pytest.mark.parametrize(
    ("data_type", "literal"), [("INT", 3), ("DOUBLE", 3.0), ("STRING", b"3"), ("TIMESTAMP(3)", 3_000_000)]
)
@pytest.mark.parametrize("kind", [BITMAP, RANGE_BITMAP])
@pytest.mark.parametrize("times_asked", [(0,), (2,), (0, 0), (0, 2, 0)])
def test_stacks_select_rows_themselves(
    kind: IndexKind, data_type: str, literal: Value, times_asked: tuple[int, ...]
) -> None:
    field = DataField(0, "a", parse_type(data_type))
    rows: list[Value | None] = [literal, None, b"5" if isinstance(literal, bytes) else 5 * literal] * 9
    content = container.write({"a": [(kind, payload(kind, rows, field))]})
    parts = []
    for times in times_asked:
        index = StackedIndex.read(BytesColumn.of([content] * 20))
        for _ in range(times):
            # Keys that are asked about again are merged.
            leaf = BoundLeaf(Operator.EQUAL, field, (literal,))
            decide_files(leaf, index, np.arange(20), np.full(20, len(rows)))
        stack: object = index.open("a", kind, field.type).stack
        assert isinstance(stack, SelectingRows)
        parts.append((stack, np.arange(3, 20)))

    for operator, rows_of_three in (
        (Operator.EQUAL, [0]),
        (Operator.NOT_EQUAL, [2]),
        (Operator.LESS_OR_EQUAL, [0]),
        (Operator.IS_NULL, [1]),
    ):
        condition = condition_of(
            BoundLeaf(operator, field, (literal,) if operator is not Operator.IS_NULL else ())
        )
        assert condition is not None
        is_left = kind == RANGE_BITMAP and data_type == "STRING" and operator is not Operator.IS_NULL
        expected = BitMap(row for row in range(len(rows)) if row % 3 in rows_of_three)
        found = type(parts[0][0]).rows(parts, condition)
        assert found == [None if is_left else expected] * 17 * len(parts)


def test_files_that_share_texts_keep_their_own_rows() -> None:
    field = DataField(0, "a", parse_type("STRING"))
    files = [[b"b" if row == number % 5 else b"" for row in range(5)] for number in range(40)]
    # Those of version 1 are read before those of version 2.
    payloads = [
        bitmap.write(key_column(rows, field.type), version=1 + (number % 3 > 0))
        for number, rows in enumerate(files)
    ]
    contents = [container.write({"a": [(BITMAP, each)]}) for each in payloads]
    stacks = [StackedIndex.read(BytesColumn.of(contents[start : start + 20])) for start in (0, 20)]
    index = JoinedIndexes(tuple((each, np.arange(20)) for each in stacks))

    leaf = BoundLeaf(Operator.EQUAL, field, (b"b",))
    found = select_rows(leaf, index, np.arange(40), np.full(40, 5))

    assert [each.result for each in found] == [
        Rows(BitMap([number % 5]), exact=True) for number in range(len(files))
    ]
