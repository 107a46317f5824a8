"""Writing the index of a column."""

from __future__ import annotations

import struct

from app.errors import IndexWriteError
from app.file_index.container import MAX_BYTES
from app.file_index.index_kinds import KINDS, IndexKind
from app.file_index.keys.key_column import KeyColumn


def write_index(kind: IndexKind, column: KeyColumn, options: object) -> bytes:
    """The payload of an index, byte for byte as the engine writes it.

    Args:
        kind: the kind of index.
        column: what it is made of.
        options: of this kind.

    Raises:
        IndexWriteError: the kind takes no column of this type, or cannot hold one of its values, or all of
            them.
        TypeError: the options are of another kind.
    """
    if not kind.takes(column.data_type):
        others = [other for other in KINDS.values() if other.takes(column.data_type)]
        advice = f"use {' or '.join(others)}" if others else "no index takes it"
        raise IndexWriteError(f"{kind} does not take type {column.data_type}: {advice}", column=column.name)
    if not isinstance(options, kind.options_class):
        raise TypeError(f"expected options of {kind}, found {options!r}")
    try:
        payload = kind.write(column, options)
    except struct.error as error:
        # No place within it can be named in 4 bytes; some forms notice that while they are written.
        raise _too_long(kind, column) from error
    if len(payload) > MAX_BYTES:
        raise _too_long(kind, column)
    return payload


def _too_long(kind: IndexKind, column: KeyColumn) -> IndexWriteError:
    return IndexWriteError(f"its {kind} index is longer than {MAX_BYTES} bytes", column=column.name)
