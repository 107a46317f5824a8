"""Data files as other writers make them."""

from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
from pyarrow import orc
from pyarrow import parquet as pq

from app.building.columns import DataFormat

_AVRO_TYPES = {
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.timestamp("ms"): {"type": "long", "logicalType": "timestamp-millis"},
}


def write_data_file(path: Path, table: pa.Table, data_format: DataFormat) -> Path:
    """Write a table; ORC in stripes, Avro in blocks of few rows."""
    match data_format:
        case DataFormat.PARQUET:
            pq.write_table(table, path, row_group_size=1_000)
        case DataFormat.ORC:
            orc.write_table(table, path)
        case DataFormat.AVRO:
            schema = {
                "type": "record",
                "name": "row",
                "fields": [
                    {"name": field.name, "type": ["null", _avro_type(field.type)]} for field in table.schema
                ],
            }
            with path.open("wb") as file:
                rows = [_plain(row) for row in table.to_pylist()]
                fastavro.writer(file, schema, rows, codec="zstandard", sync_interval=2_000)
    return path


def _avro_type(found: pa.DataType) -> Any:
    if pa.types.is_map(found):
        return {"type": "map", "values": ["null", _avro_type(found.item_type)]}
    return _AVRO_TYPES[found]


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: dict(value) if isinstance(value, list) else value for name, value in row.items()}
