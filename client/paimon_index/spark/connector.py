"""A table as the session's catalog of the engine's connector has it: where it lies, and who reads its files.

Files go through the engine's own ``FileIO``, so they are written with the rights and credentials that the
catalog gives the engine's writers. Its classes need not be public, and py4j may call only what is: methods
are looked up by reflection.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JError, Py4JJavaError

from paimon_index.errors import UnsupportedTableError, WarehouseWriteError
from paimon_index.spark.refusals import check_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from paimon_index.requests import TableName


@dataclass(frozen=True, slots=True)
class ConnectorTable:
    """A table, and the files below its directory; paths are relative to that.

    Attributes:
        name: as SQL of the session has it.
        location: its directory.
    """

    name: str
    location: str
    _files: Any
    _gateway: Any

    @classmethod
    def load(cls, spark: SparkSession, catalog: str, table: TableName) -> Self:
        """The table of a catalog of the session.

        Raises:
            UnsupportedSessionError: the session is one of Spark Connect.
            UnsupportedTableError: the session has no such catalog or table of the engine.
        """
        check_session(spark)
        gateway = spark._jvm._gateway_client  # noqa: SLF001 - as pyspark does
        parts = (catalog, table.database, table.table)
        name = ".".join("`" + part.replace("`", "``") + "`" for part in parts)
        try:
            manager = spark._jsparkSession.sessionState().catalogManager()  # noqa: SLF001 - no other door
            identifier = JavaClass("org.apache.paimon.catalog.Identifier", gateway)
            # The connector's table would do, too, but py4j cannot look at a class that names classes of
            # other releases of Spark.
            of_engine = (
                manager.catalog(catalog)
                .paimonCatalog()
                .getTable(identifier.create(table.database, table.table))
            )
            files, location = of_engine.fileIO(), of_engine.location()
            return cls(name, str(location), files, gateway)
        except Py4JError as error:
            raise UnsupportedTableError(
                f"{name} is no table of the engine's connector in this session: {_reason(error)}. Name the "
                f"session's catalog that has it"
            ) from error

    def exists(self, path: str) -> bool:
        """Whether there is such a file or directory.

        Raises:
            WarehouseWriteError: storage failed.
        """
        with self._failing("look for", path):
            return bool(self._files.exists(self._at(path)))

    def names(self, directory: str) -> list[str]:
        """Names of the files and directories in a directory; none if it is not there.

        Raises:
            WarehouseWriteError: storage failed.
        """
        if not self.exists(directory):
            return []
        with self._failing("list", directory):
            return [str(each.getPath().getName()) for each in self._files.listStatus(self._at(directory))]

    def create(self, path: str, content: bytes) -> None:
        """Writes a file under a name that no file has.

        Raises:
            WarehouseWriteError: there is one, or storage failed; a part of the file may be there.
        """
        with self._failing("write", path):
            stream = self._files.newOutputStream(self._at(path), False)  # noqa: FBT003 - overwrite
            try:
                stream.write(content)
            finally:
                stream.close()

    def delete(self, path: str) -> None:
        """Deletes a file or empty directory; one that is not there is deleted already.

        Raises:
            WarehouseWriteError: storage failed.
        """
        with self._failing("delete", path):
            self._files.delete(self._at(path), False)  # noqa: FBT003 - recursive

    def _at(self, path: str) -> Any:  # noqa: ANN401 - the engine's Path
        return JavaClass("org.apache.paimon.fs.Path", self._gateway)(f"{self.location}/{path}")

    @contextmanager
    def _failing(self, what: str, path: str) -> Iterator[None]:
        try:
            yield
        except Py4JError as error:
            raise WarehouseWriteError(f"cannot {what} {self.location}/{path}: {_reason(error)}") from error


def _reason(error: Py4JError) -> str:
    """Java's message, without its stack."""
    if isinstance(error, Py4JJavaError):
        return str(error.java_exception.toString())
    return str(error).splitlines()[0]
