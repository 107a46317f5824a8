"""What containers say, in whatever order their writers put columns, kinds and bitmaps."""

from collections.abc import Callable, Iterable

from app.file_index.index_kinds import BITMAP, open_payload
from app.file_index.stacked_index import FileIndex
from app.file_index.table_options import indexed_type
from app.types import DataField, DataType


def meaning(kind: str, payload: bytes, data_type: DataType) -> object:
    """Return the payload itself; of a bitmap its size, head, and the rows of each key."""
    if kind != BITMAP:
        return payload
    index = open_payload(BITMAP, payload, data_type).of_file(0)
    rows = {key: index.rows_with([key]) for key, _ in index.key_counts(None)}
    assert len(rows) == index.cardinality
    return len(payload), index.version, index.row_count, index.null_rows(), rows


def types_of(fields: Iterable[DataField]) -> Callable[[str], DataType]:
    """Return the types of the columns, and keys of maps, that a container of a table names."""
    types = {field.name: field.type for field in fields}
    return lambda column: indexed_type(column, types)


def meanings(content: bytes, type_of: Callable[[str], DataType]) -> dict[tuple[str, str], object]:
    """Return what each index says, by column and kind; None for an empty entry."""
    index = FileIndex.read(content)
    return {
        (entry.column, entry.kind): None
        if entry.is_empty
        else meaning(entry.kind, bytes(index.payload(entry)), type_of(entry.column))
        for listed in index.entries.values()
        for entry in listed
    }
