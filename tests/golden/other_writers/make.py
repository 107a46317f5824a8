"""Writes the tables of one writer into ``warehouse/<writer>.db``: ``python make.py pypaimon|rust DIRECTORY``.

Run it once for each writer, with the Python of an environment that has it, on the same directory, and then
``python make.py pack DIRECTORY``, which replaces ``warehouse.tar.xz`` beside this script.
"""

from __future__ import annotations

import datetime as dt
import math
import sys
import tarfile
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

_HERE = Path(__file__).parent
_SCHEMA = pa.schema(
    [
        ("b", pa.bool_()),
        ("i8", pa.int8()),
        ("i16", pa.int16()),
        ("i", pa.int32()),
        ("i64", pa.int64()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("dec", pa.decimal128(10, 2)),
        ("dec38", pa.decimal128(38, 10)),
        ("s", pa.string()),
        ("bin", pa.binary()),
        ("day", pa.date32()),
        ("t3", pa.timestamp("ms")),
        ("t6", pa.timestamp("us")),
        ("t9", pa.timestamp("ns")),
        ("l6", pa.timestamp("us", tz="UTC")),
    ]
)
_SECOND = 1_700_000_000 * 10**9
_NAN, _INFINITY = math.nan, math.inf


def _rows(nanos: list[int | None], floats: list[float | None], numbers: list[int | None]) -> pa.Table:
    """A file: these values of timestamps and floats, and others made of numbers."""

    def made(make: Any) -> list[Any]:
        return [None if number is None else make(number) for number in numbers]

    columns: dict[str, list[Any]] = {
        "b": made(lambda n: n % 2 == 0),
        **{name: made(int) for name in ("i8", "i16", "i", "i64")},
        "f": floats,
        "d": floats,
        "dec": made(lambda n: Decimal(n).scaleb(-2)),
        "dec38": made(lambda n: Decimal(n * 10**20).scaleb(-10)),
        "s": made(lambda n: f"text {n:04} " + "é" * (n % 9) if n >= 0 else "z" * 20),
        "bin": made(lambda n: bytes([n % 256, 255])),
        "day": made(lambda n: dt.date(1970, 1, 1) + dt.timedelta(days=n)),
    }
    arrays = [pa.array(columns[field.name], field.type) for field in _SCHEMA if field.name in columns]
    for unit in (10**6, 10**3, 1, 10**3):
        field = _SCHEMA.field(len(arrays))
        cut = [None if each is None else each // unit for each in nanos]
        arrays.append(pa.array(cut, pa.int64()).cast(field.type))
    return pa.Table.from_arrays(arrays, schema=_SCHEMA)


FILES = [
    _rows([_SECOND + 123_456_789, _SECOND + 123_456_999, _SECOND, None], [1.0, _NAN, -0.0, 5.0], [1, 2, 3, 4]),
    _rows([_SECOND + 123_456_001, _SECOND + 999_999_999], [_NAN, _NAN], [70, 71]),
    _rows([-1, -1_001, -123_456_789], [-_INFINITY, _INFINITY, None], [-5, -6, None]),
    _rows([None, None], [None, None], [None, None]),
    _rows([_SECOND + 123_456_000, _SECOND + 10**9], [0.0, 2.5], [100, 127]),
    _rows([_SECOND + 5 * 10**9, None, _SECOND + 4 * 10**9], [_NAN, -3.0, None], [20, None, 30]),
]


def write_with_pypaimon(directory: Path) -> None:
    pypaimon = import_module("pypaimon")
    catalog = pypaimon.CatalogFactory.create({"warehouse": str(directory / "warehouse")})
    catalog.create_database("pypaimon", True)
    for file_format in ("parquet", "orc"):
        name = f"pypaimon.{file_format}_files"
        options = {"file.format": file_format, "metadata.stats-mode": "full", "bucket": "-1"}
        catalog.create_table(name, pypaimon.Schema.from_pyarrow_schema(_SCHEMA, options=options), False)
        _append(catalog.get_table(name))
    keyed = pa.schema([pa.field("t9", pa.timestamp("ns"), nullable=False), ("d", pa.float64())])
    options = {"bucket": "1", "metadata.stats-mode": "full"}
    schema = pypaimon.Schema.from_pyarrow_schema(keyed, primary_keys=["t9"], options=options)
    catalog.create_table("pypaimon.keyed", schema, False)
    for file in FILES:
        rows = file.select(["t9", "d"]).filter(file.column("t9").is_valid())
        if rows.num_rows:
            _commit(catalog.get_table("pypaimon.keyed"), rows.cast(keyed))


def write_with_rust(directory: Path) -> None:
    rust = import_module("pypaimon_rust.datafusion")
    warehouse = {"warehouse": str(directory / "warehouse")}
    context = rust.SQLContext()
    context.register_catalog("paimon", warehouse)
    context.sql("CREATE SCHEMA paimon.rust")
    context.sql(
        "CREATE TABLE paimon.rust.parquet_files (b BOOLEAN, i8 TINYINT, i16 SMALLINT, i INT, i64 BIGINT, "
        "f FLOAT, d DOUBLE, dec DECIMAL(10, 2), dec38 DECIMAL(38, 10), s STRING, bin BYTEA, day DATE, "
        "t3 TIMESTAMP(3), t6 TIMESTAMP(6), t9 TIMESTAMP(9), l6 TIMESTAMP(6) WITH TIME ZONE)"
    )
    _append(rust.PaimonCatalog(warehouse).get_table("rust.parquet_files"))


def _append(table: Any) -> None:
    for file in FILES:
        _commit(table, file)


def _commit(table: Any, rows: pa.Table) -> None:
    builder = table.new_batch_write_builder()
    write, commit = builder.new_write(), builder.new_commit()
    for batch in rows.combine_chunks().to_batches() if "rust" in type(table).__module__ else [rows]:
        write.write_arrow(batch)
    commit.commit(write.prepare_commit())
    write.close()


def pack(directory: Path) -> None:
    def without_origin(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        return member

    with tarfile.open(_HERE / "warehouse.tar.xz", "w:xz") as archive:
        archive.add(directory / "warehouse", "warehouse", filter=without_origin)


if __name__ == "__main__":
    {"pypaimon": write_with_pypaimon, "rust": write_with_rust, "pack": pack}[sys.argv[1]](Path(sys.argv[2]))
