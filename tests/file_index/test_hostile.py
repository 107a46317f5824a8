"""Payloads made to cost more than their bytes."""

import struct
import time
import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import CorruptIndexError
from app.file_index.container import write, write_index
from app.file_index.evaluation import decide_files, find_rows
from app.file_index.index_kinds import KINDS, IndexKind, open_payload
from app.file_index.stacked_index import StackedIndex
from app.predicates.model import BoundLeaf, Operator
from app.types import DataField, DataType, Value, parse_type
from app.types.bytes_column import BytesColumn
from tests.examples import share
from tests.key_columns import key_column

INT, STRING = parse_type("INT"), parse_type("STRING")
COUNT = 2_000
LONG = 60_000


def _entries_that_overlap() -> bytes:
    """Blocks of a bitmap index that share one long key."""
    entry = struct.pack(">i", LONG) + b"k" * LONG + struct.pack(">ii", -1, -1)
    area = struct.pack(">i", 1) + entry
    listed = (struct.pack(">i", 0) + struct.pack(">i", 0)) * COUNT
    head = struct.pack(">biib", 2, COUNT, COUNT, 0)
    return head + struct.pack(">i", COUNT) + listed + struct.pack(">i", len(area)) + area


def _blocks_that_overlap() -> bytes:
    """Blocks of a bitmap index that share all of their entries."""
    entries = b"".join(struct.pack(">iii", key, -1, -1) for key in range(COUNT))
    blocks = struct.pack(">ii", 0, 0) * COUNT
    area = struct.pack(">i", COUNT) + entries
    head = struct.pack(">biibi", 2, COUNT, COUNT, 0, COUNT)
    return head + blocks + struct.pack(">i", len(area)) + area


def _keys_that_overlap() -> bytes:
    """Keys of a range-bitmap that all are the same long one."""
    key = struct.pack(">i", LONG) + b"k" * LONG
    further = struct.pack(">i", 0) * (COUNT - 1)
    tail = struct.pack(">iiiii", 0, 0, COUNT - 1, len(further), len(key))
    chunk = b"\1" + struct.pack(">i", 0) + tail
    dictionary = struct.pack(">ibiii", 13, 1, 1, 4, len(chunk)) + struct.pack(">i", 0) + chunk + further + key
    head = struct.pack(">bii", 1, COUNT, COUNT) + struct.pack(">ii", 0, 0)
    head += struct.pack(">i", len(dictionary))
    slices = struct.pack(">ibbii", 10 + 8 * 11, 1, 11, 0, 8 * 11) + bytes(8 * 11)
    return struct.pack(">i", len(head)) + head + dictionary + slices


def _chunks_that_overlap() -> bytes:
    """Chunks of a range-bitmap that share their further keys."""
    further = b"".join(struct.pack(">i", key) for key in range(COUNT))
    heads = b"".join(
        b"\1" + struct.pack(">iiiiii", 0, code * (COUNT + 1), 0, COUNT, len(further), 4)
        for code in range(COUNT)
    )
    offsets = b"".join(struct.pack(">i", chunk * len(heads) // COUNT) for chunk in range(COUNT))
    dictionary = struct.pack(">ibiii", 13, 1, COUNT, len(offsets), len(heads)) + offsets + heads + further
    values = COUNT * (COUNT + 1)
    head = struct.pack(">bii", 1, values, values) + struct.pack(">iii", 0, 0, len(dictionary))
    slices = struct.pack(">ibbii", 10 + 8 * 22, 1, 22, 0, 8 * 22) + bytes(8 * 22)
    return struct.pack(">i", len(head)) + head + dictionary + slices


@pytest.mark.parametrize(
    ("kind", "payload", "data_type"),
    [
        pytest.param("bitmap", _entries_that_overlap(), STRING, id="entries that overlap"),
        pytest.param("bitmap", _blocks_that_overlap(), INT, id="blocks that overlap"),
        pytest.param("range-bitmap", _keys_that_overlap(), STRING, id="keys that overlap"),
        pytest.param("range-bitmap", _chunks_that_overlap(), INT, id="chunks that overlap"),
        pytest.param(
            "bitmap", struct.pack(">biib", 1, 2**31 - 1, 2**31 - 1, 0) + b"\0" * 20, INT, id="entries"
        ),
        pytest.param("bitmap", struct.pack(">biibii", 2, 2**31 - 1, 0, 0, 2**31 - 1, 0), INT, id="blocks"),
        pytest.param("bitmap", struct.pack(">biibiii", 2, 9, 1, 0, 0, 2**31 - 1, 0), INT, id="block area"),
        pytest.param("bloom-filter", struct.pack(">i", 2**31 - 1) + b"\xff" * 8, INT, id="hash functions"),
        pytest.param(
            "range-bitmap",
            struct.pack(">ibiiii", 17, 1, 2**31 - 1, 2**31 - 1, 0, 0) + struct.pack(">i", 0),
            INT,
            id="distinct values",
        ),
    ],
)
@pytest.mark.parametrize("files", [1, 20])
def test_refuses_cheaply(kind: str, payload: bytes, data_type: DataType, files: int) -> None:
    contents = BytesColumn.of([write({"c": [(kind, payload)]})] * files)
    literal = 5 if data_type is INT else b"k"
    leaf = BoundLeaf(Operator.EQUAL, DataField(0, "c", data_type), (literal,))
    # What is imported at first use is none of its costs.
    StackedIndex.read(contents).open("c", KINDS[kind], data_type)
    index = StackedIndex.read(contents)
    started = time.thread_time()
    tracemalloc.start()
    try:
        opened = index.open("c", KINDS[kind], data_type)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert opened.broken.all()
    assert peak_bytes < 1_000_000 + 20 * contents.data.nbytes
    assert time.thread_time() - started < 5
    assert not decide_files(leaf, index, np.arange(files), np.full(files, -1)).skip.any()


_ROWS: dict[str, Sequence[Value | None]] = {
    "INT": [1, 1, None, -2, 900, None, 7],
    "STRING": [b"a", None, b"", b"bcd", b"a", b"efghijklmnop"],
    "TIMESTAMP(6)": [-5_000, None, None, 7_000],
}

# Options with which few values take several parts of a payload; others are those of a table without any.
_OPTIONS: dict[str, list[dict[str, str]]] = {
    "bloom-filter": [{"items": "20"}],
    "bitmap": [{"version": version, "index-block-size": "64 b"} for version in ("1", "2")],
    "range-bitmap": [{"chunk-size": "16 b"}],
}
_WRITTEN = [
    (kind, type_text, options)
    for kind in KINDS.values()
    for type_text in _ROWS
    for options in _OPTIONS.get(kind, [{}])
    if kind.takes(parse_type(type_text))
]


@pytest.mark.parametrize(("kind", "type_text", "options"), _WRITTEN, ids=str)
def test_tells_of_each_payload_that_it_refuses_why(
    kind: IndexKind, type_text: str, options: dict[str, str]
) -> None:
    data_type, rows = parse_type(type_text), _ROWS[type_text]
    column = key_column(rows, data_type)
    payload = write_index(kind, column, kind.parse_options(options))
    damaged = [payload[:size] for size in share(range(len(payload)), 3)]
    for at in share(range(len(payload)), 11):
        damaged += [
            payload[:at] + bytes([value]) + payload[at + 1 :] for value in (0, 1, 2, 20, 127, 128, 255)
        ]
    index = StackedIndex.read(BytesColumn.of([write({"c": [(kind, each)]}) for each in [*damaged, payload]]))

    broken = index.open("c", kind, data_type).broken

    assert not broken[-1]
    for file, each in enumerate(damaged):
        if not broken[file]:
            open_payload(kind, each, data_type)
            continue
        with pytest.raises(CorruptIndexError) as caught:
            open_payload(kind, each, data_type)
        assert 0 <= (caught.value.offset or 0) <= len(each)


@pytest.mark.parametrize("kind", list(KINDS.values()))
@given(
    payloads=st.lists(st.binary(max_size=120), min_size=1, max_size=4), wanted=st.sampled_from([INT, STRING])
)
def test_survives_any_payload(kind: IndexKind, payloads: list[bytes], wanted: DataType) -> None:
    field = DataField(0, "c", wanted if kind.takes(wanted) else INT)
    index = StackedIndex.read(BytesColumn.of([write({"c": [(kind, each)]}) for each in payloads] * 9))
    files = np.arange(len(index))

    for operator in (Operator.EQUAL, Operator.GREATER_THAN, Operator.IS_NULL, Operator.NOT_EQUAL):
        literals = () if operator is Operator.IS_NULL else (b"a" if field.type is STRING else 5,)
        for ask in (decide_files, find_rows):
            decisions = ask(BoundLeaf(operator, field, literals), index, files, np.full(len(files), -1))
            assert not decisions.skip[list(decisions.errors)].any()
