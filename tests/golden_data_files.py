"""The data files of the golden tables, with the indexes that the engine made of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.table.manifests.manifest import Manifest
from app.table.schema.schema import TableSchema
from tests.golden_tables import GoldenWarehouse


@dataclass(frozen=True, slots=True)
class GoldenDataFile:
    """One data file."""

    path: Path
    schema: TableSchema
    index: bytes
    embedded: bool


def indexed_files(golden: GoldenWarehouse, table: str) -> Iterator[GoldenDataFile]:
    """Every file of a table that has an index and is still there, of whatever version."""
    directory = golden.table(table)
    schemas = {
        int(path.name.removeprefix("schema-")): TableSchema.read(path.read_bytes())
        for path in (directory / "schema").glob("schema-*")
    }
    paths = {
        path.name: path
        for root in (directory, golden.external / table)
        for path in root.rglob("*")
        if path.is_file()
    }
    met: set[str] = set()
    for path in sorted((directory / "manifest").glob("manifest-*")):
        if path.name.startswith("manifest-list-"):
            continue
        manifest = Manifest.read(path.read_bytes())
        for row in range(len(manifest.kinds)):
            meta = manifest.entry(row).file
            if meta.file_name in met or meta.file_name not in paths:
                continue
            met.add(meta.file_name)
            schema, embedded = schemas[meta.schema_id], meta.embedded_index
            side = [paths[name] for name in meta.extra_files if name.endswith(".index") and name in paths]
            if embedded is not None:
                yield GoldenDataFile(paths[meta.file_name], schema, bytes(embedded), embedded=True)
            elif side:
                yield GoldenDataFile(paths[meta.file_name], schema, side[0].read_bytes(), embedded=False)
