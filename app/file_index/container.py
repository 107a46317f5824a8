"""The file index container: the indexes of the columns of one data file.

All integers are big endian.

======  ======  ==================================================================================
offset  type    meaning
======  ======  ==================================================================================
0       i64     magic, 1493475289347502
8       i32     version, 1
12      i32     head length H, counted from offset 0
16      i32     number of columns
20              for each column: name, i32 number of indexes; for each of these: kind (a name),
                i32 start, i32 length
        i32     length of additions of later versions, then these bytes
H               payloads, back to back
======  ======  ==================================================================================

Names are Java's *modified UTF-8*: a u16 counts the bytes, U+0000 is ``C0 80``, code points above U+FFFF are
two surrogates of three bytes each, and nothing takes four bytes. ``start`` counts from offset 0. An index on
a map key belongs to a column called ``map[key]``. A start of -1 with length 0 is an *empty entry*: no row of
the file has a value of this map key. The specification does not mention empty entries.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Self

from app.errors import CorruptIndexError, IndexWriteError
from app.file_index.index_kinds import KINDS, IndexKind
from app.file_index.keys.key_column import KeyColumn
from app.file_index.payloads import Cursor

MAX_NAME_BYTES = 65535

_LENGTH = struct.Struct(">H")
_NUL = b"\xc0\x80"

MAGIC: Final = 1493475289347502
_MAGIC_BYTES: Final = MAGIC.to_bytes(8)
VERSION: Final = 1
_DATA_FILES: Final = {b"PAR1": "a Parquet file", b"ORC": "an ORC file", b"Obj\x01": "an Avro file"}
"""Magic of data files, which callers may pass instead of index files by mistake."""
EMPTY_START: Final = -1
MAX_BYTES: Final = (1 << 31) - 1
"""Largest container, and so the largest payload: offsets are signed integers of 4 bytes."""

_HEAD = struct.Struct(">qiii")
FIXED_HEAD_BYTES: Final = _HEAD.size
EXTENT: Final = struct.Struct(">ii")
"""Start and length of a payload."""

_COUNT = struct.Struct(">i")
_NAME_LENGTH_BYTES = 2


def read_name(cursor: Cursor, label: str) -> str:
    """Read a name. Raises CorruptIndexError if it is not modified UTF-8, or has half a surrogate pair."""
    start = cursor.position
    stored = bytes(cursor.take(cursor.u16(f"length of the {label}"), label))
    try:
        return decode(stored)
    except UnicodeError as error:
        raise CorruptIndexError(
            f"expected modified UTF-8 as the {label}, found {stored!r:.100}", offset=start
        ) from error


def write_name(name: str) -> bytes:
    """Encode a name, preceded by its length. Raises ValueError if it takes more than 65535 bytes."""
    stored = encode(name)
    if len(stored) > MAX_NAME_BYTES:
        raise ValueError(f"a name takes at most {MAX_NAME_BYTES} bytes, not {len(stored)}")
    return _LENGTH.pack(len(stored)) + stored


def decode(stored: bytes) -> str:
    """Decode modified UTF-8. Raises UnicodeDecodeError for bytes that are anything else."""
    if b"\0" in stored:
        raise UnicodeDecodeError(
            "modified-utf-8", stored, stored.index(b"\0"), stored.index(b"\0") + 1, "plain NUL"
        )
    # surrogatepass decodes each surrogate as a code point of its own. UTF-16 then joins the pairs.
    # A byte C0 occurs in no UTF-8, so the replacement touches nothing else.
    text = stored.replace(_NUL, b"\0").decode("utf-8", "surrogatepass")
    if any(char > "\uffff" for char in text):
        raise UnicodeDecodeError("modified-utf-8", stored, 0, len(stored), "a sequence of four bytes")
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be")


def encode(text: str) -> bytes:
    """Encode a text as modified UTF-8. Raises UnicodeEncodeError for half a surrogate pair."""
    units = text.encode("utf-16-be")
    split = "".join(chr(high << 8 | low) for high, low in zip(units[::2], units[1::2], strict=True))
    return split.encode("utf-8", "surrogatepass").replace(b"\0", _NUL)


@dataclass(frozen=True, slots=True)
class ContainerEntry:
    """One index of one column.

    ``column``: the column, or ``map[key]``. ``kind``: name of the index's kind, possibly one that this
    release does not know. ``start``: offset of the payload in the file; -1 for an empty entry.
    """

    column: str
    kind: str
    start: int
    length: int

    @property
    def is_empty(self) -> bool:
        """True if the entry records that no row has a value."""
        return self.start == EMPTY_START and self.length == 0

    @property
    def end(self) -> int:
        """Offset just after the payload."""
        return self.start + self.length

    def lies_within(self, size: int) -> bool:
        """Return True if a file of ``size`` bytes can hold the payload after the fixed part of its head."""
        return self.start >= FIXED_HEAD_BYTES and self.length >= 0 and self.end <= size


@dataclass(frozen=True, slots=True)
class HeadLayout:
    """A container head without the places of its payloads. Most files of a table share one."""

    length: int
    # Each column's name, and for each of its indexes the kind and the offset of the field ``start``.
    columns: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]

    @classmethod
    def read(cls, buffer: memoryview) -> Self:
        """Read the head at the front of ``buffer``.

        Raises CorruptIndexError if the bytes are not a container of version 1, or end within the head.
        """
        cursor = Cursor(buffer)
        magic = cursor.i64("magic")
        if magic != MAGIC:
            start = bytes(buffer[: len(_MAGIC_BYTES)])
            contents = (name for mark, name in _DATA_FILES.items() if start.startswith(mark))
            content = next(contents, start.hex())
            raise CorruptIndexError(
                f"expected the magic of a file index, {_MAGIC_BYTES.hex()}, found {content}", offset=0
            )
        version = cursor.i32("version")
        if version != VERSION:
            raise CorruptIndexError(
                f"expected version {VERSION} of the file index, found {version}", offset=8
            )
        length = cursor.i32("head length")
        if not _HEAD.size <= length <= len(buffer):
            raise CorruptIndexError(
                f"expected a head length from {_HEAD.size} to {len(buffer)}, found {length}", offset=12
            )
        return cls(length, _read_columns(Cursor(buffer[:length], cursor.position)))

    def entries(self, buffer: memoryview) -> dict[str, tuple[ContainerEntry, ...]]:
        """Read the indexes of each column from a buffer whose head has this layout."""
        return {
            column: tuple(ContainerEntry(column, kind, *EXTENT.unpack_from(buffer, at)) for kind, at in kinds)
            for column, kinds in self.columns
        }


@contextmanager
def blame(entry: ContainerEntry) -> Iterator[None]:
    """Name the index in errors of the block, and convert their offsets to offsets in the file."""
    try:
        yield
    except CorruptIndexError as error:
        raise blamed(entry, error) from error


def blamed(entry: ContainerEntry, error: CorruptIndexError) -> CorruptIndexError:
    """Return the error as :func:`blame` raises it."""
    offset = None if error.offset is None else error.offset + max(0, entry.start)
    where = f"{entry.kind} index of column {entry.column!r}"
    return CorruptIndexError(f"{where}: {error.expectation}", offset=offset, path=error.path)


def _read_columns(cursor: Cursor) -> tuple[tuple[str, tuple[tuple[str, int], ...]], ...]:
    columns: dict[str, tuple[tuple[str, int], ...]] = {}
    for _ in range(cursor.count("number of columns", each_bytes=_NAME_LENGTH_BYTES + _COUNT.size)):
        start = cursor.position
        column = read_name(cursor, "name of a column")
        listed = tuple(
            _read_kind(cursor)
            for _ in range(cursor.count("number of indexes", each_bytes=_NAME_LENGTH_BYTES + EXTENT.size))
        )
        if column in columns or len({kind for kind, _ in listed}) < len(listed):
            raise CorruptIndexError(f"expected one index of each kind for column {column!r}", offset=start)
        columns[column] = listed
    return tuple(columns.items())


def _read_kind(cursor: Cursor) -> tuple[str, int]:
    kind, at = read_name(cursor, "kind of an index"), cursor.position
    cursor.take(EXTENT.size, "start and length of an index")
    return kind, at


def write(columns: Mapping[str, Sequence[tuple[str, bytes | None]]]) -> bytes:
    """Write a container.

    ``columns``: kind and payload of each index of each column. None as a payload writes an empty entry.
    Raises IndexWriteError if the payloads are longer than a container can be.
    """
    names = {name: write_name(name) for name in columns}
    kinds = {kind: write_name(kind) for listed in columns.values() for kind, _ in listed}
    head_length = (
        _HEAD.size
        + _COUNT.size
        + sum(
            len(names[name]) + _COUNT.size + sum(len(kinds[kind]) + EXTENT.size for kind, _ in listed)
            for name, listed in columns.items()
        )
    )
    head, payloads = [_HEAD.pack(MAGIC, VERSION, head_length, len(columns))], []
    start = head_length
    for name, listed in columns.items():
        head += [names[name], _COUNT.pack(len(listed))]
        for kind, payload in listed:
            head.append(kinds[kind])
            if payload is None:
                head.append(EXTENT.pack(EMPTY_START, 0))
                continue
            head.append(EXTENT.pack(start, len(payload)))
            payloads.append(payload)
            start += len(payload)
            if start > MAX_BYTES:
                raise IndexWriteError(
                    f"with its {kind} index the file is longer than {MAX_BYTES} bytes: index fewer columns",
                    column=name,
                )
    return b"".join([*head, _COUNT.pack(0), *payloads])


def write_index(kind: IndexKind, column: KeyColumn, options: object) -> bytes:
    """Write a payload equal to the engine's except for the order of bitmaps.

    Raises IndexWriteError if the kind cannot hold the column, or if the payload is too long.
    """
    if not kind.takes(column.data_type):
        suited = [candidate for candidate in KINDS.values() if candidate.takes(column.data_type)]
        advice = f"use {' or '.join(suited)}" if suited else "no index takes it"
        raise IndexWriteError(f"{kind} does not take type {column.data_type}: {advice}", column=column.name)
    if not isinstance(options, kind.options_class):
        raise TypeError(f"expected options of {kind}, found {options!r}")
    try:
        payload = kind.write(column, options)
    except struct.error as error:
        # Some kinds find out only while they write that an offset does not fit 4 bytes.
        raise _too_long(kind, column) from error
    if len(payload) > MAX_BYTES:
        raise _too_long(kind, column)
    return payload


def _too_long(kind: IndexKind, column: KeyColumn) -> IndexWriteError:
    return IndexWriteError(f"its {kind} index is longer than {MAX_BYTES} bytes", column=column.name)
