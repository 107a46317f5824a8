"""What the jobs about file indexes ask of tasks, one data file each."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

from app.building import ColumnTypes, DataFile, Payloads, Verification, build, read_columns, verify
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
    """A data file, and the index that it has."""

    number: int
    path: str
    row_count: int
    types: Mapping[str, DataType]
    embedded: bytes | None
    side_path: str | None

    def content(self, warehouse: Warehouse) -> bytes | None:
        """The bytes of the index; None if there is none."""
        if self.embedded is not None or self.side_path is None:
            return self.embedded
        return warehouse.read(self.side_path)


@dataclass(frozen=True, slots=True)
class BuildTask:
    """The indexes that a data file gets and loses; it keeps all others that it has.

    Attributes:
        options: which indexes it gets, by the file's own names and types.
        take_off: column and kind of each index that it loses, by the file's own names.
        new_path: where the index goes if it does not go into the manifest; no other task or job writes there.
        rebuild: whether those of ``options`` that it has are built again.
    """

    place: Place
    file: IndexedFile
    options: FileIndexOptions
    take_off: frozenset[tuple[str, str]]
    new_path: str
    rebuild: bool

    @property
    def wanted(self) -> frozenset[tuple[str, str]]:
        """Column and kind of each index that the file gets."""
        return frozenset((index.column, str(index.kind)) for index in self.options.indexes)


@dataclass(frozen=True, slots=True)
class BuiltFile:
    """Outcome for one file; an index is not new where the file had what is wanted, in its place.

    Attributes:
        before: column and kind of each index that the file had.
        built: bytes of each index that was built, by column and kind.
        size_bytes: of the container; 0 where no index is left.
    """

    number: int
    before: frozenset[tuple[str, str]]
    is_new: bool
    built: Mapping[tuple[str, str], int] = field(default_factory=dict)
    embedded: bytes | None = None
    size_bytes: int = 0
    row_count: int = 0


def build_file(task: BuildTask) -> BuiltFile:
    """Builds the index of one data file."""
    warehouse = task.place.open()
    before = _indexes_there(task.file, warehouse)
    replaced = task.take_off | (task.wanted if task.rebuild else frozenset())
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


def _indexes_there(file: IndexedFile, warehouse: Warehouse) -> Payloads:
    """Every index of a file that can be kept; one that lies outside of its container cannot."""
    try:
        content = file.content(warehouse)
        if content is None:
            return {}
        index = FileIndex.read(content)
    except (CorruptIndexError, FileMissingError):
        return {}
    there: dict[tuple[str, str], bytes | None] = {}
    for entry in chain.from_iterable(index.entries.values()):
        with suppress(CorruptIndexError):
            there[entry.column, entry.kind] = None if entry.is_empty else bytes(index.payload(entry))
    return there


@dataclass(frozen=True, slots=True)
class AuditTask:
    """An index to be proved, by at most ``sample`` of its values."""

    place: Place
    file: IndexedFile
    sample: int | None


@dataclass(frozen=True, slots=True)
class AuditedFile:
    """What came of it; ``verification`` is None where the container cannot be read."""

    number: int
    verification: Verification | None
    problem: str | None = None


def audit_file(task: AuditTask) -> AuditedFile:
    """Proves the index of one data file against its rows."""
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
    """The indexes that a file gets, by the names and types that its columns had when it was written.

    Columns are the same if their ids are. What the file does not have, or what had a type then that the index
    does not take, gets none.
    """
    indexes = []
    for index in options.indexes:
        name, key = split_map_key(index.column)
        column = file_schema.by_id.get(schema.by_name[name].id)
        if column is None or (written is not None and column.name not in written):
            continue
        there = column.name if key is None else f"{column.name}[{key}]"
        try:
            data_type = indexed_type(there, {column.name: column.type})
        except PaimonIndexError:
            continue
        if index.kind.takes(data_type):
            indexes.append(replace(index, column=there, data_type=data_type))
    return replace(options, indexes=tuple(indexes))
