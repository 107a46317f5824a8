"""Writes the tables of pypaimon into ``warehouse/pypaimon.db``: ``python make.py STEP DIRECTORY``.

Run it with the Python of an environment that has pypaimon 2.1. The steps, each after that of ``Make.java`` on
the same directory, which writes ``warehouse/java.db``:

* ``pypaimon``: tables of every type. Row ids that readers answer with go to ``pypaimon.json`` and ``java.json``;
* ``changes``: tables that change after their indexes were built;
* ``answers``: the rows of these and what is read of them, in ``changed_pypaimon.json``. It prints the names
  that ``Make.java DIRECTORY answers`` is to be given, which writes ``changed_java.json``;
* ``pack``: replaces ``warehouse.tar.xz`` beside this script.
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
_EXTERNAL = Path("/tmp/global-indexes")  # noqa: S108 - no file of this machine is read there
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


_CHANGING = pa.schema([("n", pa.int32()), ("s", pa.string())])


def _numbers(start: int, count: int = 10) -> pa.Table:
    """Rows as ``Make.java`` writes them to tables that change."""
    places = range(start, start + count)
    numbers = [None if at % 7 == 6 else at for at in places]  # noqa: PLR2004 - each seventh
    texts = [None if at % 5 == 4 else f"s{at % 4}" for at in places]  # noqa: PLR2004 - each fifth
    return pa.table([pa.array(numbers, pa.int32()), pa.array(texts, pa.string())], schema=_CHANGING)


def write_changes(directory: Path) -> None:
    maker = Maker(directory)

    def changing(name: str, rows: int, **options: str) -> None:
        maker.create(name, _CHANGING, **options)
        for start in range(0, rows, 40):
            maker.append(name, _numbers(start, min(40, rows - start)))

    changing("external", 20, **{"global-index.external-path": f"file://{_EXTERNAL}"})
    maker.index("external", "n")
    maker.index("external", "s", "bitmap")
    changing("forty_files", 160)
    for column, kind in (("n", "btree"), ("s", "bitmap")):
        maker.index("forty_files", column, kind, sorted_index__records_per_file=4)
    # A range for each build.
    maker.create("grown", _CHANGING)
    for start in range(0, 50, 10):
        maker.append("grown", _numbers(start))
        maker.index("grown", "n", "btree" if start % 20 else "bitmap")
    maker.append("grown", _numbers(50))
    # A column was updated, which dropped its index, and indexed anew.
    changing("updated_and_rebuilt", 20)
    maker.index("updated_and_rebuilt", "n")
    maker.index("updated_and_rebuilt", "s", "bitmap")
    changed = pa.table({"_ROW_ID": pa.array([2, 4], pa.int64()), "n": pa.array([1002, 1004], pa.int32())})
    maker.update(
        "updated_and_rebuilt", changed, ["n"], **{"global-index.column-update-action": "DROP_PARTITION_INDEX"}
    )
    maker.index("updated_and_rebuilt", "n")
    # A column was dropped, one of its name added and indexed.
    change = import_module("pypaimon.schema.schema_change").SchemaChange
    types = import_module("pypaimon.schema.data_types")
    changing("column_anew", 10)
    maker.index("column_anew", "n")
    maker.index("column_anew", "s")
    maker.alter("column_anew", change.drop_column("s"))
    maker.alter("column_anew", change.add_column("s", types.AtomicType("STRING")))
    maker.append("column_anew", _numbers(10))
    maker.index("column_anew", "s", "bitmap")


_CHANGED: dict[str, tuple[str, list[Any]]] = {
    "n = 3": ("equal", ["n", 3]),
    "n >= 15": ("greater_or_equal", ["n", 15]),
    "n IS NULL": ("is_null", ["n"]),
    "s = 's1'": ("equal", ["s", "s1"]),
    "s IS NULL": ("is_null", ["s"]),
}


def note_changes(directory: Path) -> None:
    """Notes the rows of the tables that changed, and the row ids that pypaimon reads of them by filters."""
    catalog = import_module("pypaimon").CatalogFactory.create({"warehouse": str(directory / "warehouse")})
    noted: dict[str, Any] = {}
    for path in sorted((directory / "warehouse").glob("*.db/*")):
        name = f"{path.parent.stem}.{path.name}"
        table = catalog.get_table(name)
        if {field.name for field in table.fields} != {"n", "s"}:
            continue
        builder = table.new_read_builder().with_projection(["_ROW_ID", "n", "s"])
        rows = builder.new_read().to_arrow(builder.new_scan().plan().splits())
        answers: dict[str, list[int]] = {}
        for mode in ("fast", "full"):
            reading = table.copy({"scalar-index.search-mode": mode}).new_read_builder()
            reading = reading.with_projection(["n", "s", "_ROW_ID"])
            for condition, (method, given) in _CHANGED.items():
                test = getattr(reading.new_predicate_builder(), method)(*given)
                filtered = reading.with_filter(test)
                found = filtered.new_read().to_arrow(filtered.new_scan().plan().splits())
                answers[f"{condition} {mode}"] = sorted(found.column("_ROW_ID").to_pylist())
        noted[name] = {
            "rows": sorted([row["_ROW_ID"], row["n"], row["s"]] for row in rows.to_pylist()),
            "answers": answers,
        }
    target = directory / "warehouse" / "changed_pypaimon.json"
    target.write_text(json.dumps(noted, indent=1))
    print(*noted)


def pack(directory: Path) -> None:
    def without_origin(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        return member

    with tarfile.open(_HERE / "warehouse.tar.xz", "w:xz") as archive:
        archive.add(directory / "warehouse", "warehouse", filter=without_origin)
        archive.add(_EXTERNAL, "external", filter=without_origin)


if __name__ == "__main__":
    _STEPS = {
        "pypaimon": write_with_pypaimon,
        "changes": write_changes,
        "answers": note_changes,
        "pack": pack,
    }
    _STEPS[sys.argv[1]](Path(sys.argv[2]))
