"""Rows of golden tables as their data files have them, to hold clients to."""

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.table import DataScan

from tests.golden_cases import GoldenWarehouse
from tests.golden_checks import positions

Rows: TypeAlias = "Counter[tuple[Any, ...]]"

_FIELD_ID = b"PARQUET:field_id"


def expected_rows(
    golden: GoldenWarehouse,
    version: Mapping[str, Any],
    chosen: Mapping[str, Iterable[Any]],
    ids: Iterable[int],
) -> Rows:
    paths = {each["file"]: each for each in version["files"]}
    found: Rows = Counter()
    for name, recorded in chosen.items():
        path = _path(golden, paths[name])
        table = _columns(path, tuple(ids)).take(sorted(positions(recorded)))
        found.update(rows_of(table))
    return found


def file_rows(
    golden: GoldenWarehouse, version: Mapping[str, Any], ids: tuple[int, ...]
) -> dict[str, pa.Table]:
    """Every row of every file of a version, by the file's name, in columns of these ids."""
    return {each["file"]: _columns(_path(golden, each), ids) for each in version["files"]}


def live_rows(version: Mapping[str, Any]) -> dict[str, list[int]]:
    """Return the positions in each file of the rows that a batch read of a table without merging sees."""
    live = {}
    for file in version["files"]:
        if file["visible"]:
            deleted = set() if file["deletion"] is None else positions(file["deletion"]["positions"])
            live[file["file"]] = [at for at in range(file["row_count"]) if at not in deleted]
    return live


def rows_of(table: pa.Table) -> Rows:
    """Return the rows of a table, as values that are equal wherever they come from."""
    columns = [[_plain(value) for value in column.to_pylist()] for column in table.columns]
    return Counter(zip(*columns, strict=True)) if columns else Counter()


def _plain(value: Any) -> Any:
    match value:
        case float() if value != value:  # noqa: PLR0124 - NaN
            return "NaN"
        case list():
            return tuple(map(_plain, value))
        case dict():
            return tuple((name, _plain(each)) for name, each in value.items())
        case tuple():
            return tuple(map(_plain, value))
        case Decimal():
            return value.normalize()
        case _:
            return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value


def _path(golden: GoldenWarehouse, file: Mapping[str, Any]) -> Path:
    external = file["external_path"]
    if external is None:
        return next(golden.root.glob(f"*/*/**/{file['file']}"))
    return next(golden.external.rglob(file["file"]))


@cache
def read(scan: DataScan) -> Rows:
    """Return the rows of a scan, whose warnings are told elsewhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return rows_of(scan.to_arrow())


def _columns(path: Path, ids: tuple[int, ...]) -> pa.Table:
    table = pq.ParquetFile(path).read()
    by_id = {
        int(field.metadata[_FIELD_ID]): table.column(at)
        for at, field in enumerate(table.schema)
        if field.metadata and _FIELD_ID in field.metadata
    }
    missing = pa.nulls(len(table))
    return pa.table([_micros(by_id.get(number, missing)) for number in ids], [str(each) for each in ids])


def _micros(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return (
        pc.cast(column, pa.timestamp("us", column.type.tz)) if pa.types.is_timestamp(column.type) else column
    )


def field_ids(path: Path) -> dict[int, str]:
    found: dict[int, str] = {}
    pending = list(pq.read_schema(path))
    while pending:
        field = pending.pop()
        found[int((field.metadata or {}).get(_FIELD_ID, -1))] = field.name
        kind = field.type
        if pa.types.is_map(kind):
            pending += [kind.key_field, kind.item_field]
        elif pa.types.is_list(kind):
            pending.append(kind.value_field)
        elif pa.types.is_struct(kind):
            pending += list(kind)
    return found
