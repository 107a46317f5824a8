from __future__ import annotations

import struct

import numpy as np
import pytest

from app.errors import CorruptIndexError, IndexWriteError
from app.file_index.container import MAGIC, Entry, FileIndex, write
from app.file_index.evaluation import evaluate
from app.file_index.index_kinds import BSI
from app.predicates.model import BoundLeaf, Operator
from app.types import DataField, parse_type

BIGINT = parse_type("BIGINT")
EMPTY_BSI = struct.pack(">bibb", 1, 3, 0, 0)


def test_reads_what_it_wrote() -> None:
    written = write(
        {"a\0😀": [("bsi", EMPTY_BSI), ("bitmap", b"xy")], "m[k]": [("bitmap", None)], "none": []}
    )

    index = FileIndex.read(written)

    start = len(written) - len(EMPTY_BSI) - 2
    assert index.entries == {
        "a\0😀": (Entry("a\0😀", "bsi", start, 7), Entry("a\0😀", "bitmap", start + 7, 2)),
        "m[k]": (Entry("m[k]", "bitmap", -1, 0),),
        "none": (),
    }
    assert index.entries["m[k]"][0].is_empty
    assert bytes(index.payload(index.entries["a\0😀"][1])) == b"xy"
    assert index.nbytes >= len(written)


def test_opens_an_index_once() -> None:
    index = FileIndex.read(write({"c": [("bsi", EMPTY_BSI)]}))
    (entry,) = index.entries["c"]

    assert index.open(entry, BSI, BIGINT) is index.open(entry, BSI, BIGINT)


def test_trusts_the_head_length_over_what_it_knows() -> None:
    written = bytearray(write({"c": [("bsi", EMPTY_BSI)]}))
    head_length = len(written) - len(EMPTY_BSI)
    later = b"added later"
    written[head_length:head_length] = later
    struct.pack_into(">i", written, 12, head_length + len(later))
    struct.pack_into(">i", written, head_length - 4, len(later))
    struct.pack_into(">i", written, head_length - 12, head_length + len(later))

    index = FileIndex.read(bytes(written))

    assert bytes(index.payload(index.entries["c"][0])) == EMPTY_BSI


@pytest.mark.parametrize(
    ("at", "form", "value", "expectation", "offset"),
    [
        (0, ">q", MAGIC + 1, "magic", 0),
        (8, ">i", 2, "expected version 1 of the file index, found 2", 8),
        (12, ">i", 19, "head length from 20", 12),
        (12, ">i", 1 << 20, "head length from 20", 12),
        (12, ">i", -1, "head length from 20", 12),
        (16, ">i", 1 << 30, "number of columns", 16),
        (16, ">i", -1, "number of columns", 16),
        (20, ">H", 65535, "name of a column", 22),
        (23, ">i", 1 << 30, "number of indexes", 23),
    ],
)
def test_refuses_a_broken_head(at: int, form: str, value: int, expectation: str, offset: int) -> None:
    written = bytearray(write({"c": [("bsi", EMPTY_BSI)]}))
    struct.pack_into(form, written, at, value)

    with pytest.raises(CorruptIndexError, match=expectation) as caught:
        FileIndex.read(bytes(written))
    assert caught.value.offset == offset


@pytest.mark.parametrize("size", range(36))
def test_refuses_every_cut_head(size: int) -> None:
    written = write({"c": [("bsi", EMPTY_BSI)]})

    with pytest.raises(CorruptIndexError):
        FileIndex.read(written[:size])


def test_refuses_two_indexes_of_a_kind() -> None:
    written = write({"c": [("bsi", EMPTY_BSI), ("bsi", EMPTY_BSI)]})

    with pytest.raises(CorruptIndexError, match="one index of each kind for column 'c'"):
        FileIndex.read(written)


def test_a_payload_outside_of_the_file_hurts_only_its_own_column() -> None:
    written = write({"c": [("bsi", EMPTY_BSI)], "d": [("bsi", EMPTY_BSI)]})[:-1]
    index = FileIndex.read(written)
    fields = {name: DataField(at, name, BIGINT) for at, name in enumerate("cd")}

    evaluate(BoundLeaf(Operator.IS_NULL, fields["c"]), index)
    with pytest.raises(CorruptIndexError, match="bsi index of column 'd': expected a payload within"):
        evaluate(BoundLeaf(Operator.IS_NULL, fields["d"]), index)


def test_errors_name_the_index_and_the_place_in_the_file() -> None:
    index = FileIndex.read(write({"c": [("bsi", b"\x07" + EMPTY_BSI[1:])]}))
    (entry,) = index.entries["c"]

    with pytest.raises(CorruptIndexError, match="bsi index of column 'c': expected version 1") as caught:
        evaluate(BoundLeaf(Operator.IS_NULL, DataField(0, "c", BIGINT)), index)
    assert caught.value.offset == entry.start


def test_refuses_to_write_what_no_place_can_be_named_in() -> None:
    # Nothing is written to it, so that it takes no memory.
    gigabyte = np.empty(1 << 30, np.uint8).data
    columns = {name: [("bsi", gigabyte)] for name in ("first", "second")}

    with pytest.raises(IndexWriteError, match=r"column 'second': .* longer than 2147483647 bytes"):
        write(columns)  # type: ignore[arg-type] # bytes would take memory
