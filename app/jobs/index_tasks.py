"""Tasks of the jobs about file indexes, one data file each."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

from app.building import ColumnTypes, DataFile, IndexPayloads, Verification, build, read_columns, verify
from app.errors import CorruptIndexError, FileMissingError, IndexWriteError, PaimonIndexError
from app.file_index import FileIndex, FileIndexOptions, KeyColumn, indexed_type
from app.jobs.job_table import Place, local_file
from app.options import split_map_key
from app.storage import Warehouse, Writing
from app.table import TableSchema
from app.types import DataType

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """A data file and its index."""

    number: int
    path: str
    row_count: int
    types: Mapping[str, DataType]
    embedded: bytes | None
    side_path: str | None

    def content(self, warehouse: Warehouse) -> bytes | None:
        """Read the bytes of the index. Return None if there is none."""
        if self.embedded is not None or self.side_path is None:
            return self.embedded
        return warehouse.read(self.side_path)


@dataclass(frozen=True, slots=True)
class BuildTask:
    """Changes of one data file's indexes. All other indexes of the file stay.

    Attributes:
        options: indexes to build, by the file's own names and types.
        take_off: column and kind of each index to remove, by the file's own names.
        new_path: path of the index unless it goes into the manifest. No other task or job writes there.
        rebuild: True to build indexes of ``options`` again if the file already has them.
    """

    place: Place
    file: IndexedFile
    options: FileIndexOptions
    take_off: frozenset[tuple[str, str]]
    new_path: str
    rebuild: bool

    @property
    def declared(self) -> frozenset[tuple[str, str]]:
        """Column and kind of each index to build."""
        return frozenset((index.column, str(index.kind)) for index in self.options.indexes)

    def indexes_before(self) -> frozenset[tuple[str, str]]:
        """Return column and kind of each index that the file has."""
        return frozenset(_readable_indexes(self.file, self.place.open()))


@dataclass(frozen=True, slots=True)
class BuiltFile:
    """Outcome for one file. ``is_new`` is false if the index of the file is unchanged.

    ``before``: column and kind of each index that the file had. ``built``: bytes of each index that was
    built, by column and kind. ``size_bytes``: bytes of the new container, 0 if there is none.
    """

    number: int
    before: frozenset[tuple[str, str]]
    is_new: bool
    built: Mapping[tuple[str, str], int] = field(default_factory=dict)
    embedded: bytes | None = None
    size_bytes: int = 0
    row_count: int = 0

    @property
    def sizes_of_new(self) -> dict[tuple[str, str], int]:
        """Bytes of each index that the file did not have before, by column and kind."""
        return {index: size for index, size in self.built.items() if index not in self.before}


def build_file(task: BuildTask) -> BuiltFile:
    """Build the index of one data file."""
    warehouse = task.place.open()
    before = _readable_indexes(task.file, warehouse)
    replaced = task.take_off | (task.declared if task.rebuild else frozenset())
    kept = {index: payload for index, payload in before.items() if index not in replaced}
    new = tuple(index for index in task.options.indexes if (index.column, str(index.kind)) not in kept)
    file, has_all = task.file, not new and len(kept) == len(before)
    if not new and not kept:
        return BuiltFile(file.number, frozenset(before), is_new=not has_all, row_count=file.row_count)
    columns: Mapping[str, pa.ChunkedArray] = {}
    try:
        if new:
            with local_file(warehouse, file.path) as local:
                columns = read_columns(DataFile.open(local), {index.column for index in new})
        built = build(columns, replace(task.options, indexes=new), kept=kept)
    except IndexWriteError as error:
        raise IndexWriteError(f"{file.path}: {error}", column=error.column, row=error.row) from error
    if has_all and built.in_manifest == (file.embedded is not None):
        return BuiltFile(file.number, frozenset(before), is_new=False)
    if not built.in_manifest and not Writing(warehouse).create(task.new_path, built.content):
        raise CorruptIndexError("another file has the name of the new index", path=task.new_path)
    return BuiltFile(
        file.number,
        frozenset(before),
        is_new=True,
        built={(entry.column, entry.kind): entry.size_bytes for entry in built.entries},
        embedded=built.content if built.in_manifest else None,
        size_bytes=len(built.content),
        row_count=file.row_count,
    )


def _readable_indexes(file: IndexedFile, warehouse: Warehouse) -> IndexPayloads:
    try:
        content = file.content(warehouse)
        if content is None:
            return {}
        index = FileIndex.read(content)
    # An unreadable index is replaced as if the file had none.
    except (CorruptIndexError, FileMissingError):
        return {}
    readable: dict[tuple[str, str], bytes | None] = {}
    for entry in chain.from_iterable(index.entries.values()):
        # A payload that reaches beyond its container is lost, and built again if it is declared.
        with suppress(CorruptIndexError):
            readable[entry.column, entry.kind] = None if entry.is_empty else bytes(index.payload(entry))
    return readable


@dataclass(frozen=True, slots=True)
class AuditTask:
    """An index to verify, with at most ``sample`` of its values."""

    place: Place
    file: IndexedFile
    sample: int | None


@dataclass(frozen=True, slots=True)
class AuditedFile:
    """Outcome for one file. ``verification`` is None if the container cannot be read."""

    number: int
    verification: Verification | None
    problem: str | None = None


def audit_file(task: AuditTask) -> AuditedFile:
    """Verify the index of one data file against its rows."""
    warehouse, file = task.place.open(), task.file
    try:
        content = file.content(warehouse) or b""
    except PaimonIndexError as error:
        return AuditedFile(file.number, None, str(error))
    with local_file(warehouse, file.path) as local:
        data = DataFile.open(local)
        types = ColumnTypes(data, file.types)

        def column_of(name: str) -> KeyColumn:
            data_type = indexed_type(name, types)
            return KeyColumn.of(read_columns(data, [name])[name], data_type, name)

        try:
            return AuditedFile(file.number, verify(content, column_of, data.row_count, sample=task.sample))
        except CorruptIndexError as error:
            return AuditedFile(file.number, None, str(error.at(file.side_path or file.path)))


def options_in_file(
    options: FileIndexOptions, schema: TableSchema, file_schema: TableSchema, written: tuple[str, ...] | None
) -> FileIndexOptions:
    """Translate options to the names and types of the file's columns.

    Columns are matched by id. Omit an index if the file lacks its column, or if its kind does not support the
    type that the column had.
    """
    indexes = []
    for index in options.indexes:
        name, key = split_map_key(index.column)
        column = file_schema.by_id.get(schema.by_name[name].id)
        if column is None or (written is not None and column.name not in written):
            continue
        name_in_file = column.name if key is None else f"{column.name}[{key}]"
        try:
            data_type = indexed_type(name_in_file, {column.name: column.type})
        except PaimonIndexError:
            continue
        if index.kind.takes(data_type):
            indexes.append(replace(index, column=name_in_file, data_type=data_type))
    return replace(options, indexes=tuple(indexes))
