"""New tables for jobs to write to, and what is in them by a plain reader."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from app.types import Json
from app.types.binary_row.row import read_row
from tests.copied_tables import open_table
from tests.golden_cases import DATABASE

RETRACTIONS = (1, 3)


def make_table(
    root: Path,
    name: str,
    columns: Mapping[str, Json],
    *,
    keys: Sequence[str] = (),
    partitions: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
) -> Path:
    directory = root / f"{DATABASE}.db" / name
    (directory / "schema").mkdir(parents=True)
    # Some ids are left for the fields of rows.
    fields = [
        {"id": 10 * at, "name": each, "type": written} for at, (each, written) in enumerate(columns.items())
    ]
    document = {
        "version": 3,
        "id": 0,
        "fields": fields,
        "highestFieldId": 10 * len(fields),
        "partitionKeys": list(partitions),
        "primaryKeys": list(keys),
        "options": {"bucket": "-1", **(options or {})},
        "timeMillis": 0,
    }
    (directory / "schema" / "schema-0").write_text(json.dumps(document))
    return directory


def stored_rows(root: Path, name: str) -> list[dict[str, Any]]:
    """Every row of every file with what its entry says: ``partition`` (values) and ``bucket``."""
    opened = open_table(root, name)
    resolved = opened.table.resolve()
    types = [column.type for column in resolved.schema.partition_fields]
    found = []
    for entry in opened.entries():
        path = root / opened.table.data_paths(resolved).data_file(entry)
        place = {"partition": read_row(entry.partition, types), "bucket": entry.bucket}
        rows = pq.read_table(path, partitioning=None).to_pylist()
        assert len(rows) == entry.file.row_count
        found += [{**row, **place} for row in rows]
    return found


def merged_rows(root: Path, name: str) -> list[dict[str, Any]]:
    """Return the newest row of each key, unless it retracts; with its place."""
    schema = open_table(root, name).table.resolve().schema
    newest: dict[Any, dict[str, Any]] = {}
    for row in stored_rows(root, name):
        key = tuple(row[each] for each in schema.primary_keys)
        if key not in newest or newest[key]["_SEQUENCE_NUMBER"] < row["_SEQUENCE_NUMBER"]:
            newest[key] = row
    return [row for row in newest.values() if row["_VALUE_KIND"] not in RETRACTIONS]


def buckets_of_keys(root: Path, name: str) -> dict[Any, set[int]]:
    schema = open_table(root, name).table.resolve().schema
    found: dict[Any, set[int]] = {}
    for row in stored_rows(root, name):
        found.setdefault(tuple(row[each] for each in schema.primary_keys), set()).add(row["bucket"])
    return found
