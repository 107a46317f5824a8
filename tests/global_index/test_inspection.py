"""What is said of a global index file, beside what its writer put there."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from app.errors import CorruptIndexError, DeadlineExceededError, UnsupportedFormatError
from app.file_index.bitmap import BITMAP
from app.global_index import describe, kind_of
from app.types import DataField, parse_type
from app.work import time_limit
from tests.global_index_files import COMPRESSIONS, WRITERS, Habits
from tests.tables import payload

BIGINT = parse_type("BIGINT")
ROWS = [(number // 2 if number % 5 else None, number) for number in range(40)]
KEYS = sorted({value for value, _ in ROWS if value is not None})
ALL = slice(None)


def made(kind: str, compression: str = "none", block_bytes: int = 80) -> bytes:
    content, _ = WRITERS[kind](ROWS, BIGINT, Habits(block_bytes=block_bytes, compression=compression))
    return content


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("compression", [each for each in COMPRESSIONS if each != "lzo"])
def test_parts_and_blocks_are_described(kind: str, compression: str) -> None:
    content = made(kind, compression)

    described: Any = describe(kind, content, BIGINT, ALL)

    blocks = described["blocks"]
    assert (described["version"], described["size"], described["null_count"]) == (1, len(content), 8)
    assert described["block_count"] == len(blocks) > 2
    assert {block["compression"] for block in blocks} == {compression}
    assert sum(block["key_count"] for block in blocks) == len(KEYS)
    assert (blocks[0]["min"], blocks[-1]["max"]) == (KEYS[0], KEYS[-1])
    assert all(left["max"] < right["min"] for left, right in itertools.pairwise(blocks))
    if kind == "btree":
        assert sum(block["row_count"] for block in blocks) == len(ROWS) - 8


@pytest.mark.parametrize("kind", WRITERS)
def test_blocks_come_in_parts_and_without_a_type_they_have_no_keys(kind: str) -> None:
    whole: Any = describe(kind, made(kind), BIGINT, ALL)
    part: Any = describe(kind, made(kind), None, slice(1, 3))

    assert part["block_count"] == whole["block_count"]
    bare = [{name: block[name] for name in block if name not in ("min", "max")} for block in whole["blocks"]]
    assert part["blocks"] == bare[1:3]


@pytest.mark.parametrize("kind", WRITERS)
def test_a_damaged_block_is_described_by_its_error(kind: str) -> None:
    content = made(kind)
    whole: Any = describe(kind, content, BIGINT, ALL)
    at = whole["blocks"][1]["offset"]

    damaged: Any = describe(kind, content[:at] + b"\xff" + content[at + 1 :], BIGINT, ALL)

    assert damaged["blocks"][1]["error"]["detail"].startswith("expected a block of checksum ")
    assert damaged["blocks"][1]["error"]["offset"] == at
    assert [damaged["blocks"][0], *damaged["blocks"][2:]] == [whole["blocks"][0], *whole["blocks"][2:]]


@pytest.mark.parametrize("kind", WRITERS)
def test_a_file_of_many_blocks_is_described_until_the_deadline(kind: str) -> None:
    """A small file can list a large block very many times."""
    with time_limit(0), pytest.raises(DeadlineExceededError):
        describe(kind, made(kind), BIGINT, ALL)


@pytest.mark.parametrize("kind", WRITERS)
def test_a_file_without_its_end_is_damaged(kind: str) -> None:
    with pytest.raises(CorruptIndexError):
        describe(kind, made(kind)[:-1], BIGINT, ALL)


def test_a_file_that_is_compressed_in_another_way_is_refused() -> None:
    with pytest.raises(UnsupportedFormatError, match="lzo"):
        describe("btree", made("btree", "lzo"), BIGINT, ALL)


def test_a_bitmap_of_1_4_is_described_as_a_file_index() -> None:
    field = DataField(0, "c", BIGINT)
    content = payload(BITMAP, [value for value, _ in ROWS], field)

    typed: Any = describe("bitmap", content, BIGINT, ALL)
    untyped: Any = describe("bitmap", content, None, ALL)

    assert (typed["row_count"], typed["null_count"], typed["min"]) == (40, 8, KEYS[0])
    assert (untyped["row_count"], untyped["cardinality"]) == (40, len(KEYS))


def test_a_kind_is_told_by_name_or_mark() -> None:
    assert {kind: kind_of("content", made(kind)) for kind in WRITERS} == {kind: kind for kind in WRITERS}
    assert kind_of("db.db/t/index/bitmap-global-index-1.index", b"") == "bitmap"
    assert kind_of("db.db/t/bucket-0/data-1.parquet.index", b"") is None
