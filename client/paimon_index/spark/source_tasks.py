"""The data source in Spark's Python workers: files of one task, in the columns of the table.

Pickled by value together with :mod:`paimon_index.spark.worker`, so that workers need pyspark and pyarrow, but
not this package. Nor does the process in which Spark plans a query, where importing the package would take a
part of each query's time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from pyarrow import compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from paimon_index.spark.worker import forget_zip_finders, gathered, read_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql.types import StructType

    from paimon_index.spark.worker import FileRows

FileShape: TypeAlias = "tuple[pa.Schema, tuple[str | None, ...]]"
"""Schema of the columns to read from a file, and each table column's name in the file, or None."""

FileTask: TypeAlias = "tuple[int, FileRows]"
"""Number of a shape, and the rows of a file."""


class PlannedSource(DataSource):  # type: ignore[misc] # pyspark's types are not read
    """A planned source, into which ``PaimonIndexSource`` is pickled.

    ``shapes``: file shapes by number. ``char_lengths``: lengths of CHAR columns, None for other columns.
    """

    def __init__(
        self,
        tasks: Sequence[Sequence[FileTask]],
        shapes: Mapping[int, FileShape],
        schema: pa.Schema,
        char_lengths: Sequence[int | None],
    ) -> None:
        super().__init__({})
        self._tasks = tasks
        self._arguments = (shapes, schema, char_lengths)

    @classmethod
    def name(cls) -> str:
        """Return the format's name in SQL and in ``load``."""
        return "paimon_index"

    def reader(self, schema: StructType) -> FilesReader:  # noqa: ARG002 - it is that of the plan
        """Return the reader of the files."""
        # Spark sends the source along with every task, which needs only its own files.
        tasks, self._tasks = self._tasks, ()
        forget_zip_finders()
        return FilesReader(tasks, *self._arguments)


class FilesReader(DataSourceReader):  # type: ignore[misc] # pyspark's types are not read
    """Reads the files of a plan. See :class:`PlannedSource` for the arguments."""

    def __init__(
        self,
        tasks: Sequence[Sequence[FileTask]],
        shapes: Mapping[int, FileShape],
        schema: pa.Schema,
        char_lengths: Sequence[int | None],
    ) -> None:
        self._tasks = tasks
        self._shapes = shapes
        self._schema = schema
        self._char_lengths = char_lengths

    def partitions(self) -> list[InputPartition]:
        """Return one partition for each task."""
        return [InputPartition(files) for files in self._tasks]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task. Spark passes None if there are no tasks."""
        yield from gathered(self._batches(partition.value if partition is not None else ()))
        forget_zip_finders()

    def _batches(self, files: Iterable[FileTask]) -> Iterator[pa.RecordBatch]:
        filesystems: dict[str, Any] = {}
        for shape, file in files:
            in_file, names = self._shapes[shape]
            for batch in read_file(file, in_file, filesystems):
                columns = [
                    pa.nulls(batch.num_rows, field.type)
                    if name is None
                    else _converted(batch.column(name), field.type, length)
                    for field, name, length in zip(self._schema, names, self._char_lengths, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def __getstate__(self) -> dict[str, Any]:
        """Omit the tasks, since each task receives its own."""
        return {**self.__dict__, "_tasks": ()}


def _converted(column: pa.Array, target: pa.DataType, char_length: int | None) -> pa.Array:
    """Cast values to the table's type. All casts here are lossless, or round as Java does."""
    if column.type != target:
        column = pc.cast(column, target, safe=False)
    if char_length is not None:
        column = pc.utf8_rpad(column, char_length)
    return column
