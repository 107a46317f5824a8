"""Long lists of literals: from what a caller sends to a filter that is bound to a column."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

import pyarrow as pa

from app.api.strict_json import read_json
from app.predicates.binding.binding import bind
from app.predicates.json_reader import read_lists
from app.predicates.sql.reader import read_sql
from app.types import DataField, parse_type
from benchmarks.workload import Suite, Target, Workload

LITERALS: Final = 100_000

_TARGET: Final = Target(300)


def suites() -> Iterator[Suite]:
    """Filters of many literals."""
    yield Suite("filters", _workloads)


def _workloads(directory: Path) -> Iterator[Workload]:  # noqa: ARG001 - suites are alike
    random = Random(LITERALS)
    numbers = [random.randrange(1 << 62) for _ in range(LITERALS)]
    texts = [f"key-{number}" for number in numbers]
    for name, values, data_type in (("numbers", numbers, "BIGINT"), ("texts", texts, "STRING")):
        field = DataField(0, "c", parse_type(data_type))
        sql = f"c IN ({', '.join(map(repr, values))})"
        body = json.dumps({"c": values}).encode()
        stream = json.dumps({"c": {"$arrow": base64.b64encode(_stream(values)).decode()}}).encode()
        yield Workload(f"filter read, {name} of SQL", LITERALS, partial(_of_sql, sql, field), target=_TARGET)
        yield Workload(f"filter read, {name} of JSON", LITERALS, partial(_of_json, body, field))
        yield Workload(f"filter read, {name} of Arrow", LITERALS, partial(_of_json, stream, field))


def _stream(values: Sequence[int | str]) -> bytes:
    table = pa.table({"c": pa.array(values)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _of_sql(text: str, field: DataField) -> None:
    bind(read_sql(text), [field])


def _of_json(body: bytes, field: DataField) -> None:
    lists = read_json(body)
    assert isinstance(lists, dict)  # noqa: S101 - as it was written
    bind(read_lists(lists), [field])
