"""Packs tables of several releases: ``python tests/golden/pack_versions.py SOURCE CHECK``.

SOURCE holds a directory per release with what its generator wrote (``warehouse``, ``expected``); CHECK is the
program beside the originals that reads data files and knows SQL's logic. The tables that are named here become
``versions/warehouse.tar.xz``, and ``versions/expected.json.xz`` says of each what the README there describes.
Equal files give equal archives: names are sorted and times left out.
"""

from __future__ import annotations

import functools
import io
import json
import lzma
import sys
import tarfile
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

TABLES = {
    "0.5.0-incubating": ("append", "pk_fixed", "pk_dynamic", "manifest_orc", "value_count"),
    "0.5.0-incubating-to-1.4.2": ("append", "manifest_orc"),
    "0.8.2": ("append_index_embedded", "pk_dv", "manifest_orc_dv"),
    "0.9.0": ("manifest_parquet_dv", "manifest_parquet_dynamic"),
    "1.4.2": ("manifest_orc", "manifest_parquet_dv"),
}
OUT = Path(__file__).parent / "versions"


def main(source: Path, check: Any) -> None:
    """Packs the tables, and describes them with the help of the program that knows them."""
    documents = []
    with (
        lzma.open(OUT / "warehouse.tar.xz", "wb", preset=9 | lzma.PRESET_EXTREME) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for version, tables in TABLES.items():
            for table in tables:
                directory = source / version / "warehouse" / "golden.db" / table
                for path in sorted(each for each in directory.rglob("*") if each.is_file()):
                    content = path.read_bytes()
                    info = tarfile.TarInfo(f"{version}/golden.db/{table}/{path.relative_to(directory)}")
                    info.size = len(content)
                    archive.addfile(info, io.BytesIO(content))
                expected = json.loads((source / version / "expected" / f"{table}.json").read_bytes())
                documents.append({"version": version, **describe(check, directory, expected)})
    text = json.dumps(documents, separators=(",", ":"), sort_keys=True).encode()
    (OUT / "expected.json.xz").write_bytes(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))


def describe(check: Any, directory: Path, expected: dict[str, Any]) -> dict[str, Any]:
    """What the README says of a document, without the version."""
    table = check.TableCheck(None, "", directory, expected)
    names = expected["scan_files"]
    keys: dict[Any, int] = {}

    def rows(name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = table.files.rows(name)
        return found

    def key_of(name: str, row: dict[str, Any]) -> int:
        key = (table.place(name), *(row[each] for each in table.keys))
        return keys.setdefault(key, len(keys))

    def holds(filter_: dict[str, Any]) -> dict[str, list[int]]:
        found = {
            name: [at for at, row in enumerate(rows(name)) if check.truth(filter_, table.types, row) is True]
            for name in names
        }
        return {name: positions for name, positions in found.items() if positions}

    queries = [] if table.counts else [
        {"sql": each["sql"], "holds": holds(each["filter"])} for each in expected["queries"] if each["sql"]
    ]
    for column, kind in () if table.counts else table.types.items():
        edges: set[Any] = set()
        for name in names:
            known = [row[column] for row in rows(name) if row[column] is not None]
            ordered = sorted(known, key=functools.cmp_to_key(check.compare))
            edges |= {ordered[0], ordered[-1]} if ordered else set()
        is_time = check.root(kind).startswith("TIMESTAMP")
        for edge in sorted(edges, key=str)[: 12 if is_time else 3]:
            sql = check.sql_literal(kind, edge)
            if sql is not None:
                literal = check.moment(edge) if is_time else edge
                filter_ = {"op": "=", "column": column, "literals": [literal]}
                queries.append({"sql": f"{column} = {sql}", "holds": holds(filter_)})
    return {
        "table": expected["table"],
        "counts_rows": table.counts,
        "merges": table.merges,
        "scan_files": sorted(names),
        "versions": [
            {"at": at, "files": sorted(version["files"])}
            for at, version in (
                *(({"snapshot_id": each["id"]}, each) for each in expected["snapshots"]),
                *(({"tag": name}, each) for name, each in sorted(expected["tags"].items())),
                *(({"branch": name}, each) for name, each in sorted(expected.get("branches", {}).items())),
            )
        ],
        "files": {
            name: {
                "row_count": len(rows(name)),
                "deleted": sorted(table.deleted(name)),
                "keys": [key_of(name, row) for row in rows(name)] if table.merges else None,
                "sequences": [row["#sequence"] for row in rows(name)] if table.merges else None,
                "removes": [row["#kind"] not in (0, 2) for row in rows(name)] if table.merges else None,
            }
            for name in sorted(names)
        },
        "queries": queries,
        "buckets": buckets(table, expected),
    }


def buckets(table: Any, expected: dict[str, Any]) -> list[dict[str, Any]]:
    """Keys by partition, each with the bucket that it is in."""
    if not table.keys or "bucket" not in expected["options"]:
        return []
    found: dict[str, dict[str, int]] = {}
    for name in sorted(expected["scan_files"]):
        meta = table.files.metas[name]
        of_partition = found.setdefault(json.dumps(meta["partition"]), {})
        for row in table.files.rows(name):
            key = {each: row[each] for each in table.keys if each not in expected["partition_keys"]}
            of_partition[json.dumps(key)] = meta["bucket"]
    return [
        {"partition": json.loads(partition), "keys": [[json.loads(key), bucket] for key, bucket in keys.items()]}
        for partition, keys in found.items()
    ]


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    loader = SourceFileLoader("check", sys.argv[2])
    main(Path(sys.argv[1]), loader.load_module())
