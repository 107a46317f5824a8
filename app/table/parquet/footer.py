"""The footer of a Parquet file: its columns, and where they lie.

========== =========== =====================================================================
offset     type        value
========== =========== =====================================================================
0          4 bytes     ``PAR1``
..         row groups  a series of pages per column (:mod:`app.table.parquet.pages`)
..         footer      a struct (:mod:`app.table.parquet.thrift`), see below
-8         u32 LE      length of the footer
-4         4 bytes     ``PAR1``
========== =========== =====================================================================

=================  =========================================================================
struct             fields
=================  =========================================================================
footer             2 schema, a list: each group before what is in it; 4 row groups
element of schema  1 type, of columns alone; 4 name, 5 number of elements in it
row group          1 columns, 3 number of rows
column             3 what follows; that of an encrypted one is elsewhere
..                 1 type, 4 codec, 5 number of values, 7 bytes, 9 offset of the first data page,
                   11 of the dictionary
=================  =========================================================================

This is read apart from the library, which ends the process when something in the description of a column
is not as it expects.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from app.errors import CorruptMetadataError
from app.table.parquet.thrift import read_struct
from app.table.records.cursor import VarintCursor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.table.parquet.thrift import Struct
    from app.types.roaring import Buffer

MAGIC: Final = b"PAR1"

_TAIL: Final = struct.Struct("<I4s")
_ALWAYS_ALLOWED_BYTES: Final = 1 << 20
_SHARE: Final = 16
"""A footer has at most such a part of a large file."""


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """A column of one row group.

    Attributes:
        path: names, with dots between.
        physical_type: Parquet's number.
        codec: Parquet's number.
        values: number of values, nulls included.
        start: of its first page.
        end: of its last page.
    """

    path: str
    physical_type: int
    codec: int
    values: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Some rows: their number, and the columns in the order of the schema."""

    rows: int
    columns: tuple[ColumnChunk, ...]


@dataclass(frozen=True, slots=True)
class ParquetFooter:
    """What the footer says.

    Attributes:
        nbytes: its length.
        row_groups: in their order.
    """

    nbytes: int
    row_groups: tuple[RowGroup, ...]

    @classmethod
    def read(cls, data: Buffer) -> Self:
        """Reads the footer of a whole file.

        Raises:
            CorruptMetadataError: it is none, or larger than any of a file of this size.
        """
        size = len(data)
        if size < len(MAGIC) + _TAIL.size:
            raise CorruptMetadataError(f"expected a Parquet file, found {size} bytes")
        length, magic = _TAIL.unpack_from(data, size - _TAIL.size)
        if magic != MAGIC:
            raise CorruptMetadataError(
                f"expected a Parquet file to end with {MAGIC!r}, found {magic!r}", offset=size - len(MAGIC)
            )
        end = size - _TAIL.size
        if length > min(end - len(MAGIC), max(_ALWAYS_ALLOWED_BYTES, size // _SHARE)):
            raise CorruptMetadataError(f"a Parquet footer of {length} bytes", offset=end)
        cursor = VarintCursor(memoryview(data)[:end])
        cursor.at = end - length
        footer = read_struct(cursor)
        paths = _column_paths(footer.structs(2))
        return cls(length, tuple(_row_group(each, paths, size) for each in footer.structs(4)))


def _row_group(found: Struct, paths: Sequence[str], size: int) -> RowGroup:
    columns = found.structs(1)
    if len(columns) != len(paths):
        raise CorruptMetadataError(
            f"expected {len(paths)} columns in a row group, found {len(columns)}", offset=found.offset
        )
    chunks = (_chunk(each.struct(3), path, size) for each, path in zip(columns, paths, strict=True))
    return RowGroup(found.long(3), tuple(chunks))


def _chunk(found: Struct, path: str, size: int) -> ColumnChunk:
    start, dictionary = found.long(9), found.long_or_zero(11)
    if 0 < dictionary < start:
        start = dictionary
    end = start + found.long(7)
    if end > size:
        raise CorruptMetadataError(
            f"expected column {path} within the file, found bytes {start} to {end}", offset=found.offset
        )
    return ColumnChunk(path, found.integer(1), found.integer(4), found.long(5), start, end)


def _column_paths(elements: Sequence[Struct]) -> list[str]:
    """Names of the columns, with dots between those of the groups that they are in, without the outermost."""
    paths: list[str] = []
    groups: list[tuple[str, int]] = []
    for at, element in enumerate(elements):
        name = element.text(4)
        path = ".".join([*(group for group, _ in groups[1:]), name])
        if groups:
            groups[-1] = groups[-1][0], groups[-1][1] - 1
        elif at:
            raise CorruptMetadataError(
                "an element of the schema outside of all groups", offset=element.offset
            )
        if not element.has(1):
            groups.append((name, element.integer(5)))
        elif element.has(5) and element.integer(5):
            raise CorruptMetadataError("a column of the schema that is a group", offset=element.offset)
        else:
            paths.append(path)
        while groups and not groups[-1][1]:
            groups.pop()
    if groups:
        raise CorruptMetadataError("a schema that ends within a group")
    return paths
