"""Field ids in Parquet footers, and the name mapping for files without them.

::

    "PAR1" ... FileMetaData, length of it (u32 little endian), "PAR1"
    FileMetaData   1: i32 version   2: list<SchemaElement> schema   ...
    SchemaElement  ...   4: string name   ...   9: i32 field_id   ...

The footer is in Thrift's compact protocol. The first element is the root, the second the first column.
Writers give ids to all columns or to none. Anything unexpected counts as no id, so the file is refused and
its bytes need no trust.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from app.errors import PaimonIndexError
from app.iceberg.schema import inner_fields
from app.planning import Version
from app.table import TableSchema
from app.types import DataField, Json

_TAIL: Final = struct.Struct("<I4s")
_MAGIC: Final = b"PAR1"
# Bytes read of a footer: root and first column take some tens of them.
_HEAD_BYTES: Final = 4_096

_SCHEMA, _FIELD_ID = 2, 9
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)


@dataclass(slots=True)
class NameMapping:
    """Fields of a table or struct, or parts of a list or map, by id. Names are newest first."""

    ids: dict[str, int] = field(default_factory=dict)
    names: dict[int, list[str]] = field(default_factory=dict)
    inner: dict[int, NameMapping] = field(default_factory=dict)

    @classmethod
    def of(cls, schemas: Iterable[TableSchema]) -> Self:
        """Map a table with these schemas, newest first."""
        mapping = cls()
        for schema in schemas:
            mapping.add((*schema.system_columns, *schema.fields))
        return mapping

    def add(self, fields: Iterable[DataField]) -> None:
        """Add fields of an older schema. Other columns may have their names now."""
        for column in fields:
            names = self.names.setdefault(column.id, [])
            # A name belongs to the column that had it last; a file whose schema gave it to another column
            # needs ids.
            if self.ids.setdefault(column.name, column.id) == column.id and column.name not in names:
                names.append(column.name)
            self.inner.setdefault(column.id, NameMapping()).add(inner_fields(column))

    def fits(self, fields: Iterable[DataField]) -> bool:
        """Return True if every name maps to the field that has it here."""
        return all(
            self.ids.get(column.name) == column.id and self.inner[column.id].fits(inner_fields(column))
            for column in fields
        )

    def json(self) -> list[Json]:
        """Format the mapping as Iceberg does."""
        # Clients find columns of files without ids through `schema.name-mapping.default`, and PyIceberg fails
        # on a column that it lacks. The engine writes ids from release 1.0 on, pypaimon does not.
        return [
            {"field-id": number, "names": names, **({"fields": inner} if inner else {})}
            for number, names in self.names.items()
            for inner in [self.inner[number].json()]
        ]


def have_field_ids(version: Version, files: Sequence[tuple[str, int]]) -> list[bool]:
    """Return True for each file, given by URI and size, that has field ids.

    Raises PaimonIndexError if a file cannot be read.
    """
    if not files:
        return []
    root = version.source.warehouse.public_url
    paths, sizes = [path.removeprefix(root) for path, _ in files], [size for _, size in files]
    tails = _read(
        version, [(path, size - _TAIL.size, _TAIL.size) for path, size in zip(paths, sizes, strict=True)]
    )
    heads = []
    for path, size, tail in zip(paths, sizes, tails, strict=True):
        length, magic = _TAIL.unpack(tail) if len(tail) == _TAIL.size else (0, b"")
        start = size - _TAIL.size - length
        heads.append(
            (path, start, min(length, _HEAD_BYTES)) if magic == _MAGIC and start > 0 else (path, 0, 0)
        )
    return [has_ids(head) for head in _read(version, heads)]


def _read(version: Version, ranges: Sequence[tuple[str, int, int]]) -> Iterator[bytes]:
    for content in version.source.warehouse.read_ranges(ranges, immutable=True):
        if isinstance(content, PaimonIndexError):
            raise content
        yield content


def has_ids(metadata: bytes) -> bool:
    """Return True if the first column has an id, from the beginning of a FileMetaData."""
    try:
        reader = _Compact(metadata)
        for number, kind in reader.fields():
            if number == _SCHEMA and kind == _LIST:
                count, element = reader.list_head()
                if count < 2 or element != _STRUCT:  # noqa: PLR2004 - the root and a column
                    return False
                reader.skip(_STRUCT)
                return any(number == _FIELD_ID for number, _ in reader.fields(skip=True))
            reader.skip(kind)
    except (IndexError, RecursionError):
        pass
    return False


class _Compact:
    """Cursor over values of Thrift's compact protocol. IndexError where the bytes end."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def fields(self, *, skip: bool = False) -> Iterator[tuple[int, int]]:
        """Yield number and kind of each field of a struct. The caller reads the values unless ``skip``."""
        number = 0
        while (head := self._byte()) != _STOP:
            delta, kind = head >> 4, head & 0xF
            number = number + delta if delta else self._varint() >> 1
            yield number, kind
            if skip:
                self.skip(kind)

    def list_head(self) -> tuple[int, int]:
        head = self._byte()
        count = head >> 4
        return (self._varint() if count == 0xF else count), head & 0xF  # noqa: PLR2004 - a longer list

    def skip(self, kind: int) -> None:
        if kind == _BYTE:
            self._byte()
        elif kind in (_I16, _I32, _I64):
            self._varint()
        elif kind == _DOUBLE:
            self._at += 8
        elif kind == _BINARY:
            length = self._varint()
            self._at += length
        elif kind in (_LIST, _SET):
            count, element = self.list_head()
            for _ in range(count):
                self.skip(_BYTE if element in (_TRUE, _FALSE) else element)
        elif kind == _STRUCT:
            for _ in self.fields(skip=True):
                pass
        elif kind not in (_TRUE, _FALSE):
            raise IndexError(kind)

    def _byte(self) -> int:
        byte = self._content[self._at]
        self._at += 1
        return byte

    def _varint(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return value
            shift += 7
