"""Writes the tables of pypaimon into ``warehouse/pypaimon.db``: ``python make.py pypaimon|pack DIRECTORY``.

Run it with the Python of an environment that has pypaimon 2.1, then ``Make.java`` on the same directory, which
writes ``warehouse/java.db``, and ``pack``, which replaces ``warehouse.tar.xz`` beside this script. The row ids
that readers answer with go to ``pypaimon.json`` and ``java.json`` within the warehouse.
"""

from __future__ import annotations

import datetime as dt
import json
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
        ("day", pa.date32()),
        ("t3", pa.timestamp("ms")),
        ("t6", pa.timestamp("us")),
        ("t9", pa.timestamp("ns")),
        ("l6", pa.timestamp("us", tz="UTC")),
    ]
)
_TRACKED = {
    "bucket": "-1",
    "row-tracking.enabled": "true",
    "data-evolution.enabled": "true",
    "file.format": "parquet",
    "metadata.stats-mode": "none",
}
_SECOND = 1_700_000_000 * 10**9
_FLOATS = [1.0, math.nan, -0.0, 5.0, 0.0, -math.inf, math.inf, None, -3.25, 1e-30]
_NUMBERS = [5, -5, None, 100, 0, 127, -128, 7, 7, None, 42, 1]


def _rows(start: int, count: int) -> pa.Table:
    """Rows whose values repeat in cycles of other lengths."""
    numbers = [_NUMBERS[at * at % len(_NUMBERS)] for at in range(start, start + count)]

    def made(make: Any) -> list[Any]:
        return [None if number is None else make(number) for number in numbers]

    floats = [_FLOATS[at % len(_FLOATS)] for at in range(start, start + count)]
    columns: dict[str, list[Any]] = {
        "b": made(lambda n: n % 2 == 0),
        **{name: made(int) for name in ("i8", "i16", "i")},
        "i64": [None if at % 17 == 0 else at * 10**15 - 3 * 10**16 for at in range(start, start + count)],
        "f": floats,
        "d": floats,
        "dec": made(lambda n: Decimal(n).scaleb(-2)),
        "dec38": made(lambda n: Decimal(n * 10**24 + n).scaleb(-10)),
        "s": [
            ["", "é", "z" * 20, None, "text", "te", "teyt", "𝄞"][at % 8] for at in range(start, start + count)
        ],
        "day": made(lambda n: dt.date(1970, 1, 1) + dt.timedelta(days=n)),
    }
    arrays = [pa.array(columns[field.name], field.type) for field in _SCHEMA if field.name in columns]
    nanos = [
        None if number is None else (_SECOND if at % 3 else -1) + number * 1_000_999 * (at % 5)
        for at, number in enumerate(numbers, start)
    ]
    for unit in (10**6, 10**3, 1, 10**3):
        field = _SCHEMA.field(len(arrays))
        cut = [None if each is None else each // unit for each in nanos]
        arrays.append(pa.array(cut, pa.int64()).cast(field.type))
    return pa.Table.from_arrays(arrays, schema=_SCHEMA)


class Maker:
    """Tables of one catalog."""

    def __init__(self, directory: Path) -> None:
        self.pypaimon = import_module("pypaimon")
        self.catalog = self.pypaimon.CatalogFactory.create({"warehouse": str(directory / "warehouse")})
        self.catalog.create_database("pypaimon", ignore_if_exists=True)
        self.written: dict[str, Any] = {}

    def create(self, name: str, schema: pa.Schema, *keys: str, **options: str) -> None:
        stated = {**_TRACKED, **{key.replace("__", "."): value for key, value in options.items()}}
        made = self.pypaimon.Schema.from_pyarrow_schema(schema, partition_keys=list(keys), options=stated)
        self.catalog.create_table(f"pypaimon.{name}", made, ignore_if_exists=False)

    def table(self, name: str, **options: str) -> Any:
        table = self.catalog.get_table(f"pypaimon.{name}")
        return table.copy(options) if options else table

    def append(self, name: str, rows: pa.Table) -> None:
        builder = self.table(name).new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        write.write_arrow(rows)
        commit.commit(write.prepare_commit())
        write.close()

    def index(self, name: str, column: str, kind: str = "btree", **options: Any) -> None:
        create = import_module("pypaimon.globalindex.create_global_index").create_global_index
        stated = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
        create(self.table(name), column, index_type=kind, options=stated)

    def drop(self, name: str, column: str, kind: str = "btree") -> None:
        import_module("pypaimon.globalindex.drop_global_index").drop_global_index(
            self.table(name), column, kind
        )

    def update(self, name: str, rows: pa.Table, columns: list[str], **options: str) -> None:
        builder = self.table(name, **options).new_batch_write_builder()
        update = builder.new_update().with_update_type(columns)
        messages = update.update_by_arrow_with_row_id(rows)
        commit = builder.new_commit()
        commit.commit(messages)
        commit.close()

    def alter(self, name: str, *changes: Any) -> None:
        self.catalog.alter_table(f"pypaimon.{name}", list(changes), ignore_if_not_exists=False)

    def note(self, name: str) -> None:
        """Notes how many rows pypaimon reads, and which row ids it answers for some filters in each mode."""
        table = self.table(name)
        builder = table.new_read_builder()
        names = [*(field.name for field in table.fields), "_ROW_ID"]
        plain = builder.with_projection(names)
        rows = plain.new_read().to_arrow(plain.new_scan().plan().splits())
        self.written[name] = {"rows": rows.num_rows, "answers": {}}
        for column, literal in _asked(table):
            for mode in ("fast", "full"):
                asked = self.table(name, **{"scalar-index.search-mode": mode})
                reading = asked.new_read_builder().with_projection([column, "_ROW_ID"])
                predicate = reading.new_predicate_builder()
                for method, given in (("equal", literal), ("greater_or_equal", literal), ("is_null", None)):
                    test = getattr(predicate, method)
                    filtered = reading.with_filter(test(column) if given is None else test(column, given))
                    found = filtered.new_read().to_arrow(filtered.new_scan().plan().splits())
                    ids = sorted(found.column("_ROW_ID").to_pylist())
                    self.written[name]["answers"][f"{column} {method} {mode}"] = ids


def _asked(table: Any) -> list[tuple[str, Any]]:
    literals = {"i": 7, "i64": -3 * 10**16 + 10**15, "s": "te", "p": "b", "n": 3}
    return [(field.name, literals[field.name]) for field in table.fields if field.name in literals]


def write_with_pypaimon(directory: Path) -> None:  # noqa: PLR0915 - one table after the other
    maker = Maker(directory)
    for kind in ("btree", "bitmap"):
        maker.create(kind, _SCHEMA)
        for start in range(0, 90, 30):
            maker.append(kind, _rows(start, 30))
        for field in _SCHEMA:
            maker.index(kind, field.name, kind)
        maker.append(kind, _rows(90, 20))
        maker.note(kind)
    # Blocks of a few entries, several files for a range, and a bloom filter.
    maker.create("small_blocks", _SCHEMA)
    for start in range(0, 240, 60):
        maker.append("small_blocks", _rows(start, 60))
    small: dict[str, Any] = {"btree_index__block_size": "128 b", "sorted_index__records_per_file": 40}
    for column in ("i", "i64", "s", "d"):
        maker.index("small_blocks", column, btree_index__bloom_filter__enabled="true", **small)
    maker.index("small_blocks", "t6", "bitmap", bitmap_index__dictionary_block_size="64 b", **small)
    maker.note("small_blocks")
    narrow = pa.schema([("p", pa.string()), ("n", pa.int64()), ("s", pa.string())])

    def some(partition: str, start: int, count: int = 10) -> pa.Table:
        numbers = range(start, start + count)
        return pa.table(
            [[partition] * count, [*numbers], [f"s{number % 4}" for number in numbers]], schema=narrow
        )

    maker.create("parts", narrow, "p")
    for start, partition in enumerate("abab"):
        maker.append("parts", some(partition, start * 10))
    maker.index("parts", "n")
    maker.append("parts", some("a", 3))
    maker.append("parts", some("c", 3))
    maker.index("parts", "s", "bitmap")
    maker.note("parts")
    # An index that is not true of half of its rows any more.
    maker.create("stale", narrow)
    maker.append("stale", some("a", 0))
    maker.append("stale", some("a", 10))
    maker.index("stale", "n")
    changed = pa.table({"_ROW_ID": pa.array([2, 4], pa.int64()), "n": pa.array([1002, 1004], pa.int64())})
    maker.update("stale", changed, ["n"], **{"global-index.column-update-action": "IGNORE"})
    maker.note("stale")
    # Another column was updated: the index holds.
    maker.create("updated", narrow)
    maker.append("updated", some("a", 0))
    maker.append("updated", some("a", 10))
    maker.index("updated", "n")
    maker.index("updated", "s")
    others = pa.table({"_ROW_ID": pa.array([2, 4], pa.int64()), "s": pa.array(["x", "y"], pa.string())})
    maker.update("updated", others, ["s"], **{"global-index.column-update-action": "DROP_PARTITION_INDEX"})
    maker.note("updated")
    # The type was changed, a column dropped and added again, an index dropped and built anew.
    change = import_module("pypaimon.schema.schema_change").SchemaChange
    types = import_module("pypaimon.schema.data_types")
    ints = pa.schema([("n", pa.int32()), ("s", pa.string()), ("i", pa.int32())])
    maker.create("evolved", ints)
    numbers = [*range(20)]
    maker.append("evolved", pa.table([numbers, [f"s{n % 4}" for n in numbers], numbers], schema=ints))
    for column in ("n", "s", "i"):
        maker.index("evolved", column)
    maker.alter("evolved", change.update_column_type("n", types.AtomicType("BIGINT")))
    maker.alter("evolved", change.drop_column("s"))
    maker.alter("evolved", change.add_column("s", types.AtomicType("STRING")))
    maker.drop("evolved", "i")
    later = pa.schema([("n", pa.int64()), ("i", pa.int32()), ("s", pa.string())])
    maker.append("evolved", pa.table([numbers, numbers, ["s1"] * 20], schema=later))
    maker.index("evolved", "i")
    maker.note("evolved")
    target = directory / "warehouse" / "pypaimon.json"
    target.write_text(json.dumps(maker.written, indent=1))


def pack(directory: Path) -> None:
    def without_origin(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        return member

    with tarfile.open(_HERE / "warehouse.tar.xz", "w:xz") as archive:
        archive.add(directory / "warehouse", "warehouse", filter=without_origin)


if __name__ == "__main__":
    {"pypaimon": write_with_pypaimon, "pack": pack}[sys.argv[1]](Path(sys.argv[2]))
