"""What the heads of bit-sliced integers decide, and where they leave doubt."""

import struct
from collections.abc import Sequence

import numpy as np
import pytest

from app.file_index.answers import Answer, Condition, NullTest, Points, Span, never_out_of_time
from app.file_index.bsi import bsi
from app.file_index.bsi.stack import BsiStack
from app.types import parse_type
from app.types.bytes_column import BytesColumn
from tests.key_columns import key_column

SKIP, DOUBT, ROWS = Answer.SKIP, Answer.DOUBT, Answer.ROWS
FILES: tuple[list[int | None], ...] = ([-9, -2, 3, 7], [5, 6], [-4, None], [0], [None])


def _stack(*files: Sequence[int | None]) -> BsiStack:
    bigint = parse_type("BIGINT")
    return BsiStack.read(BytesColumn.of([bsi.write(key_column(rows, bigint)) for rows in files]))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Points((7,)), [ROWS, SKIP, SKIP, SKIP, SKIP]),
        (Points((0,)), [DOUBT, DOUBT, SKIP, ROWS, SKIP]),
        (Points((-9, 6)), [ROWS, ROWS, SKIP, SKIP, SKIP]),
        (Points((-(1 << 63), 1 << 70)), [SKIP] * 5),
        (Points((0,), negated=True), [ROWS, ROWS, ROWS, SKIP, SKIP]),
        (Points((-9, 7), negated=True), [DOUBT, ROWS, ROWS, ROWS, SKIP]),
        (Points(tuple(range(-4, 7)), negated=True), [ROWS, SKIP, SKIP, SKIP, SKIP]),
        (Span(7, None), [ROWS, SKIP, SKIP, SKIP, SKIP]),
        (Span(4, 6), [DOUBT, DOUBT, SKIP, SKIP, SKIP]),
        (Span(None, -3), [ROWS, SKIP, ROWS, SKIP, SKIP]),
        (Span(-3, 0), [DOUBT, SKIP, DOUBT, SKIP, SKIP]),
        (Span(0, 1), [DOUBT, DOUBT, SKIP, ROWS, SKIP]),
        (Span(None, None), [ROWS, ROWS, ROWS, ROWS, SKIP]),
        (Span(1 << 70, None), [SKIP] * 5),
        (Span(None, -(1 << 70)), [SKIP] * 5),
        (Span(3, 3), [SKIP] * 5),
        (NullTest(null=True), [SKIP, SKIP, ROWS, SKIP, ROWS]),
        (NullTest(null=False), [ROWS, ROWS, ROWS, ROWS, SKIP]),
    ],
    ids=str,
)
def test_heads_decide_what_lies_outside_and_what_takes_in_the_ends(
    condition: Condition, expected: list[np.int8]
) -> None:
    answers = _stack(*FILES).answers(condition, np.arange(len(FILES)), never_out_of_time)
    assert answers.tolist() == expected


def test_holds_the_largest_integer() -> None:
    largest = bsi.LARGEST_ABSOLUTE
    stack = _stack([largest], [-largest])

    assert stack.rows_with([largest]).tolist() == [ROWS, SKIP]
    assert stack.rows_with([-largest]).tolist() == [SKIP, ROWS]
    assert stack.rows_between(largest + 1, None).tolist() == [SKIP, SKIP]
    assert stack.rows_between(None, -largest).tolist() == [SKIP, SKIP]


def test_finds_what_cannot_be_read() -> None:
    sound = bsi.write(key_column([1, -2], parse_type("INT")))
    more_slices, other_version = bytearray(sound), bytearray(sound)
    struct.pack_into(">q", more_slices, 15, 1 << 40)
    other_version[0] = 2

    stack = BsiStack.read(
        BytesColumn.of([sound, None, b"", sound[:-1], bytes(more_slices), bytes(other_version)])
    )

    assert stack.broken.tolist() == [False, False, True, True, True, True]
    assert stack.row_counts[0] == 2
    assert np.all(stack.rows_with([1])[:2] == [ROWS, SKIP])
