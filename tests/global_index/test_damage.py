"""Damaged files: a search finds every row that it should, or raises what keeps the rows of the range."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import CorruptIndexError, LimitExceededError, PaimonIndexError
from app.file_index.bitmap import BITMAP
from app.global_index import KINDS, Piece, describe
from app.global_index.bitmap import Dictionary
from app.global_index.blocks import read_row_ids
from app.global_index.btree import Block
from app.predicates.model import BoundLeaf, Operator
from app.types import DataField, DataType, parse_type
from tests.brute_force import matching_rows
from tests.examples import examples
from tests.global_index_files import WRITERS, Habits, block, btree_file, entries, found_by, varint
from tests.tables import payload

FIELD = DataField(0, "c", parse_type("BIGINT"))
VALUES = [5, None, 2**62, -7, 5, 300, None, 0, 5, 9_000]
LEAVES = [
    BoundLeaf(Operator.EQUAL, FIELD, (5,)),
    BoundLeaf(Operator.NOT_EQUAL, FIELD, (5,)),
    BoundLeaf(Operator.LESS_THAN, FIELD, (300,)),
    BoundLeaf(Operator.IS_NULL, FIELD),
    BoundLeaf(Operator.IS_NOT_NULL, FIELD),
]


class File(NamedTuple):
    kind: str
    content: bytes
    told: bytes | None

    def check(self, damaged: bytes) -> None:
        """Search a damaged copy; a row that is missing without an error fails the test."""
        for leaf in LEAVES:
            expected = matching_rows(leaf, {"c": VALUES}, len(VALUES))
            try:
                found = found_by(leaf, [(self.kind, damaged, self.told)], len(VALUES))
            except PaimonIndexError:
                continue
            assert {*expected} <= {*found}, leaf


def written(kind: str, compression: str) -> File:
    rows = list(zip(VALUES, range(len(VALUES)), strict=True))
    habits = Habits(block_bytes=30, compression=compression)
    return File(kind, *WRITERS[kind](rows, FIELD.type, habits))


WITH_CHECKSUMS = [
    pytest.param(written(kind, compression), id=f"{kind}-{compression}")
    for compression in ("none", "zstd", "lz4")
    for kind in WRITERS
]
FILES = [
    *WITH_CHECKSUMS,
    pytest.param(File("bitmap", payload(BITMAP, VALUES, FIELD), None), id="bitmap-1.4"),
]


def checked_bytes(file: File) -> range:
    """Bytes whose damage shows: bitmaps of the kind of that name have no checksum, and lie in front."""
    described: Any = describe(file.kind, file.content, None, slice(1))
    return range(0 if file.kind == "btree" else described["blocks"][0]["offset"], len(file.content))


@pytest.mark.parametrize("file", FILES)
@examples(30)
@given(data=st.data())
def test_a_file_that_was_cut_off_loses_no_row(file: File, data: st.DataObject) -> None:
    file.check(file.content[: data.draw(st.integers(0, len(file.content) - 1))])


@pytest.mark.parametrize("file", WITH_CHECKSUMS)
@examples(100)
@given(data=st.data())
def test_a_flipped_bit_loses_no_row(file: File, data: st.DataObject) -> None:
    at = data.draw(st.sampled_from(checked_bytes(file)))
    flipped = file.content[at] ^ 1 << data.draw(st.integers(0, 7))

    file.check(file.content[:at] + bytes([flipped]) + file.content[at + 1 :])


@pytest.mark.parametrize("size", [0, -1, -4, -5, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("offset", [0, 9, -1, 2**40, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("part", range(3))
def test_a_footer_that_points_elsewhere_loses_no_row(kind: str, part: int, offset: int, size: int) -> None:
    file = written(kind, "none")
    form, width = ("<qiqqiqiii", 52) if kind == "btree" else (">qiqiqiiii", 48)
    fields = list(struct.unpack(form, file.content[-width:]))
    places = (0, 3, 5) if kind == "btree" else (0, 2, 4)
    fields[places[part] : places[part] + 2] = offset, size

    file.check(file.content[:-width] + struct.pack(form, *fields))


def test_a_footer_without_the_null_rows_that_the_entry_tells_of_is_damage() -> None:
    content, told = btree_file([(None, 0), (None, 1), (5, 2)], FIELD.type, Habits())
    without = content[:-20] + struct.pack("<qi", 0, 0) + content[-8:]

    with pytest.raises(CorruptIndexError, match="null rows"):
        found_by(BoundLeaf(Operator.IS_NULL, FIELD), [("btree", without, told)], 3)


def framed(content: bytes, compression: int) -> bytes:
    packed = content + bytes([compression])
    return packed + struct.pack("<I", zlib.crc32(packed))


@pytest.mark.parametrize("length", [0, 1, 1 << 28, 1 << 31, 1 << 62])
@pytest.mark.parametrize("compression", [1, 2])
def test_a_block_that_says_it_is_larger_is_damage(compression: int, length: int) -> None:
    body = b"\0" * 20 if compression == 1 else struct.pack("<ii", 20, length & 0x7FFFFFFF) + b"\0" * 20
    index = framed(varint(length) + body, compression)
    footer = struct.pack("<qiqqiqiii", 0, 0, 0, 0, len(index) - 5, 0, 0, 1, 0x50425449)

    with pytest.raises(CorruptIndexError):
        found_by(LEAVES[0], [("btree", index + footer, None)], len(VALUES))


@pytest.mark.parametrize("length", [1 << 28, 1 << 31, 1 << 62, 1 << 63])
def test_an_entry_that_says_it_is_longer_is_damage(length: int) -> None:
    whole = entries([(struct.pack("<q", 5), varint(0) + varint(9))])[:-5]
    for lying in (
        varint(length) + whole[1:],
        whole[:9] + varint(length) + whole[10:],
        entries([(struct.pack("<q", 5), varint(length) + varint(9))])[:-5],
        entries([(struct.pack("<q", 5), varint(0) + varint(length))])[:-5],
    ):
        index = framed(lying + struct.pack("<Ib", len(lying), 0), 0)
        footer = struct.pack("<qiqqiqiii", 0, 0, 0, 0, len(index) - 5, 0, 0, 1, 0x50425449)
        with pytest.raises(CorruptIndexError):
            found_by(LEAVES[0], [("btree", index + footer, None)], len(VALUES))


def test_memory_is_claimed_for_the_keys_that_a_small_block_expands_to(
    limit_memory: Callable[[int], None],
) -> None:
    count = 1 << 20
    small = block(varint(count) + bytes(3 * count), "zstd")
    limit_memory(64 << 20)

    assert len(small) < 1_000
    with pytest.raises(LimitExceededError, match="block of a global index"):
        Dictionary.read(small, FIELD.type)


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
@pytest.mark.parametrize("read", [Block.read, Dictionary.read])
def test_a_small_block_that_expands_to_more_than_any_writer_makes_is_damage(
    read: Callable[[bytes, DataType], object], compression: str
) -> None:
    bomb = block(bytes(9 << 20), compression)

    with pytest.raises(CorruptIndexError, match="expands to at most 8388608 bytes, found 9437184"):
        read(bomb, FIELD.type)


def test_every_copy_of_a_block_is_claimed_until_it_is_decoded(limit_memory: Callable[[int], None]) -> None:
    key = bytes(7 << 20)
    small = block(varint(1) + varint(len(key)) + key + bytes(2), "zstd")

    # The block, its bytes, and a text of it.
    limit_memory(2 * len(key))
    with pytest.raises(LimitExceededError, match="block of a global index"):
        Dictionary.read(small, parse_type("STRING"))
    limit_memory(4 * len(key))
    assert Dictionary.read(small, parse_type("STRING")).stored == [key]


def test_what_row_ids_take_while_they_are_decoded_is_claimed(limit_memory: Callable[[int], None]) -> None:
    ids = np.frombuffer(varint(1 << 20) + bytes(1 << 20), np.uint8)
    two = np.concatenate([ids, ids])
    starts = np.array([0, len(ids)])

    # Each byte has an index, its place and the sum of both, of 8 bytes each, and itself.
    limit_memory(24 * len(two))
    with pytest.raises(LimitExceededError, match="block of a global index"):
        read_row_ids(two, starts, starts + len(ids), 1)


@pytest.mark.parametrize("kind", WRITERS)
def test_a_file_that_names_a_block_twice_is_damage_or_reads_it_once(kind: str) -> None:
    file = written(kind, "none")
    form, width, at = ("<qiqqiqiii", 52, 3) if kind == "btree" else (">qiqiqiiii", 48, 4)
    footer = list(struct.unpack(form, file.content[-width:]))
    described: Any = describe(kind, file.content, None, slice(1))
    place = varint(described["blocks"][0]["offset"]) + varint(described["blocks"][0]["size"])
    pairs = sorted((struct.pack("<q", key), place) for key in range(1_000))
    index = block(entries(pairs))
    if kind == "bitmap":
        index = block(varint(len(pairs)) + b"".join(varint(8) + key + value for key, value in pairs))
    footer[at : at + 2] = len(file.content), len(index) - 5
    content = file.content + index + struct.pack(form, *footer)
    search: Any = KINDS[kind](len(content), len(VALUES), FIELD.type).rows_between(None, None)
    pieces: list[Piece] = []

    with suppress(CorruptIndexError, StopIteration):
        asked = next(search)
        while True:
            pieces += asked
            asked = search.send([each.read(content[each.offset : each.offset + each.size]) for each in asked])

    assert len(pieces) < 10


def test_a_dictionary_that_says_it_has_more_keys_is_damage() -> None:
    with pytest.raises(CorruptIndexError, match="keys, found"):
        Dictionary.read(block(varint(1 << 60) + bytes(30)), FIELD.type)
