"""Lifting large values out of blocks changes how long decoding takes, and nothing else."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import PaimonIndexError
from app.file_index import container
from app.table.avro.apart import SMALLEST_BYTES, ColumnApart, LiftedValues
from app.table.avro.blocks import Block
from app.table.avro.container import read_columns, read_columns_apart
from app.table.manifests.manifest_record import EMBEDDED
from app.table.records.expected import Nullable, RecordOf
from tests.examples import examples

PREFIX = b"\x00INDEX"
COLUMN = ColumnApart(("file", "index"), PREFIX)
EXPECTED = RecordOf(
    {"name": "string", "file": RecordOf({"index": Nullable("bytes"), "bounds": Nullable("bytes")})}
)


def schema(*columns: str) -> dict[str, Any]:
    """Of a record with a name, and with another record of nullable byte strings."""
    fields = [{"name": column, "type": ["null", "bytes"]} for column in columns]
    file = {"type": "record", "name": "f", "fields": fields}
    return {
        "type": "record",
        "name": "r",
        "fields": [{"name": "name", "type": "string"}, {"name": "file", "type": file}],
    }


SCHEMA = schema("index", "bounds")
WITHOUT_INDEX = schema("bounds")


def large(seed: int, size: int = SMALLEST_BYTES) -> bytes:
    return PREFIX + random.Random(seed).randbytes(size)  # noqa: S311 - no secret


# What starts like a value and has a length in front of it, which says that it ends elsewhere.
MISLEADING = st.builds(
    lambda length, size: fastavro_long(length) + large(length, size),
    st.integers(0, 5000),
    st.integers(0, 3000),
)
VALUES = st.one_of(
    st.none(),
    st.binary(max_size=40),
    st.builds(large, st.integers(), st.integers(SMALLEST_BYTES - 10, 4 * SMALLEST_BYTES)),
    st.builds(lambda some, value: some + value, st.binary(max_size=9), st.builds(large, st.integers())),
    MISLEADING,
)
RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.text(max_size=5),
            "file": st.fixed_dictionaries({"index": VALUES, "bounds": VALUES}),
        }
    ),
    max_size=12,
)


def fastavro_long(number: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", number)
    return out.getvalue()


def written(records: list[dict[str, Any]], of: dict[str, Any] = SCHEMA, codec: str = "null") -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, of, records, codec=codec, sync_interval=5000)
    return out.getvalue()


def outcome(read: Callable[[], list[bytes | None]]) -> object:
    """What was read, or why nothing was."""
    try:
        return read()
    except PaimonIndexError as error:
        return type(error), str(error)


def indexes(data: bytes) -> list[bytes | None]:
    records, column = read_columns_apart(data, EXPECTED, COLUMN)
    assert "index" not in {field.name for field in records.records("file").pieces[0].type}
    return list(column)


@examples(200)
@given(RECORDS, st.sampled_from(["null", "zstandard"]))
def test_columns_are_those_of_a_file_decoded_as_it_is(records: list[dict[str, Any]], codec: str) -> None:
    data = written(records, codec=codec)
    whole = read_columns(data, EXPECTED)

    rest, column = read_columns_apart(data, EXPECTED, COLUMN)

    assert list(column) == [record["file"]["index"] for record in records]
    assert list(column) == list(whole.records("file").strings("index"))
    assert list(rest.strings("name")) == list(whole.strings("name"))
    assert list(rest.records("file").strings("bounds")) == list(whole.records("file").strings("bounds"))


def test_large_values_are_not_decoded() -> None:
    lifted = LiftedValues(PREFIX, capacity=0)
    value = large(1, 100_000)
    content = b"some" + fastavro_long(len(value)) + value + b"more"

    lighter = lifted.lighten(Block(0, 1, content, len(content)))

    assert len(lighter.expanded) < 40
    assert lighter.expanded[:4] == b"some"
    assert lighter.expanded[-4:] == b"more"


@pytest.mark.parametrize("field", ["name", "bounds"])
def test_a_value_of_another_column_is_not_mistaken(field: str) -> None:
    text = "\x00INDEX" + "x" * 2 * SMALLEST_BYTES
    record = {"name": "file", "file": {"index": large(1), "bounds": None}}
    if field == "name":
        record["name"] = text
    else:
        record["file"] = {"index": large(1), "bounds": text.encode()}
    data = written([record, record])

    assert indexes(data) == [large(1), large(1)]
    records, _ = read_columns_apart(data, EXPECTED, COLUMN)
    assert list(records.strings("name")) == [str(record["name"]).encode()] * 2


def test_a_file_without_the_column_has_nulls() -> None:
    data = written([{"name": "a", "file": {"bounds": large(3)}}] * 3, WITHOUT_INDEX)
    assert indexes(data) == [None] * 3


def test_no_records() -> None:
    assert indexes(written([])) == []


@given(st.data())
def test_damage_says_what_it_says_of_a_file_decoded_as_it_is(data: st.DataObject) -> None:
    content = bytearray(
        written([{"name": "n", "file": {"index": large(at), "bounds": b""}} for at in range(9)])
    )
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    outcomes = [
        outcome(lambda: list(read_columns(bytes(content), EXPECTED).records("file").strings("index"))),
        outcome(lambda: indexes(bytes(content))),
    ]
    assert outcomes[0] == outcomes[1]


def test_indexes_in_manifests_start_as_containers_do() -> None:
    assert container.write({}).startswith(EMBEDDED.prefix)


def test_columns_do_not_look_at_the_file_once_it_is_decoded() -> None:
    data = bytearray(written([{"name": "n", "file": {"index": large(5), "bounds": b"b"}}] * 3))
    records, column = read_columns_apart(memoryview(data), EXPECTED, COLUMN)
    data[:] = bytes(len(data))
    assert list(column) == [large(5)] * 3
    assert pa.concat_arrays(records.pieces).to_pylist() == [{"name": "n", "file": {"bounds": b"b"}}] * 3
