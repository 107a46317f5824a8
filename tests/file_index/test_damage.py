"""Bytes that are not what they should be: an answer or CorruptIndexError, in bounded time and memory."""

import random
import struct
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from app.errors import CorruptIndexError
from app.file_index.answers import Rows
from app.file_index.bitmap import bitmap
from app.file_index.bsi import bsi
from app.file_index.container import write
from app.file_index.evaluation import evaluate
from app.file_index.inspection import inspect
from app.file_index.range_bitmap import range_bitmap
from app.file_index.stacked_index import FileIndex
from app.file_index.top_rows import top_n
from app.predicates.model import ALWAYS_TRUE, BoundLeaf, Operator
from app.types import DataField, parse_type
from tests import golden_cases
from tests.examples import share
from tests.key_columns import key_column

INT = parse_type("INT")
STRING = parse_type("STRING")
SAMPLES = [
    name
    for name in golden_cases.index_names()
    if name.startswith(("columns-", "bitmap1-", "bitmap2-", "bsi-", "range-", "bloom-"))
]


def _use(content: bytes, golden: golden_cases.GoldenIndex) -> None:
    """Ask everything there is to ask; what comes back must be positions of the file."""
    index = FileIndex.read(content)
    inspect(index, {field.name: field.type for field in golden.fields})
    for check in golden.document["checks"][:12]:
        try:
            result = evaluate(golden.bind(check["predicate"]), index, row_count=golden.row_count)
        except CorruptIndexError:
            continue
        if isinstance(result, Rows):
            assert result.positions.max() < golden.row_count
    everything = evaluate(ALWAYS_TRUE, index, row_count=golden.row_count)
    for field in golden.fields:
        top_n(index, field, descending=True, nulls_first=False, limit=3, strict=True, selection=everything)


def _error_of(content: bytes, golden: golden_cases.GoldenIndex) -> CorruptIndexError | None:
    try:
        _use(content, golden)
    except CorruptIndexError as error:
        return error
    return None


@pytest.mark.parametrize("name", share(SAMPLES, 3))
def test_survives_damaged_files(name: str) -> None:
    golden = golden_cases.load_index(name)
    chance = random.Random(name)  # noqa: S311 - repeatable damage, no secret

    for _ in share(range(25), 5):
        damaged = bytearray(golden.content)
        for _ in range(chance.randrange(1, 5)):
            damaged[chance.randrange(len(damaged))] = chance.choice(
                [0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)]
            )
        if chance.random() < 0.3:
            del damaged[chance.randrange(len(damaged)) :]
        error = _error_of(bytes(damaged), golden)
        assert error is None or error.offset is None or 0 <= error.offset <= len(damaged)


@given(st.binary(max_size=300))
def test_survives_any_file(content: bytes) -> None:
    with pytest.raises(CorruptIndexError):
        FileIndex.read(content)


def test_bitmaps_that_overlap_cost_no_more_than_the_body() -> None:
    shared = BitMap(range(0, 100_000, 2)).serialize()
    entries = b"".join(struct.pack(">ii", key, 0) for key in range(20_000))
    payload = struct.pack(">biib", 1, 200_000, 20_000, 0) + entries + shared

    leaf = BoundLeaf(Operator.GREATER_THAN, DataField(0, "c", INT), (-1,))
    index = FileIndex.read(write({"c": [("bitmap", payload)]}))
    started = time.thread_time()
    tracemalloc.start()
    try:
        with pytest.raises(CorruptIndexError):
            evaluate(leaf, index)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak_bytes < 1_000_000 + 20 * len(payload)
    assert time.thread_time() - started < 5


def test_refuses_positions_beyond_the_rows() -> None:
    field = DataField(0, "c", INT)
    column = key_column([1, 1, 2, None, None], INT)
    for kind, payload, row_count_at in (
        ("bitmap", bitmap.write(column), 1),
        ("range-bitmap", range_bitmap.write(column), 5),
        ("bsi", bsi.write(column), 1),
    ):
        damaged = bytearray(payload)
        struct.pack_into(">i", damaged, row_count_at, 2)
        index = FileIndex.read(write({"c": [(kind, bytes(damaged))]}))

        with pytest.raises(CorruptIndexError, match="below 2"):
            evaluate(BoundLeaf(Operator.NOT_EQUAL, field, (1,)), index)
