"""Searches of global index files as writers of each release write them, held against the rows."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from app.errors import CorruptIndexError, PaimonIndexError, UnsupportedFormatError
from app.file_index.answers import Span
from app.global_index.bitmap import Dictionary
from app.global_index.blocks import read_block, read_row_ids
from app.global_index.btree import Block, BTreeFile
from app.global_index.index_file import KeyBounds
from app.global_index.keys import same_keys
from app.global_index.search import KINDS, Part, searches
from app.predicates.model import BoundLeaf, Operator
from app.types import DataField, Value, parse_type
from tests.brute_force import matching_rows
from tests.examples import examples
from tests.global_index_files import (
    WRITERS,
    Habits,
    block,
    btree_file,
    found_by,
    metadata,
    rows_of,
    varint,
)

HABITS = [
    Habits(),
    Habits(block_bytes=1, compression="zstd", flags=False),
    Habits(block_bytes=60, compression="lz4", cuts=True, bloom=b"\xff" * 7),
]
NAN = math.nan
COLUMNS: dict[str, Sequence[Value | None]] = {
    "BOOLEAN": [True, None, False, True],
    "TINYINT": [-128, 127, None, 0, 0],
    "BIGINT": [-(2**63), 2**63 - 1, None, 5, 5, 300],
    "DOUBLE": [NAN, -0.0, 0.0, 1.5, None, -math.inf, math.inf, NAN],
    "FLOAT": [0.0, -0.0, NAN, None],
    "DECIMAL(9, 2)": [-100, 250, None],
    "DECIMAL(38, 10)": [-(10**37), -1, 0, 127, 128, 10**37, None],
    "STRING": [b"", b"a", b"a\0", "é".encode(), None, b"zz" * 200],
    "DATE": [-1, 0, 20_000, None],
    "TIME(3)": [0, 86_399_999, None],
    "TIMESTAMP(3)": [-1_000_000, 1_700_000_000_123_000_000, None],
    "TIMESTAMP(6)": [-1_000, 1_700_000_000_123_456_000, None, 0],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": [-1_000, 5_000, None],
}
OPERATORS = (
    Operator.EQUAL,
    Operator.NOT_EQUAL,
    Operator.LESS_THAN,
    Operator.LESS_OR_EQUAL,
    Operator.GREATER_THAN,
    Operator.GREATER_OR_EQUAL,
)


def leaves_on(field: DataField, values: Sequence[Value | None]) -> list[BoundLeaf]:
    literals = [value for value in values if value is not None]
    literals += [0.0, NAN] if field.type.text in ("FLOAT", "DOUBLE") else []
    return [
        *(BoundLeaf(operator, field, (literal,)) for literal in literals for operator in OPERATORS),
        BoundLeaf(Operator.IS_NULL, field),
        BoundLeaf(Operator.IS_NOT_NULL, field),
    ]


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("written", COLUMNS)
@pytest.mark.parametrize("habits", HABITS)
def test_each_test_finds_its_rows(kind: str, written: str, habits: Habits) -> None:
    field, values = DataField(0, "c", parse_type(written)), COLUMNS[written]
    content, told = WRITERS[kind](list(zip(values, range(len(values)), strict=True)), field.type, habits)

    for leaf in leaves_on(field, values):
        expected = matching_rows(leaf, {"c": values}, len(values))
        assert found_by(leaf, [(kind, content, told)], len(values)) == expected, leaf


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("written", COLUMNS)
def test_a_range_that_is_cut_anywhere_is_one(kind: str, written: str) -> None:
    field = DataField(0, "c", parse_type(written))
    values = [*COLUMNS[written][:3], None, *COLUMNS[written], *COLUMNS[written][:1]]
    rows = list(zip(values, range(len(values)), strict=True))
    files = [(kind, *WRITERS[kind](rows[at : at + 2], field.type, Habits())) for at in range(0, len(rows), 2)]

    for leaf in leaves_on(field, values):
        assert found_by(leaf, files, len(values)) == matching_rows(leaf, {"c": values}, len(values)), leaf


@pytest.mark.parametrize(
    ("span", "is_complement", "read"),
    [
        (Span(None, None), True, [0]),
        (Span(20, None), True, [0, 0, 1]),
        (Span(15, 45), True, [0, 0, 1, 4]),
        (Span(25, None), False, [2, 3, 4]),
        (Span(None, 25), False, [0, 1, 2]),
        (Span(12, 13), False, [1]),
        (Span(50, None), False, []),
    ],
)
def test_a_span_reads_the_files_of_its_keys_or_of_the_others(
    span: Span, is_complement: bool, read: list[int]
) -> None:
    files = [KeyBounds(10 * at, 10 * at + 9, has_keys=True, has_nulls=not at) for at in range(5)]
    parts = [Part(BTreeFile(100, 50, parse_type("INT")), bounds) for bounds in files]

    chosen = searches(span, parts)

    assert chosen.is_complement is is_complement
    assert sorted(at for at, _ in chosen.searches) == sorted(read)


def test_an_empty_text_is_no_missing_key() -> None:
    """1.4 tells of both alike."""
    field = DataField(0, "c", parse_type("STRING"))
    content, told = btree_file([(b"", 0), (None, 1)], field.type, Habits(flags=False))

    assert told == metadata(None, None, has_nulls=True, flags=False)
    assert found_by(BoundLeaf(Operator.EQUAL, field, (b"",)), [("btree", content, told)], 2) == BitMap([0])


def test_a_point_reads_one_block_of_many() -> None:
    field = DataField(0, "c", parse_type("BIGINT"))
    rows = [(number * 3, number) for number in range(6_000)]
    content, _ = btree_file(rows, field.type, Habits(block_bytes=1 << 10))
    read: list[int] = []

    search = KINDS["btree"](len(content), len(rows), field.type).rows_with([30])
    decoded: Any = None
    found = BitMap()
    while True:
        try:
            pieces = search.send(decoded)
        except StopIteration as end:
            found = end.value
            break
        read += [piece.size for piece in pieces if piece.content is None]
        decoded = [piece.read(content[piece.offset : piece.offset + piece.size]) for piece in pieces]

    assert found == BitMap([10])
    assert len(content) > 1 << 16
    assert len(read) == 2  # the tail, and a block
    assert sum(read) < len(content)


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: content[:-60],
        lambda content: content[: len(content) // 2],
        lambda _: b"",
        lambda content: content[:3] + bytes([content[3] ^ 4]) + content[4:],
        lambda content: content[:-52] + struct.pack("<qiqqiqiii", 0, 0, 0, 1 << 60, 9, 0, 0, 1, 0x50425449),
        lambda content: content[:-52] + struct.pack("<qiqqiqiii", 0, 0, 0, 0, -1, 0, 0, 1, 0x50425449),
    ],
)
def test_a_damaged_btree_says_so(damage: Any) -> None:
    field = DataField(0, "c", parse_type("BIGINT"))
    content, _ = btree_file([(number, number) for number in range(50)], field.type, Habits())
    damaged = damage(content)

    with pytest.raises(CorruptIndexError):
        rows_of(KINDS["btree"](len(damaged), 50, field.type).rows_between(None, None), damaged)


def test_rows_beyond_the_range_are_damage() -> None:
    field = DataField(0, "c", parse_type("BIGINT"))
    content, _ = btree_file([(1, 0), (2, 50)], field.type, Habits())

    with pytest.raises(CorruptIndexError, match="row ids below 50, found 50"):
        rows_of(KINDS["btree"](len(content), 50, field.type).rows_between(None, None), content)


def test_what_is_not_known_is_unsupported() -> None:
    field = DataField(0, "c", parse_type("BIGINT"))
    content, _ = btree_file([(1, 0)], field.type, Habits(compression="lzo"))
    newer = content[:-8] + struct.pack("<i", 2) + content[-4:]

    for each, said in ((content, "lzo"), (newer, "version 2")):
        with pytest.raises(UnsupportedFormatError, match=said):
            rows_of(KINDS["btree"](len(each), 1, field.type).rows_with([1]), each)


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_a_block_that_expands_beyond_its_length_is_damage(compression: str) -> None:
    stored = block(b"x" * 5_000, compression)
    # Its varint of the length, and the length that lz4 says again.
    lying = bytes([9]) + stored[2:-5]
    if compression == "lz4":
        lying = lying[:5] + struct.pack("<i", 9) + lying[9:]
    framed = lying + stored[-5:-4]
    with pytest.raises(CorruptIndexError):
        read_block(framed + struct.pack("<I", zlib.crc32(framed)), lambda _: None)


@pytest.mark.parametrize("kind", WRITERS)
@examples(200)
@given(data=st.data())
def test_flipped_bits_raise_our_own_errors_or_change_nothing_else(kind: str, data: st.DataObject) -> None:
    field = DataField(0, "c", parse_type(data.draw(st.sampled_from(["BIGINT", "STRING", "TIMESTAMP(6)"]))))
    values = COLUMNS[field.type.text]
    content, told = WRITERS[kind](list(zip(values, range(len(values)), strict=True)), field.type, HABITS[1])
    at = data.draw(st.integers(0, len(content) - 1))
    damaged = content[:at] + bytes([content[at] ^ data.draw(st.integers(1, 255))]) + content[at + 1 :]

    for leaf in leaves_on(field, values)[-4:]:
        try:
            found = found_by(leaf, [(kind, damaged, told)], len(values))
        except PaimonIndexError:
            continue
        assert not found or found.max() < len(values)


@examples(200)
@given(told=st.binary(max_size=40), written=st.sampled_from(sorted(COLUMNS)))
def test_any_metadata_is_read_or_refused(told: bytes, written: str) -> None:
    with suppress(CorruptIndexError):
        KeyBounds.read(told, parse_type(written))


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("VARCHAR(20)", "STRING", True),
        ("CHAR(4)", "STRING", False),
        ("CHAR(4)", "CHAR(8)", False),
        ("INT", "BIGINT", False),
        ("INT", "INT NOT NULL", True),
        ("DECIMAL(9, 2)", "DECIMAL(18, 2)", False),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", False),
    ],
)
def test_keys_mean_the_same_in_one_type_alone(before: str, after: str, *, same: bool) -> None:
    assert same_keys(parse_type(before), parse_type(after)) is same


def test_a_key_of_very_many_rows_is_decoded_in_portions() -> None:
    ids = np.arange(1 << 14, 1 << 20, dtype=np.uint32)
    ids[7::1_000] = 5
    places = [ids & 0x7F | 0x80, ids >> 7 & 0x7F | 0x80, ids >> 14]
    body = np.stack(places, axis=1).astype(np.uint8)
    body[7::1_000] = [5, 0, 0]
    is_there = np.ones(body.shape, np.bool_)
    is_there[7::1_000, 1:] = False
    stored = np.frombuffer(varint(len(ids)) + body[is_there].tobytes(), np.uint8)

    found = read_row_ids(stored, np.zeros(1, np.int64), np.array([len(stored)]), 1 << 20)

    assert len(stored) > 2 << 20
    assert np.array_equal(found.to_array(), np.unique(ids))


@examples(300)
@given(content=st.binary(max_size=80), written=st.sampled_from(["INT", "STRING", "TIMESTAMP(6)"]))
def test_blocks_of_anything_with_a_checksum_are_read_or_refused(content: bytes, written: str) -> None:
    data_type = parse_type(written)

    with suppress(PaimonIndexError):
        Block.read(block(content), data_type).rows(slice(None), 100)
    with suppress(PaimonIndexError):
        Dictionary.read(block(content), data_type)
