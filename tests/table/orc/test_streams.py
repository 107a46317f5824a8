"""What the parts of an ORC file claim is found out before they are expanded."""

from __future__ import annotations

import io
import zlib
from typing import TYPE_CHECKING

import cramjam
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from app.errors import CorruptMetadataError, UnsupportedFormatError
from app.table.orc.chunks import ChunkCodec
from app.table.orc.lengths import read_lengths
from app.table.orc.messages import Message
from app.table.orc.streams import check_streams
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from app.types.roaring import Buffer

FOOTER_STRIPES, FOOTER_TYPES = 3, 4
STRIPE_OFFSET, STRIPE_INDEX_BYTES, STRIPE_DATA_BYTES, STRIPE_FOOTER_BYTES, STRIPE_ROWS = 1, 2, 3, 4, 5
STREAMS, ENCODINGS = 1, 2
LENGTHS = 2


def number(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def message(fields: Mapping[int, Sequence[int | bytes]]) -> bytes:
    parts = []
    for field, values in fields.items():
        for value in values:
            is_number = isinstance(value, int)
            parts.append(number(field << 3 | (0 if is_number else 2)))
            parts.append(number(value) if isinstance(value, int) else number(len(value)) + value)
    return b"".join(parts)


class Dissected:
    """An ORC file without compression of one stripe, in parts that can be changed and put together again."""

    def __init__(self, data: bytes) -> None:
        self.postscript = dict(Message.read(data[-1 - data[-1] : -1]).fields)
        end = len(data) - 1 - data[-1]
        (size,) = self.postscript[1]
        assert isinstance(size, int)
        self.footer = dict(Message.read(data[end - size : end]).fields)
        (stripe,) = self.footer[FOOTER_STRIPES]
        assert isinstance(stripe, bytes)
        self.stripe = dict(Message.read(stripe).fields)
        start, *sizes = (Message.read(stripe).number(field) for field in range(1, 5))
        self.body = data[: start + sizes[0] + sizes[1]]
        self.stripe_footer = dict(Message.read(data[len(self.body) : len(self.body) + sizes[2]]).fields)

    def stream(self, kind: int, column: int) -> tuple[int, int]:
        """Where a stream lies."""
        at = 3
        for each in self.stripe_footer[STREAMS]:
            assert isinstance(each, bytes)
            found = Message.read(each)
            if (found.number(1), found.number(2)) == (kind, column):
                return at, at + found.number(3)
            at += found.number(3)
        raise AssertionError((kind, column))

    def change_encoding(self, column: int, changed: Mapping[int, Sequence[int]]) -> None:
        encodings = list(self.stripe_footer[ENCODINGS])
        encodings[column] = message({**Message.read(_bytes(encodings[column])).fields, **changed})
        self.stripe_footer[ENCODINGS] = encodings

    def joined(self) -> bytes:
        stripe_footer = message(self.stripe_footer)
        stripe = message({**self.stripe, STRIPE_FOOTER_BYTES: [len(stripe_footer)]})
        footer = message({**self.footer, FOOTER_STRIPES: [stripe]})
        postscript = message({**self.postscript, 1: [len(footer)], 5: [0]})
        return self.body + stripe_footer + footer + postscript + bytes([len(postscript)])


def _bytes(value: int | bytes) -> bytes:
    assert isinstance(value, bytes)
    return value


def written(table: pa.Table, compression: str = "uncompressed", **options: float) -> bytes:
    out = io.BytesIO()
    orc.write_table(table, out, compression=compression, **options)
    return out.getvalue()


NAMES = ["name", "list"]
TABLE = pa.table({"name": [f"n{row}" for row in range(600)], "list": [[row] * 3 for row in range(600)]})
NAME_COLUMN, LIST_COLUMN = 1, 2


def test_files_stay_what_they_are_when_they_are_put_together_again() -> None:
    data = Dissected(written(TABLE)).joined()

    check_streams(data, NAMES)

    assert orc.ORCFile(io.BytesIO(data)).read().equals(TABLE)


COUNTS = (
    st.lists(st.integers(0, 5), min_size=1, max_size=700)
    | st.lists(st.integers(0, 300), min_size=1, max_size=700)
    | st.lists(st.sampled_from([3, 4, 70_000]), min_size=20, max_size=300)
    | st.builds(lambda start, step, n: [start + step * at for at in range(n)], *3 * [st.integers(0, 600)])
    | st.lists(st.integers(0, 900), max_size=600).map(sorted)
    | st.lists(st.integers(0, 900), max_size=600).map(lambda counts: sorted(counts, reverse=True))
)


@examples(60)
@given(COUNTS)
def test_lengths_are_those_that_the_library_writes(counts: list[int]) -> None:
    # Many lengths and few bytes: lists of tiny numbers that are all null.
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    if offsets[-1] > 3_000_000:
        return
    lists = pa.ListArray.from_arrays(offsets, pa.nulls(int(offsets[-1]), pa.int8()))
    dissected = Dissected(written(pa.table({"list": lists}))) if counts else None
    stream = b""
    if dissected:
        start, end = dissected.stream(LENGTHS, 1)
        stream = dissected.body[start:end]

    assert read_lengths(stream, len(counts)).tolist() == counts


SPECIFIED = [
    ("0a2710", [10_000] * 5),
    ("5e035ca1ab1edeadbeef", [23713, 43806, 57005, 48879]),
    (
        "8e132b2107d01e00147028323c46505a646e78828c96a0aab4befce8",
        [2030, 2000, 2020, 1_000_000, *range(2040, 2200, 10)],
    ),
    ("c609020222424246", [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]),
]


@pytest.mark.parametrize(("run", "lengths"), SPECIFIED)
def test_runs_as_the_specification_of_the_format_shows_them(run: str, lengths: list[int]) -> None:
    stream = bytes.fromhex(run)

    assert read_lengths(stream, len(lengths)).tolist() == lengths
    assert read_lengths(2 * stream, len(lengths) + 2).tolist() == lengths + lengths[:2]
    for end in range(1, len(stream)):
        with pytest.raises(CorruptMetadataError, match="cut"):
            read_lengths(stream[:end], len(lengths))


@given(st.binary(max_size=60))
def test_any_bytes_are_lengths_or_damage(stream: bytes) -> None:
    try:
        found = read_lengths(stream, 1000)
    except CorruptMetadataError:
        return
    assert len(found) <= 1000
    assert ((found >= 0) & (found <= 1 << 40)).all()


def claim_rows(dissected: Dissected) -> None:
    dissected.stripe[STRIPE_ROWS] = [1 << 33]


def claim_stripe(dissected: Dissected) -> None:
    dissected.stripe[STRIPE_DATA_BYTES] = [1 << 40]


def claim_lists(dissected: Dissected) -> None:
    """Three lists of sixteen million items."""
    start, end = dissected.stream(LENGTHS, LIST_COLUMN)
    run = b"\x10\xff\xff\xff"
    streams = dissected.stripe_footer[STREAMS]
    at = next(at for at, each in enumerate(streams) if Message.read(_bytes(each)).number(3) == end - start)
    shorter = message({1: [LENGTHS], 2: [LIST_COLUMN], 3: [len(run)]})
    rest = message({1: [6], 2: [LIST_COLUMN], 3: [end - start - len(run)]})
    dissected.stripe_footer[STREAMS] = [*streams[:at], shorter, rest, *streams[at + 1 :]]
    dissected.body = dissected.body[:start] + run + dissected.body[start + len(run) :]


def claim_dictionary(dissected: Dissected) -> None:
    dissected.change_encoding(NAME_COLUMN, {1: [3], 2: [(1 << 32) - 1]})


def use_old_runs(dissected: Dissected) -> None:
    dissected.change_encoding(NAME_COLUMN, {1: [0]})


def nest_for_ever(dissected: Dissected) -> None:
    types = dissected.footer[FOOTER_TYPES]
    dissected.footer[FOOTER_TYPES] = [types[0], message({1: [10], 2: [1]}), *types[2:]]


def share_a_type(dissected: Dissected) -> None:
    types = dissected.footer[FOOTER_TYPES]
    dissected.footer[FOOTER_TYPES] = [types[0], types[1], message({1: [10], 2: [3, 3]}), types[3]]


def have_many_types(dissected: Dissected) -> None:
    dissected.footer[FOOTER_TYPES] = [*dissected.footer[FOOTER_TYPES], *1000 * [message({1: [4]})]]


def have_strange_types(dissected: Dissected) -> None:
    types = dissected.footer[FOOTER_TYPES]
    dissected.footer[FOOTER_TYPES] = [types[0], message({1: [9]}), *types[2:]]


def forget_encodings(dissected: Dissected) -> None:
    dissected.stripe_footer[ENCODINGS] = dissected.stripe_footer[ENCODINGS][:-1]


def have_a_long_stream(dissected: Dissected) -> None:
    streams = dissected.stripe_footer[STREAMS]
    longer = message({**Message.read(_bytes(streams[0])).fields, 3: [1 << 50]})
    dissected.stripe_footer[STREAMS] = [longer, *streams[1:]]


def have_lengths_twice(dissected: Dissected) -> None:
    dissected.stripe_footer[STREAMS] = [
        *dissected.stripe_footer[STREAMS],
        message({1: [LENGTHS], 2: [NAME_COLUMN], 3: [0]}),
    ]


def have_large_blocks(dissected: Dissected) -> None:
    dissected.postscript = {**dissected.postscript, 2: [5], 3: [1 << 40]}


def have_no_such_codec(dissected: Dissected) -> None:
    dissected.postscript = {**dissected.postscript, 2: [3]}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (claim_rows, "rows in"),
        (claim_stripe, "expected a stripe within the file"),
        (claim_lists, "ORC column 3 would take 805306320 bytes"),
        (claim_dictionary, "would take"),
        (use_old_runs, "runs of version 1"),
        (nest_for_ever, r"types \(1,\) inside"),
        (share_a_type, "inside of two others"),
        (have_many_types, "1004 types"),
        (have_strange_types, "column of type 9"),
        (forget_encodings, "encodings of 4 types"),
        (have_a_long_stream, "beyond its stripe"),
        (have_lengths_twice, "lengths twice"),
        (have_large_blocks, "blocks of 1099511627776 bytes"),
        (have_no_such_codec, "codec 3"),
    ],
)
def test_claims_that_no_file_of_its_size_makes(change: Callable[[Dissected], None], complaint: str) -> None:
    dissected = Dissected(written(TABLE))
    change(dissected)

    with pytest.raises((CorruptMetadataError, UnsupportedFormatError), match=complaint):
        check_streams(dissected.joined(), NAMES)


def test_an_entry_of_a_dictionary_counts_as_often_as_it_may_be_meant() -> None:
    """Two hundred thousand rows of 2,000 bytes, in a file of a byte a row."""
    names = pa.table({"name": 300 * ["x" * 2_000]})
    dissected = Dissected(written(names, dictionary_key_size_threshold=1.0))
    assert len(dissected.body) < 10_000

    check_streams(dissected.joined(), ["name"])
    dissected.body += bytes(200_000)
    (data_bytes,) = dissected.stripe[STRIPE_DATA_BYTES]
    assert isinstance(data_bytes, int)
    dissected.stripe |= {STRIPE_ROWS: [200_000], STRIPE_DATA_BYTES: [data_bytes + 200_000]}
    with pytest.raises(CorruptMetadataError, match="would take 400002000 bytes"):
        check_streams(dissected.joined(), ["name"])


CODES: dict[int, Callable[[bytes], bytes]] = {
    1: lambda content: zlib.compress(content, wbits=-15),
    2: lambda content: bytes(cramjam.snappy.compress_raw(content)),
    4: lambda content: bytes(cramjam.lz4.compress_block(content, store_size=False)),
    5: lambda content: bytes(cramjam.zstd.compress(content)),
}


@pytest.mark.parametrize("code", sorted(CODES))
@examples(30)
@given(parts=st.lists(st.binary(max_size=300), max_size=4), plain=st.sets(st.integers(0, 3)))
def test_chunks_of_every_codec(code: int, parts: list[bytes], plain: set[int]) -> None:
    stream = b"".join(chunk(part, None if at in plain else code) for at, part in enumerate(parts))
    codec, whole = ChunkCodec(code, 300), b"".join(parts)

    assert codec.expand(stream, len(whole)) == whole
    if whole:
        with pytest.raises(CorruptMetadataError, match="more than"):
            codec.expand(stream, len(whole) - 1)


@pytest.mark.parametrize("code", sorted(CODES))
def test_a_chunk_is_no_larger_than_a_block(code: int) -> None:
    bomb = chunk(bytes(1 << 20), code)

    with pytest.raises(CorruptMetadataError):
        ChunkCodec(code, 1 << 16).expand(bomb, 1 << 30)


@pytest.mark.parametrize("code", sorted(CODES))
@examples(60)
@given(stream=st.binary(max_size=100))
def test_any_chunks_expand_or_are_damage(code: int, stream: bytes) -> None:
    try:
        found: Buffer = ChunkCodec(code, 1000).expand(stream, 5000)
    except CorruptMetadataError:
        return
    assert len(found) <= 5000


def chunk(content: bytes, code: int | None) -> bytes:
    packed = content if code is None else CODES[code](content)
    return (len(packed) << 1 | (code is None)).to_bytes(3, "little") + packed
