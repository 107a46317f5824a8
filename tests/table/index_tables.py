"""Tables of versions, index manifests and index files alone, written to a directory as a test wants them."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from uuid import UUID, uuid4

from app.storage import Maintenance, Warehouse
from app.table import Catalog, Orphan, OrphanSearch, TableReader
from app.table.commits.manifest_writing import ListedManifests
from app.table.manifests.index_manifest import IndexEntry, IndexManifest
from app.table.manifests.manifest_entry import FileKind
from app.table.storage import Storage
from app.types.index_files import HASH, IndexFileMeta

ReaderOf: TypeAlias = Callable[[Storage], TableReader]

NOW = dt.datetime(2025, 6, 1, 12, 0, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
OLD = dt.timedelta(days=30)
MANIFEST_LISTS = ("manifest-list-1", "manifest-list-2")


@dataclass
class IndexTable:
    """A table ``db.t``; whatever it writes is as old as ``age``.

    Attributes:
        root: directory of the warehouse.
        directory: the table's own.
        age: of the files that are written next, at :data:`NOW`.
    """

    root: Path
    directory: Path
    age: dt.timedelta = OLD
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @classmethod
    def make(
        cls, root: Path, partition_keys: Sequence[str] = (), options: Mapping[str, str] | None = None
    ) -> IndexTable:
        """A table without versions."""
        table = cls(root, root / "db.db" / "t")
        table.alter(0, partition_keys, options)
        for name in MANIFEST_LISTS:
            table.write(f"manifest/{name}", ListedManifests().write("null"))
        return table

    def alter(
        self, schema_id: int, partition_keys: Sequence[str] = (), options: Mapping[str, str] | None = None
    ) -> None:
        """Writes a schema."""
        columns = ["id", *partition_keys]
        schema = {
            "version": 3,
            "id": schema_id,
            "fields": [{"id": at, "name": name, "type": "INT"} for at, name in enumerate(columns)],
            "partitionKeys": list(partition_keys),
            "options": dict(options or {}),
        }
        self.write(f"schema/schema-{schema_id}", json.dumps(schema).encode())

    def write(self, path: str, content: bytes = b"") -> str:
        """Writes a file, and tells its path below the table."""
        file = self.directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_name(f".{file.name}.{uuid4()}.tmp")
        temporary.write_bytes(content)
        written = (NOW - self.age).timestamp()
        os.utime(temporary, (written, written))
        temporary.replace(file)
        return path

    def index_file(self, directory: str = "index") -> str:
        """Writes a new index file, and tells its path."""
        return self.write(f"{directory}/index-{self._fresh()}-0", b"\0\0\0\7")

    def index_manifest(self, *index_files: str, external_path: str | None = None) -> str:
        """Writes a new index manifest that lists some files, and tells its path."""
        entries = tuple(
            IndexEntry(
                FileKind.ADD,
                bytes(12),
                bucket,
                IndexFileMeta(HASH, path.rpartition("/")[2], 4, 1, external_path=external_path),
            )
            for bucket, path in enumerate(index_files)
        )
        return self.write(f"manifest/index-manifest-{self._fresh()}-0", IndexManifest(entries).write())

    def version(self, path: str, index_manifest: str | None) -> str:
        """Writes a snapshot, tag or changelog that names an index manifest."""
        members: dict[str, Any] = {
            "version": 3,
            "id": 1,
            "schemaId": 0,
            "baseManifestList": MANIFEST_LISTS[0],
            "deltaManifestList": MANIFEST_LISTS[1],
            "commitKind": "APPEND",
            "timeMillis": 1,
        }
        if index_manifest is not None:
            members["indexManifest"] = index_manifest.rpartition("/")[2]
        return self.write(path, json.dumps(members).encode())

    def delete(self, path: str) -> None:
        """Deletes a file below the table."""
        (self.directory / path).unlink()

    def paths(self) -> set[str]:
        """Paths of all index files, index manifests and temporary files there are."""
        files = self.directory.rglob("*index-*")
        return {str(file.relative_to(self.directory)) for file in files if file.is_file()}

    def orphans(self, reader_of: ReaderOf) -> OrphanSearch:
        """What finds the table's orphans."""
        return orphans_of(Warehouse("w", str(self.root)), reader_of)

    def _fresh(self) -> UUID:
        return UUID(int=next(self._numbers))


def orphans_of(warehouse: Warehouse, reader_of: ReaderOf) -> OrphanSearch:
    """What finds the orphans of ``db.t``."""
    reader = reader_of(warehouse)
    return OrphanSearch(Catalog(reader).table("db", "t"), Maintenance(warehouse), reader.readers)


def paths_of(orphans: Iterable[Orphan]) -> list[str]:
    """Paths below the table, without the manifest lists that every version names."""
    paths = (orphan.file.path.removeprefix("db.db/t/") for orphan in orphans)
    return [path for path in paths if path.rpartition("/")[2] not in MANIFEST_LISTS]


def find(table: IndexTable, reader_of: ReaderOf) -> list[str]:
    """Paths of what is an orphan for a day at least."""
    return paths_of(table.orphans(reader_of).find(DAY, NOW).found)
