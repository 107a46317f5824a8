"""Records of ORC and Parquet files, which tables write under ``manifest.format`` ``orc`` and ``parquet``.

``_CREATION_TIME`` of ORC is omitted: reading a timestamp opens a file for the time zone that the writer
names, and nothing needs it.

A union with null in Avro is an optional column here. ORC has only optional columns, so required ones are
checked for nulls. Integers may be narrower than expected (``_KIND`` and ``_FILE_SOURCE`` have 8 bits), and
creation times are timestamps, which become milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.errors import CorruptMetadataError, PaimonIndexError
from app.table.columnar.decoder import DECODER, PROCESS_BYTES
from app.table.records.columns import ArrayOf, Expected, Nullable, RecordColumns, RecordOf, memory_of
from app.table.records.expansion import check_columns, claim, columns_bytes
from app.types.roaring import Buffer

# Formats by their magic bytes.
KINDS: Final[Mapping[bytes, str]] = {b"ORC": "ORC", b"PAR1": "Parquet"}

_LEFT_OUT: Final = ("ORC", "_FILE._CREATION_TIME")
# Enough for nearly every file: one ORC record takes 32 MiB to read.
_USUAL_BYTES: Final = 64 << 20
_USUAL_EXPANSION: Final = 16
# Large files are mostly indexes, which hardly shrink: those of 7 KB take 9 times the file.
_LARGE_BYTES: Final = 256 << 20
_LARGE_EXPANSION: Final = 10

_Mask: TypeAlias = NDArray[np.bool_]

_INTEGERS: Final = {
    "int": frozenset({pa.int8(), pa.int16(), pa.int32()}),
    "long": frozenset({pa.int8(), pa.int16(), pa.int32(), pa.int64()}),
}
_MILLIS: Final = pa.timestamp("ms")
_STRINGS: Final = {"string": pa.string(), "bytes": pa.binary()}


def read_columnar(kind: str, data: Buffer, expected: RecordOf) -> RecordColumns:
    """Read all records of a file, column by column."""
    columns = [path for path in column_paths(expected) if (kind, path) != _LEFT_OUT]
    stream = _decode(kind, data, columns)
    with decoding(kind):
        table = pa.ipc.open_stream(stream).read_all()
        # Every record names a file of its own, which no codec can shrink below a byte.
        if table.num_rows > len(data):
            raise CorruptMetadataError(f"a file of {len(data)} bytes claims {table.num_rows} records")
        pieces = table.to_struct_array().chunks or [pa.array([], pa.struct(table.schema))]
        fitted = [fit_records(piece, expected) for piece in pieces]
        check_columns(sum(map(memory_of, fitted)), len(data))
        # Copied, since one column would keep the memory of the whole stream.
        return RecordColumns([pa.concat_arrays([fitted[0].slice(0, 0), *fitted])])


def _decode(kind: str, data: Buffer, columns: Sequence[str]) -> bytes:
    most = columns_bytes(len(data))
    large = max(_LARGE_BYTES, _LARGE_EXPANSION * len(data))
    usual = min(max(_USUAL_BYTES, _USUAL_EXPANSION * len(data)), large, most)
    with DECODER.turn() as turn:
        # Claimed inside the turn: callers that wait for a decoder hold nothing but their file.
        overhead = len(data) + PROCESS_BYTES
        claim(overhead + usual)
        answer = turn.decode(kind, data, columns, usual)
        if answer.may_be_short and usual < most:
            # Libraries report a lack of memory in as many ways as damage.
            claim(overhead + most)
            answer = turn.decode(kind, data, columns, most)
    if answer.fault:
        raise CorruptMetadataError(
            f"the {kind} file cannot be decoded: {answer.fault}; if the engine reads the table, report this "
            "file, else roll the table back to a snapshot before it"
        )
    return answer.stream


def column_paths(expected: RecordOf, parent: str = "") -> Iterator[str]:
    """Yield dotted names of the columns of a record, nested records expanded."""
    for name, inner in expected.fields.items():
        if isinstance(inner, RecordOf):
            yield from column_paths(inner, f"{parent}{name}.")
        else:
            yield parent + name


@contextmanager
def decoding(kind: str) -> Iterator[None]:
    """Turn any exception of a library into CorruptMetadataError."""
    try:
        yield
    except PaimonIndexError:
        raise
    except Exception as error:
        raise CorruptMetadataError(f"the {kind} file cannot be decoded: {error}") from error


def fit_records(records: pa.StructArray, expected: RecordOf) -> pa.StructArray:
    """Convert decoded records to the expected columns, as Avro would deliver them."""
    try:
        records.validate(full=True)
    except pa.ArrowInvalid as error:
        raise CorruptMetadataError(f"the columns are inconsistent: {error}") from error
    return _fit_record(records, expected, "record", present=None)


def _fit_record(
    records: pa.StructArray, expected: RecordOf, path: str, present: _Mask | None
) -> pa.StructArray:
    names, columns = [], []
    for name, inner in expected.fields.items():
        at = records.type.get_field_index(name)
        if at >= 0:
            names.append(name)
            columns.append(_fit(records.field(at), inner, f"{path}.{name}", present))
        elif not isinstance(inner, Nullable):
            raise CorruptMetadataError(f"expected a field {path}.{name}, found none")
    mask = records.is_null() if records.null_count else None
    return pa.StructArray.from_arrays(columns, names, mask=mask)


def _fit(column: pa.Array, expected: Expected, path: str, present: _Mask | None) -> pa.Array:
    """Convert a column. ``present`` masks rows whose enclosing record is not null, None for all."""
    valid = np.asarray(column.is_valid()) if column.null_count else None
    if isinstance(expected, Nullable):
        return _fit_values(column, expected.inner, path, valid)
    fitted = _fit_values(column, expected, path, valid)
    if valid is not None and (present is None or not valid[present].all()):
        raise CorruptMetadataError(f"expected no {path} to be null, found {column.null_count} that are")
    return fitted


def _fit_values(column: pa.Array, expected: Expected, path: str, present: _Mask | None) -> pa.Array:
    kind = column.type
    match expected:
        case "long" if pa.types.is_timestamp(kind):
            return column.cast(_MILLIS, safe=False).view(pa.int64())
        case "int" | "long" if kind in _INTEGERS[expected]:
            return column
        case "string" | "bytes" if kind == _STRINGS[expected]:
            return column
        case RecordOf() if pa.types.is_struct(kind):
            return _fit_record(column, expected, path, present)
        case ArrayOf(items) if pa.types.is_list(kind):
            # Unchanged: only types and nulls of its items are checked.
            _fit(column.values, items, f"{path}[]", None)
            return column
        case _:
            raise CorruptMetadataError(f"expected {path} to be {expected}, found {kind}")
