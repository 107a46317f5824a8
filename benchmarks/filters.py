"""Long lists of literals: from what a caller sends to a filter that is bound to a column."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from app.api.http.strict_json import read_json
from app.predicates.binding import bind
from app.predicates.json_reader import read_lists
from app.predicates.text import read_text
from app.types import DataField, parse_type
from benchmarks.workload import Suite, Target, Workload

LITERALS: Final = 100_000

_TARGET: Final = Target(300)


def suites() -> Iterator[Suite]:
    """Measure filters of many literals."""
    yield Suite("filters", _workloads)


def _workloads(directory: Path) -> Iterator[Workload]:  # noqa: ARG001 - suites are alike
    random = Random(LITERALS)
    numbers = [random.randrange(1 << 62) for _ in range(LITERALS)]
    texts = [f"key-{number}" for number in numbers]
    for name, values, data_type in (("numbers", numbers, "BIGINT"), ("strings", texts, "STRING")):
        field = DataField(0, "c", parse_type(data_type))
        text = f"c IN ({', '.join(map(repr, values))})"
        body = json.dumps({"c": values}).encode()
        of_text = partial(_of_text, text, field)
        yield Workload(f"filter read, {name} of text", LITERALS, of_text, target=_TARGET)
        yield Workload(f"filter read, {name} of JSON", LITERALS, partial(_of_json, body, field))


def _of_text(text: str, field: DataField) -> None:
    bind(read_text(text), [field])


def _of_json(body: bytes, field: DataField) -> None:
    lists = read_json(body)
    assert isinstance(lists, dict)  # noqa: S101 - as it was written
    bind(read_lists(lists), [field])
