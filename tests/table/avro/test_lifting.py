"""Embedded indexes that are lifted out of blocks before these are decoded are those that were written."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import CorruptMetadataError, PaimonIndexError
from app.table.avro.container import AvroBlock, read_pieces
from app.table.avro.lifting import Lifted
from app.table.manifests.manifest_entry import EMBEDDED, INDEX_START, RECORD
from app.table.manifests.record_files import read_apart
from app.table.records.columns import RecordColumns, take_out
from app.table.records.expansion import claiming
from app.types import BytesColumn
from tests.examples import examples
from tests.table.avro.test_container import long
from tests.tables import avro, entry, record

LARGE = INDEX_START + bytes(range(256)) * 8
INDEXES = st.sampled_from(
    [None, b"", INDEX_START, LARGE, LARGE[:-7], INDEX_START + LARGE, bytes(3_000), LARGE * 300, LARGE[1:]]
)
# Of these bytes each might begin a string that has the length before it.
KEYS = st.sampled_from(
    [b"", b"key", long(len(LARGE)) + LARGE, b"\x02" + long(1_500) + INDEX_START, b"\xff" * 9 + LARGE, LARGE]
)


def plain(data: bytes) -> tuple[RecordColumns, BytesColumn]:
    """Decode without lifting."""
    return take_out(read_pieces(data, RECORD), *EMBEDDED)


def lifted(data: bytes) -> tuple[RecordColumns, BytesColumn]:
    return read_apart(data, RECORD, EMBEDDED, INDEX_START)


def listed(found: tuple[RecordColumns, BytesColumn]) -> list[Any]:
    records, column = found
    return [[each for piece in records.pieces for each in piece.to_pylist()], list(column)]


@examples(60)
@given(st.lists(st.tuples(INDEXES, KEYS), max_size=12))
def test_records_are_those_decoded_without_lifting(files: list[tuple[bytes | None, bytes]]) -> None:
    data = avro(
        record(entry(file_name=str(at), embedded_index=index, min_key=key))
        for at, (index, key) in enumerate(files)
    )

    found = listed(lifted(data))

    assert found == listed(plain(data))
    assert found[1] == [index for index, _ in files]


def test_strings_are_adjacent_and_alone() -> None:
    data = avro(record(entry(file_name=str(at), embedded_index=LARGE * (at % 7 + 1))) for at in range(2_000))

    _, column = lifted(data)

    assert len(column.data) == column.lengths.sum()
    assert column.starts.tolist() == [0, *column.lengths.cumsum().tolist()[:-1]]


def test_a_small_first_block_does_not_tell_how_much_a_file_takes() -> None:
    claims: list[int] = []
    large = long(len(LARGE)) + LARGE
    taken = Lifted(INDEX_START, 40 << 20)

    with claiming(claims.append):
        taken.without_strings(AvroBlock(1_000, 3_000, large * 3_000))
        taken.without_strings(AvroBlock(20_000, 3_000, large * 3_000))

    assert taken.nbytes == 6_000 * len(LARGE)
    assert max(claims) <= 4 * taken.nbytes


def test_marks_that_are_missing_are_noticed() -> None:
    """A key that looks like an index is lifted as well, and is then no index."""
    data = avro([record(entry(embedded_index=None, min_key=LARGE, max_key=bytes(3_000)))])
    taken = Lifted(INDEX_START, len(data))

    try:
        _, column = take_out(read_pieces(data, RECORD, taken), *EMBEDDED)
    except CorruptMetadataError:
        column = BytesColumn.nulls(1)

    assert taken.nbytes == len(LARGE)
    assert taken.put_back(column) is None
    assert listed(lifted(data)) == listed(plain(data))


def damaged() -> Iterator[bytes]:
    data = avro([record(entry(file_name="a", embedded_index=LARGE)), record(entry(embedded_index=LARGE * 2))])
    for at in range(data.index(b"avro.codec"), len(data), 37):
        yield data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :]


def test_damage_is_what_it_is_without_lifting() -> None:
    for data in damaged():
        try:
            expected = listed(plain(data))
        except PaimonIndexError as error:
            with pytest.raises(type(error)):
                lifted(data)
        else:
            assert listed(lifted(data)) == expected
