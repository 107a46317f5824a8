"""The databases and tables of a warehouse, as directories show them.

::

    <warehouse>/<database>.db/<table>/schema/schema-0
"""

from __future__ import annotations

from app.errors import NotFoundError, PathNotAllowedError
from app.table.storage import TableReader
from app.table.table import Table, is_name

DATABASE_SUFFIX = ".db"


class Catalog:
    """Finds tables by name.

    Args:
        reader: the warehouse, and the caches of what is read from it.
    """

    def __init__(self, reader: TableReader) -> None:
        self._reader = reader

    def databases(self) -> list[str]:
        """Names of the databases, sorted."""
        names = self._reader.storage.list_names("")
        return [name.removesuffix(DATABASE_SUFFIX) for name in names if name.endswith(DATABASE_SUFFIX)]

    def tables(self, database: str) -> list[str]:
        """Names of a database's tables, sorted: the directories that have a schema.

        Raises:
            NotFoundError: there is no such database.
        """
        directory = self._directory(database)
        storage = self._reader.storage
        names = storage.list_names(directory)
        if not names and not storage.exists(directory):
            raise NotFoundError(f"there is no database {database!r}")

        def has_schema(name: str) -> bool:
            try:
                # A listing takes one call of an object store, to ask whether a directory exists two.
                return bool(storage.list_names(f"{directory}/{name}/schema"))
            except PathNotAllowedError:
                # A link that leads out of the warehouse is no table of it, and hides none of the others.
                return False

        have_schema = self._reader.readers.map(has_schema, names)
        return [name for name, is_table in zip(names, have_schema, strict=True) if is_table]

    def table(self, database: str, name: str) -> Table:
        """A table, which need not exist: nothing is read before something is asked of it.

        Raises:
            NotFoundError: no table can have such a name.
        """
        directory = self._directory(database)
        if not is_name(name):
            raise NotFoundError(f"there is no table {database}.{name}")
        return Table(self._reader, database, name, f"{directory}/{name}")

    def _directory(self, database: str) -> str:
        if not is_name(database):
            raise NotFoundError(f"there is no database {database!r}")
        return f"{database}{DATABASE_SUFFIX}"
