"""Tables with real data files, and the indexes that their options ask for."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from app.advice.answers import TableAdvice
from app.advice.survey import Survey
from app.advice.table_advice import advise_table
from app.building import build
from app.building.columns import DataFormat
from app.file_index.table_options import FileIndexOptions
from app.planning.service import IndexService
from app.planning.usage import TableUsage
from app.planning.version.version import Version
from app.types import DataField, parse_type
from tests.data_files import write_data_file
from tests.tables import MadeTable, entry, no_statistics, open_service

TYPES = {"id": "BIGINT", "city": "STRING", "amount": "INT", "at": "TIMESTAMP(3)", "exact": "TIMESTAMP(9)"}
COLUMNS = [DataField(number, name, parse_type(text)) for number, (name, text) in enumerate(TYPES.items())]


@dataclass(frozen=True, slots=True)
class IndexedTable:
    made: MadeTable
    service: IndexService

    @property
    def version(self) -> Version:
        return self.made.version(self.service)

    def advice(self, usage: TableUsage | None = None, most_files: int = 1_000) -> TableAdvice:
        return advise_table(self.version, usage or TableUsage(), None, most_files)

    def usage(self) -> TableUsage:
        return self.service.usage.of_table(self.version)

    def survey(self) -> Survey:
        return Survey.of(self.version, 1_000, lambda _: None)


def indexed_table(
    warehouse: Path,
    files: Sequence[pa.Table],
    options: Mapping[str, str],
    *,
    indexed: Sequence[int] | None = None,
    declared: Mapping[str, str] | None = None,
    data_format: DataFormat = DataFormat.PARQUET,
) -> IndexedTable:
    """Return a table of these files, of which all or ``indexed`` ones have the indexes that the options name.

    ``declared``: options of the table, where they are others than its files were written with.
    """
    name = f"made{len(list(warehouse.glob('*/made*')))}"
    made = MadeTable.make(
        warehouse, COLUMNS, options=dict(options if declared is None else declared), name=name
    )
    bucket = made.directory / "bucket-0"
    bucket.mkdir()
    parsed = FileIndexOptions.parse(options, {column.name: column.type for column in COLUMNS})
    entries = []
    for number, rows in enumerate(files):
        path = bucket / f"data-{number}.{data_format}"
        write_data_file(path, rows, data_format)
        members = {
            "file_name": path.name,
            "file_size": path.stat().st_size,
            "row_count": rows.num_rows,
            **no_statistics(),
        }
        if parsed.indexes and (indexed is None or number in indexed):
            names = {each.column for each in parsed.indexes}
            built = build({name: rows[name] for name in names}, parsed)
            if built.in_manifest:
                members["embedded_index"] = built.content
            else:
                made.side_file(path.name).write_bytes(built.content)
                members["extra_files"] = (f"{path.name}.index",)
        entries.append(entry(**members))
    made.commit(entries)
    return IndexedTable(made, open_service(warehouse))


def grown(files: Sequence[pa.Table]) -> list[pa.Table]:
    """Return the files with a footer each that makes them 1 MiB together."""
    padding = secrets.token_hex((1 << 19) // len(files))
    return [rows.replace_schema_metadata({"padding": padding}) for rows in files]


def events(rows: int, first: int = 0, cities: int = 5) -> pa.Table:
    """Ids that follow each other, a few cities, amounts that repeat, times by the second."""
    numbers = range(first, first + rows)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "city": [f"city {number % cities}" for number in numbers],
            "amount": pa.array([number * 7_919 % 1_000 for number in numbers], pa.int32()),
            "at": pa.array([number * 1_000 for number in numbers], pa.timestamp("ms")),
            "exact": pa.array([number * 10**9 for number in numbers], pa.timestamp("ns")),
        }
    )
