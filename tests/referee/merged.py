"""Draws tables that every writer appends to, until the engine merges their manifests into one."""

from __future__ import annotations

import datetime as dt
from random import Random
from typing import Final

from tests.referee.histories import History, Step
from tests.referee.literals import clock, value
from tests.referee.processes import ENGINES, PYTHONS, READER

_TYPES: Final = (
    *("TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)"),
    *("FLOAT", "DOUBLE", "DATE", "DECIMAL(18, 3)", "DECIMAL(38, 10)", "STRING"),
)
_LOCAL: Final = "TIMESTAMP(3) WITH LOCAL TIME ZONE"
_COLUMNS: Final = 6
_START: Final = dt.datetime(2025, 3, 28)  # noqa: DTZ001 - no zone
_FRACTIONS: Final = ("", ".5", ".123456789", ".999999999", ".123", ".000001")


def merged_history(rng: Random) -> History:
    """Return a table with or without a key, whose files are of a few rows of about the same hour."""
    some = [_LOCAL, *_TYPES] if rng.random() < 0.3 else _TYPES
    columns = {f"c{number}": written for number, written in enumerate(rng.sample(some, _COLUMNS))}
    options = {"file.format": rng.choice(("parquet", "parquet", "orc", "avro"))}
    # pypaimon writes bounds only if it is told to, and then refuses instants.
    if not any("LOCAL" in written for written in columns.values()):
        options["metadata.stats-mode"] = "full"
    is_keyed = rng.random() < 0.4
    if is_keyed:
        columns = {"k": "INT NOT NULL", **columns}
        options |= {"bucket": "1", "num-sorted-run.compaction-trigger": rng.choice(("5", "100"))}
    create: Step = {"do": "create", "writer": rng.choice(ENGINES), "columns": [*map(list, columns.items())]}
    create |= {"keys": ["k"] if is_keyed else [], "partitions": [], "options": options}
    writers = [*ENGINES, *PYTHONS] * 2
    rng.shuffle(writers)
    steps = [_append(rng, writer, columns) for writer in writers]
    if rng.random() < 0.3:
        steps.insert(rng.randrange(len(steps)), {"do": "compact", "writer": READER})
    steps.append({"do": "merge", "writer": READER})
    # The older versions had other manifests.
    steps.append({"do": "expire", "writer": READER, "keep": 1})
    return History(create, steps=steps)


def _append(rng: Random, writer: str, columns: dict[str, str]) -> Step:
    hour = _START + dt.timedelta(hours=rng.randrange(48))
    clocks = [f"{hour + dt.timedelta(minutes=rng.randrange(90))}{rng.choice(_FRACTIONS)}" for _ in range(3)]
    drawn = [
        {name: _value(rng, written, clocks) for name, written in columns.items()}
        for _ in range(rng.choice((1, 1, 2, 3, 5)))
    ]
    rows = [{name: text for name, text in row.items() if text is not None} for row in drawn]
    return {"do": "write", "writer": writer, "rows": rows}


def _value(rng: Random, written: str, clocks: list[str]) -> str | None:
    if written.startswith("TIMESTAMP"):
        return rng.choice((None, *(clock(each, written) for each in clocks)))
    return value(rng, written)
