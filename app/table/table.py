"""Tables of a warehouse: finds them, lists their versions, and resolves the version that a caller means.

::

    <warehouse>/<database>.db/<table>/schema/schema-0
    <table>/[<data-file.path-directory>/][<partition>/]bucket-<n>/<data file>, <its extra files>
    <table>/index/<index file>, or next to the data under index-file-in-data-file-dir

A file with an external path is at that path, and its extra files next to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from app.errors import (
    NotFoundError,
    PathNotAllowedError,
    RequestError,
    SnapshotExpiredError,
    UnknownPlaceError,
)
from app.suggestions import alike, hint
from app.table.data_paths import DataPaths
from app.table.decoding import TableSnapshot
from app.table.metadata import TableMetadata
from app.table.paths import TablePaths
from app.table.references import ListingPart, References
from app.table.resolution import ResolvedSnapshot, VersionRequest, Versions, read_schema
from app.table.schema.schema import SchemaIds, TableSchema
from app.table.storage import TableReader
from app.work import wait_for

MAIN_BRANCH = "main"
_IS_BRANCH = re.compile(r"/branch/branch-[^/]+$")
# An error about a missing table suggests at most this many others.
_MOST_NAMED = 12


class Table:
    """One table. Caches the content of snapshots. Asks storage for the list of snapshots each time."""

    def __init__(self, reader: TableReader, database: str, name: str, directory: str) -> None:
        self.database = database
        self.name = name
        self.directory = directory
        self.reader = reader
        self._storage = reader.storage
        self.metadata = TableMetadata(reader, directory, self._label)

    def resolve(
        self,
        *,
        snapshot_id: int | None = None,
        tag: str | None = None,
        timestamp_millis: int | None = None,
        branch: str | None = None,
        schemas: SchemaIds | None = None,
        max_staleness_ms: int = 0,
    ) -> ResolvedSnapshot:
        """Resolve the version that a caller means: without arguments the latest.

        ``timestamp_millis``: selects the newest snapshot that was committed at or before this time.
        ``schemas``: the schemas to take columns and options from, so that later pages of an answer agree with
        the first.
        ``max_staleness_ms``: accepts a version that was the latest this many milliseconds ago, without a look
        at storage.

        Raises NotFoundError if there is no such table, branch, snapshot, tag or schema. Raises RequestError
        if more than one of snapshot, tag and timestamp is given.
        """
        if sum(way is not None for way in (snapshot_id, tag, timestamp_millis)) > 1:
            raise RequestError("name at most one of snapshot_id, tag and timestamp_millis")
        request = VersionRequest(snapshot_id, tag, timestamp_millis, schemas)
        return self._versions(branch).find(request, max_staleness_ms)

    def forget_newest(self, resolved: ResolvedSnapshot) -> None:
        """Have the next request look up the latest version again, because this one has gone."""
        self._versions(resolved.branch).forget_newest(resolved)

    def snapshots(self, branch: str | None, after: int | None, count: int) -> ListingPart[int, TableSnapshot]:
        """List a page of the existing snapshots, oldest first."""
        with self._existing(branch) as references:
            return references.existing_snapshots(self.reader.readers, after, count)

    def tags(self, branch: str | None, after: str | None, count: int) -> ListingPart[str, TableSnapshot]:
        """List a page of the tags by name."""
        with self._existing(branch) as references:
            return references.tags(self.reader.readers, after, count)

    def branches(self) -> list[str]:
        """List the branches by name, without the main one."""
        with self._existing(None) as references:
            return references.branches()

    def schema_ids(self, branch: str | None = None) -> list[int]:
        """List the numbers of the schemas, ascending."""
        return self._references(branch).schema_ids()

    def schema_of(self, schema_id: int, branch: str | None = None) -> TableSchema:
        """Read the schema with this number."""
        return read_schema(self.reader, self._references(branch), schema_id)

    def schema(self, resolved: ResolvedSnapshot, schema_id: int) -> TableSchema:
        """Read the schema that a file of a snapshot was written with."""
        if schema_id == resolved.schema.id:
            return resolved.schema
        references = self._references(resolved.branch)
        # After a rollback a schema number may be used again, but not for files of a snapshot that still
        # exists.
        key = (self._storage.name, "schema", resolved.directory, schema_id, resolved.identity)
        try:
            schema: TableSchema = self.reader.metadata.get_or_load(
                key, lambda: read_schema(self.reader, references, schema_id)
            )
        except NotFoundError as error:
            raise SnapshotExpiredError(
                f"schema {schema_id} of {self._label} is gone", path=references.schema_path(schema_id)
            ) from error
        return schema

    def data_paths(self, resolved: ResolvedSnapshot) -> DataPaths:
        """Return the paths of a version's files. Files of a branch are in the main table's directory."""
        return DataPaths(TablePaths(self.directory, resolved.schema), self.reader, resolved.identity)

    def lacks(self, resolved: ResolvedSnapshot, path: str) -> bool:
        """Return True if a file is missing while the version's snapshot or tag is still unchanged."""
        if resolved.snapshot is None or self._storage.exists(path):
            return False
        references = self._references(resolved.branch)
        try:
            snapshot = (
                references.snapshot(resolved.snapshot.id)
                if resolved.tag is None
                else references.tag(resolved.tag)
            )
        except NotFoundError:
            return False
        return snapshot.digest == resolved.snapshot.digest

    @property
    def is_at_its_name(self) -> bool:
        """True if the table is in the directory that its name implies."""
        return self.directory == f"{self.database}{DATABASE_SUFFIX}/{self.name}"

    @property
    def _label(self) -> str:
        label = f"table {self.database}.{self.name}"
        return label if self.is_at_its_name else f"{label} at {self.directory} of {self._storage.name!r}"

    @contextmanager
    def _existing(self, branch: str | None) -> Iterator[References]:
        """Yield the references of a table. Raises NotFoundError at the end of the block if it is missing."""
        references = self._references(branch)
        # Listing the schemas proves that the table exists; it runs in parallel to the block, so it costs no
        # extra round trip.
        schema_ids = self.reader.readers.begin(references.schema_ids)
        yield references
        wait_for(schema_ids)

    def _references(self, branch: str | None) -> References:
        return References(self._storage, *self._place(branch))

    def _versions(self, branch: str | None) -> Versions:
        directory, label = self._place(branch)
        return Versions(self.reader, directory, branch, label)

    def _place(self, branch: str | None) -> tuple[str, str]:
        if branch is None or branch == MAIN_BRANCH:
            return self.directory, self._label
        label = f"branch {branch!r} of {self._label}"
        if not is_name(branch):
            raise NotFoundError(f"there is no {label}")
        return f"{self.directory}/branch/branch-{branch}", label


def is_name(text: str) -> bool:
    """Return True if a text can name a database, table or branch: one printable path segment."""
    return text not in ("", ".", "..") and "/" not in text and text.isprintable()


DATABASE_SUFFIX = ".db"


class Catalog:
    """Finds tables by name."""

    def __init__(self, reader: TableReader) -> None:
        self.reader = reader

    def databases(self) -> list[str]:
        """List the databases by name."""
        names = self.reader.storage.list_names("")
        return [name.removesuffix(DATABASE_SUFFIX) for name in names if name.endswith(DATABASE_SUFFIX)]

    def tables(self, database: str) -> list[str]:
        """List the tables of a database by name: the directories that hold a schema."""
        directory = self._directory(database)
        storage = self.reader.storage
        names = storage.list_names(directory)
        if not names and not storage.exists(directory):
            raise NotFoundError(f"there is no database {database!r}")
        return self._with_schema(directory, names)

    def check_there(self, database: str, table: str | None = None, branch: str | None = None) -> None:
        """Check that a database, table or branch exists. Errors suggest names that do.

        Raises UnknownPlaceError if there is no such database. Raises NotFoundError if there is no such table,
        or branch of it.
        """
        databases = self.databases()
        if database not in databases:
            raise UnknownPlaceError(database, databases, warehouse=self.reader.storage.name)
        if table is None:
            return
        directory = self._directory(database)
        names = self.reader.storage.list_names(directory)
        if table not in names:
            # Each candidate costs a listing of its directory, so only likely ones are looked at.
            candidates = sorted({*names[:_MOST_NAMED], *alike(table, names)})
            suggestion = hint(table, self._with_schema(directory, candidates), plural="tables")
            raise NotFoundError(f"there is no table {database}.{table}{suggestion}")
        if branch is not None:
            branches = self.table(database, table).branches()
            if branch not in (MAIN_BRANCH, *branches):
                suggestion = hint(branch, branches, plural="branches")
                raise NotFoundError(f"there is no branch {branch!r} of table {database}.{table}{suggestion}")

    def _with_schema(self, directory: str, names: Sequence[str]) -> list[str]:
        storage = self.reader.storage

        def has_schema(name: str) -> bool:
            try:
                # An object store answers a listing in one call, and an existence check in two.
                return bool(storage.list_names(f"{directory}/{name}/schema"))
            except PathNotAllowedError:
                # A link that leads out of the warehouse is not one of its tables, and must not hide the
                # others.
                return False

        have_schema = self.reader.readers.map(has_schema, names)
        return [name for name, is_table in zip(names, have_schema, strict=True) if is_table]

    def table(self, database: str, name: str, directory: str | None = None) -> Table:
        """Return a table, which need not exist: nothing is read yet.

        The table is at ``directory``, or where its name puts it. Raises NotFoundError if the name or
        directory cannot be a table's.
        """
        named = self._directory(database)
        if not is_name(name):
            raise NotFoundError(f"there is no table {database}.{name}")
        if directory and _IS_BRANCH.search(directory):
            # It looks like a table, but its manifests and files are in the table that it is a branch of.
            raise NotFoundError(
                f"{directory} is a branch of a table: give the location of that table, and name the branch"
            )
        return Table(self.reader, database, name, directory or f"{named}/{name}")

    def _directory(self, database: str) -> str:
        if not is_name(database):
            raise NotFoundError(f"there is no database {database!r}")
        return f"{database}{DATABASE_SUFFIX}"
