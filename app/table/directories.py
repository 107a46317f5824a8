"""The directories in which the files of a table lie, as listings show them.

::

    <table>/manifest, index, statistics
    <table>/[<data-file.path-directory>/][<partition>/]bucket-<n>
    <table>/[branch/branch-<name>/]{snapshot,changelog}
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from app.storage import Maintenance, Readers
from app.table.decoding import SCHEMA_BYTES, decode, read_small
from app.table.references import References
from app.table.schema.partition import escape
from app.table.schema.schema import TableSchema
from app.table.table import Table

_BUCKET = re.compile(r"bucket-(?:\d+|postpone)")


class Directories:
    """Finds the directories of one table; every method raises what listings and reading schemas do.

    Args:
        table: the table.
        maintenance: of the table's warehouse.
        readers: list and read side by side.
    """

    def __init__(self, table: Table, maintenance: Maintenance, readers: Readers) -> None:
        self._table = table
        self._maintenance = maintenance
        self._readers = readers

    def of_index_files(self) -> list[str]:
        """Those of index manifests and index files: buckets only if any schema lays index files there."""
        above = [f"{self._table.directory}/{name}" for name in ("manifest", "index")]
        return above + self._buckets(each for each in self._schemas() if each.options.index_files_beside_data)

    def of_data_files(self) -> list[str]:
        """All bucket directories."""
        return self._buckets(self._schemas())

    def of_versions(self) -> list[str]:
        """Those of snapshots and changelogs, of all branches."""
        branches = self._maintenance.contents(f"{self._table.directory}/branch").directories
        return [
            f"{directory}/{name}"
            for directory in (self._table.directory, *branches)
            for name in ("snapshot", "changelog")
        ]

    def _buckets(self, schemas: Iterable[TableSchema]) -> list[str]:
        found: list[str] = []
        for data_directory, partition_keys in {
            (schema.options.data_directory, schema.partition_keys) for schema in schemas
        }:
            level = ["/".join(filter(None, (self._table.directory, data_directory)))]
            for key in partition_keys:
                prefix = f"{escape(key)}="
                level = [path for path in self._below(level) if _last(path).startswith(prefix)]
            found += [path for path in self._below(level) if _BUCKET.fullmatch(_last(path))]
        return found

    def _below(self, directories: Iterable[str]) -> list[str]:
        contents = self._readers.map(self._maintenance.contents, directories)
        return [path for each in contents for path in each.directories]

    def _schemas(self) -> list[TableSchema]:
        warehouse = self._maintenance.warehouse
        what = f"table {self._table.database}.{self._table.name}"
        references = References(warehouse, self._table.directory, what)
        paths = map(references.schema_path, references.schema_ids())
        return self._readers.map(
            lambda path: decode(path, read_small(warehouse, path, SCHEMA_BYTES), TableSchema.read), paths
        )


def _last(path: str) -> str:
    return path.rpartition("/")[2]
