"""Counts the marks that writers leave in manifests, for ``docs/decisions/trusted-bounds.md``.

``python marks.py write DIRECTORY``, with the Python of an environment that has some release of pypaimon,
writes tables in every mode below ``DIRECTORY``: TIMESTAMP(3), NaN and -0.0, one and more rows, files cut at
the target size. ``python marks.py count NAME=DIRECTORY ...``, with the project's Python, prints a line for
each kind of entry below a directory, whoever wrote it.
"""

from __future__ import annotations

import datetime as dt
import math
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

_SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("t3", pa.timestamp("ms")),
        pa.field("t6", pa.timestamp("us")),
        pa.field("d", pa.float64()),
    ]
)
_SIZES = (1, 2, 3, 10, 1, 50)
_CUT = (40, 1, 2, 30, 2, 1, 1, 1, 3, 4, 20, 1, 2, 1)
_KEYED = {"primary_keys": ["id"]}
_TRACKED = {"row-tracking.enabled": "true"}
# By table: sizes of batches, arguments of the schema, options. Batches of a cut table are of one commit.
_TABLES: dict[str, tuple[tuple[int, ...], dict[str, Any], dict[str, str]]] = {
    "plain": (_SIZES, {}, {}),
    "plain_orc": (_SIZES, {}, {"file.format": "orc"}),
    "plain_avro": (_SIZES, {}, {"file.format": "avro"}),
    "plain_buckets": (_SIZES, {}, {"bucket": "2", "bucket-key": "id"}),
    "plain_cut": (_CUT, {}, {"target-file-size": "1 kb"}),
    "plain_buckets_cut": (_CUT, {}, {"target-file-size": "1 kb", "bucket": "1", "bucket-key": "id"}),
    "tracked": (_SIZES, {}, _TRACKED),
    "evolution": (_SIZES, {}, {**_TRACKED, "data-evolution.enabled": "true"}),
    **{f"keyed_{bucket}": (_SIZES, _KEYED, {"bucket": bucket}) for bucket in ("1", "2", "-1", "-2")},
    "keyed_vectors": (_SIZES, _KEYED, {"bucket": "1", "deletion-vectors.enabled": "true"}),
    **{
        f"keyed_cut_{size}": (_CUT, _KEYED, {"bucket": "1", "target-file-size": f"{size} b"})
        for size in (1, 200, 1024, 2048, 3072)
    },
}


def _rows(count: int, first: int) -> pa.Table:
    ids = range(first, first + count)
    clocks = [dt.datetime(2024, 3, 1) + dt.timedelta(hours=each) for each in ids]  # noqa: DTZ001 - no zone
    doubles = [math.nan if each % 3 == 2 else -0.0 if each % 3 else float(each) for each in ids]
    return pa.table([ids, clocks, clocks, doubles], schema=_SCHEMA)


def write(directory: Path) -> None:
    pypaimon = import_module("pypaimon")
    catalog = pypaimon.CatalogFactory.create({"warehouse": str(directory)})
    catalog.create_database("marks", True)
    for name, (sizes, arguments, options) in _TABLES.items():
        schema = pypaimon.Schema.from_pyarrow_schema(
            _SCHEMA, options={"metadata.stats-mode": "full", **options}, **arguments
        )
        try:
            catalog.create_table(f"marks.{name}", schema, False)
            builder = catalog.get_table(f"marks.{name}").new_batch_write_builder()
            batches = [_rows(size, 100 * at) for at, size in enumerate(sizes)]
            for commit in [batches] if "cut" in name else [[each] for each in batches]:
                writer, committer = builder.new_write(), builder.new_commit()
                for batch in commit:
                    writer.write_arrow(batch)
                committer.commit(writer.prepare_commit())
                writer.close()
                builder = catalog.get_table(f"marks.{name}").new_batch_write_builder()
        except (ValueError, RuntimeError) as error:
            print(f"{name}: {error}")


def kinds(directory: Path) -> Iterator[str]:
    """Yields the kind of each file that a manifest below the directory names."""
    from app.table.manifests import FileSource, Manifest  # noqa: PLC0415 - other environments lack it

    seen = set()
    for path in sorted(directory.rglob("manifest/manifest-*")):
        if path.name.startswith("manifest-list"):
            continue
        try:
            manifest = Manifest.read(path.read_bytes())
        except ValueError as error:
            print(f"{path}: {error}")
            continue
        for entry in manifest.entries(manifest.kinds.argsort(kind="stable")):
            file = entry.file
            if file.file_name in seen:
                continue
            seen.add(file.file_name)
            key = "keyed" if any(file.min_key[:4]) else "no key"
            level = "level 0" if file.level == 0 else "higher level"
            compacted = ", compacted" if file.file_source is FileSource.COMPACT else ""
            tracked = ", tracked" if file.first_row_id is not None else ""
            difference, rows = file.max_sequence_number - file.min_sequence_number, file.row_count
            numbers = (
                "one number"
                if difference == 0
                else "a number for each row"
                if difference == rows - 1
                else f"{'more' if difference >= rows else 'fewer'} numbers than rows"
            )
            yield f"{key}, {level}{compacted}{tracked}; {'a row' if rows == 1 else 'rows'}, {numbers}"


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]))
    else:
        for name, _, directory in (each.partition("=") for each in sys.argv[2:]):
            for kind, files in sorted(Counter(kinds(Path(directory))).items()):
                print(f"{name}: {files} files {kind}")
