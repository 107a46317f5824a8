"""Records of ORC and Parquet files as pyarrow reads them, held against what a reader expects.

What is a union with null in Avro is an optional column here, and ORC has no other, so every null where none
may be is looked for. Integers may be narrower than expected (``_KIND`` and ``_FILE_SOURCE`` have 8 bits),
and times of files are timestamps, of which milliseconds are wanted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.errors import CorruptMetadataError, PaimonIndexError
from app.table.records.expected import ArrayOf, Expected, Nullable, RecordOf

Mask: TypeAlias = NDArray[np.bool_]

_INTEGERS: Final = {
    "int": frozenset({pa.int8(), pa.int16(), pa.int32()}),
    "long": frozenset({pa.int8(), pa.int16(), pa.int32(), pa.int64()}),
}
_MILLIS: Final = pa.timestamp("ms")
_STRINGS: Final = {"string": pa.string(), "bytes": pa.binary()}


def column_paths(expected: RecordOf, parent: str = "") -> Iterator[str]:
    """Names of the columns that a record consists of; dots stand before those of records inside of it."""
    for name, each in expected.fields.items():
        if isinstance(each, RecordOf):
            yield from column_paths(each, f"{parent}{name}.")
        else:
            yield parent + name


@contextmanager
def decoding(kind: str) -> Iterator[None]:
    """Has whatever a library raises be an error of ours.

    Raises:
        CorruptMetadataError: the library could not decode the file of this kind.
    """
    try:
        yield
    except PaimonIndexError:
        raise
    except Exception as error:
        raise CorruptMetadataError(f"the {kind} file cannot be decoded: {error}") from error


def fit_records(found: pa.StructArray, expected: RecordOf) -> pa.StructArray:
    """The expected columns of records that were read, as Avro would give them.

    Raises:
        CorruptMetadataError: a column is missing, has another type, or is null where it may not be; or a
            string is not UTF-8.
    """
    try:
        found.validate(full=True)
    except pa.ArrowInvalid as error:
        raise CorruptMetadataError(f"columns that contradict themselves: {error}") from error
    return _fit_record(found, expected, "record", there=None)


def _fit_record(found: pa.StructArray, expected: RecordOf, path: str, there: Mask | None) -> pa.StructArray:
    names, columns = [], []
    for name, each in expected.fields.items():
        at = found.type.get_field_index(name)
        if at >= 0:
            names.append(name)
            columns.append(_fit(found.field(at), each, f"{path}.{name}", there))
        elif not isinstance(each, Nullable):
            raise CorruptMetadataError(f"expected a field {path}.{name}, found none")
    mask = found.is_null() if found.null_count else None
    return pa.StructArray.from_arrays(columns, names, mask=mask)


def _fit(found: pa.Array, expected: Expected, path: str, there: Mask | None) -> pa.Array:
    """A column; ``there`` are the rows in which the record that it belongs to is not null, None for all."""
    valid = np.asarray(found.is_valid()) if found.null_count else None
    if isinstance(expected, Nullable):
        return _fit_values(found, expected.inner, path, valid)
    fitted = _fit_values(found, expected, path, valid)
    if valid is not None and (there is None or not valid[there].all()):
        raise CorruptMetadataError(f"expected no {path} to be null, found {found.null_count} that are")
    return fitted


def _fit_values(found: pa.Array, expected: Expected, path: str, there: Mask | None) -> pa.Array:
    kind = found.type
    match expected:
        case "long" if pa.types.is_timestamp(kind):
            return found.cast(_MILLIS, safe=False).view(pa.int64())
        case "int" | "long" if kind in _INTEGERS[expected]:
            return found
        case "string" | "bytes" if kind == _STRINGS[expected]:
            return found
        case RecordOf() if pa.types.is_struct(kind):
            return _fit_record(found, expected, path, there)
        case ArrayOf(items) if pa.types.is_list(kind):
            # As it is: only the types and nulls of its items are looked at.
            _fit(found.values, items, f"{path}[]", None)
            return found
        case _:
            raise CorruptMetadataError(f"expected {path} to be {expected}, found {kind}")
