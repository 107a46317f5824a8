"""Rows of files of such a size that their slices are stored as bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pytest

from app.errors import CorruptIndexError
from app.file_index import container
from app.file_index.container import FileIndex
from app.file_index.evaluation import evaluate
from app.file_index.index_kinds import RANGE_BITMAP
from app.file_index.keys.key_column import KeyColumn
from app.file_index.range_bitmap import range_bitmap
from app.file_index.range_bitmap.bit_slice_index import ENTRY
from app.file_index.range_bitmap.stack import RangeBitmapStack
from app.file_index.shared import dense_rows
from app.file_index.stacked.index import StackedIndex
from app.file_index.stacked.joined import JoinedIndexes
from app.file_index.stacked.rows import select_rows
from app.predicates.model import BoundLeaf, Operator
from app.types import DataField, parse_type
from app.types.bytes_column import BytesColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from app.file_index.answers.result import Result
    from app.types.roaring import Positions

FIELD: Final = DataField(0, "c", parse_type("INT"))
LEAVES: Final = [
    *(BoundLeaf(Operator.EQUAL, FIELD, (value,)) for value in (0, 1, 7, 300, 999, 5_000)),
    *(BoundLeaf(Operator.NOT_EQUAL, FIELD, (value,)) for value in (3, 998)),
    BoundLeaf(Operator.BETWEEN, FIELD, (2, 3)),
    BoundLeaf(Operator.BETWEEN, FIELD, (1, 900)),
    BoundLeaf(Operator.BETWEEN, FIELD, (255, 256)),
    BoundLeaf(Operator.GREATER_OR_EQUAL, FIELD, (4,)),
    BoundLeaf(Operator.LESS_THAN, FIELD, (500,)),
    BoundLeaf(Operator.IN, FIELD, (1, 2, 400)),
    BoundLeaf(Operator.IS_NULL, FIELD),
    BoundLeaf(Operator.IS_NOT_NULL, FIELD),
]


def written(values: NDArray[np.int64], nulls: NDArray[np.bool_] | None = None) -> bytes:
    column = pa.array(values.astype(np.int32), pa.int32(), mask=nulls)
    return container.write({"c": [(RANGE_BITMAP, range_bitmap.write(KeyColumn.of(column, FIELD.type, "c")))]})


def contents() -> list[bytes]:
    random = np.random.default_rng(7)
    files = []
    for rows in (8_193, 10_000, 16_384, 40_000, 65_536, 70_000):
        uniform = random.integers(0, 1_000, rows)
        files += [
            written(uniform),
            # Most slices are lists, and some rows have no value.
            written(np.minimum(random.geometric(0.3, rows), 12), random.random(rows) < 0.1),
            written(random.integers(0, 2, rows), random.random(rows) < 0.9),
            # The rows with a value are runs, and so is a slice.
            written(np.sort(uniform), random.random(rows) < 0.02),
        ]
    return [*files, written(np.full(9_000, 5)), written(np.zeros(9_000, np.int64), np.ones(9_000, bool))]


FILES: Final = contents()


def by_file(leaf: BoundLeaf, content: bytes) -> Result | str:
    try:
        return evaluate(leaf, FileIndex.read(content))
    except CorruptIndexError as error:
        return str(error)


def together(leaf: BoundLeaf, files: list[bytes]) -> list[Result | str]:
    places = np.arange(len(files))
    index = JoinedIndexes(((StackedIndex.read(BytesColumn.of(files)), places),))
    found = select_rows(leaf, index, places, np.full(len(files), -1))
    return [each.result if each.error is None else str(each.error) for each in found]


@pytest.mark.parametrize("leaf", LEAVES, ids=str)
def test_rows_are_those_of_each_file(leaf: BoundLeaf) -> None:
    assert together(leaf, FILES) == [by_file(leaf, content) for content in FILES]


def test_slices_that_are_bits_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    select = dense_rows.select_dense

    def counted(*arguments: object, **options: object) -> list[Positions | None]:
        found: list[Positions | None] = [*select(*arguments, **options)]  # type: ignore[arg-type] # passed on
        decoded.append(len(found))
        return found

    monkeypatch.setattr("app.file_index.range_bitmap.rows.select_dense", counted)
    together(LEAVES[0], FILES[3:4] * 10)

    assert decoded == [10]


def test_damage_is_found_as_by_each_file() -> None:
    random = np.random.default_rng(11)
    for _ in range(60):
        chosen = [FILES[number] for number in random.integers(0, 12, 10).tolist()]
        damaged = [damage(content, random) for content in chosen]
        leaf = LEAVES[int(random.integers(0, len(LEAVES)))]

        for found, content, whole in zip(together(leaf, damaged), damaged, chosen, strict=True):
            expected = by_file(leaf, content)
            # Bits of rows that the file does not have are not looked at.
            assert found == expected or (isinstance(expected, str) and found == by_file(leaf, whole))


@pytest.mark.parametrize("leaf", [LEAVES[0], LEAVES[9]], ids=str)
def test_slices_of_the_file_before_are_not_those_of_a_file(leaf: BoundLeaf) -> None:
    content = FILES[0]
    stack: object = StackedIndex.read(BytesColumn.of([content])).open("c", RANGE_BITMAP, FIELD.type).stack
    assert isinstance(stack, RangeBitmapStack)
    changed = bytearray(content)
    first_slice = int(stack.existing.starts[0]) - ENTRY.size * int(stack.slices[0])
    offset, length = ENTRY.unpack_from(changed, first_slice)
    # There lies a slice that would do: the same one of an equal file.
    ENTRY.pack_into(changed, first_slice, offset - len(content), length)
    files = [content] * 10 + [bytes(changed)] * 2

    found = together(leaf, files)

    assert found == [by_file(leaf, each) for each in files]
    assert isinstance(found[-1], str)


def damage(content: bytes, random: np.random.Generator) -> bytes:
    changed = bytearray(content)
    for at in random.integers(0, len(changed), random.integers(0, 3)).tolist():
        changed[at] = int(random.integers(0, 256))
    # Heads of bitmaps are hit more often than by chance.
    if random.random() < 0.7:
        cookie = changed.find(b"\x3a\x30\0\0", int(random.integers(0, len(changed))))
        if cookie >= 0:
            changed[cookie + int(random.integers(0, 20))] = int(random.integers(0, 256))
    return bytes(changed)
