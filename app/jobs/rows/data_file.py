"""One new data file: a Parquet file with its statistics and its file index.

Its Arrow schema is that of the engine's Parquet files:

=========================================  ===============================================================
column                                     field id
=========================================  ===============================================================
system columns                             :attr:`app.table.schema.schema.TableSchema.system_columns`
every column of the table                  the column's
element of an array at depth d             536870911 + 1024 * the column's + d
key of a map at depth d                    536870911 - 1024 * the column's - d
value of a map at depth d                  536870911 + 1024 * the column's + d
field of a row                             its own
=========================================  ===============================================================
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
from pyarrow import parquet as pq

from app.building import BuiltIndex, build, values_under
from app.errors import CorruptIndexError, IndexWriteError
from app.file_index import FileIndexOptions
from app.jobs.rows.statistics import ColumnStatistics, collectors, row_statistics
from app.jobs.rows.target import Target
from app.options import DataFileOptions, split_map_key
from app.storage import Writing
from app.table import TableSchema
from app.table.manifests import FILE_INDEX_SUFFIX, DataFileMeta, FileSource, RowStatistics
from app.types import BINARY_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataField, DataType, TypeRoot
from app.types.arrow_fields import field_values
from app.types.binary_row import serialize_row

_FIELD_ID: Final = b"PARQUET:field_id"
_NESTED_ID: Final = 0x1FFFFFFF
_DEPTHS: Final = 1024
_SIMPLE: Final = {
    TypeRoot.BOOLEAN: pa.bool_(),
    TypeRoot.TINYINT: pa.int8(),
    TypeRoot.SMALLINT: pa.int16(),
    TypeRoot.INT: pa.int32(),
    TypeRoot.BIGINT: pa.int64(),
    TypeRoot.FLOAT: pa.float32(),
    TypeRoot.DOUBLE: pa.float64(),
    TypeRoot.DATE: pa.date32(),
    **dict.fromkeys(STRING_ROOTS, pa.string()),
    **dict.fromkeys(BINARY_ROOTS, pa.binary()),
}

_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - the engine stores local time, as it reads it back
_MILLISECOND: Final = dt.timedelta(milliseconds=1)
# Bytes of Arrow memory that are buffered for a row group.
_ROW_GROUP_BYTES: Final = 64 << 20
_LEVEL: Final = 0
_RETRACTIONS: Final = (1, 3)
"""Numbers of -U and -D."""
_NO_STATISTICS: Final = RowStatistics(b"", b"", ())


def file_schema(schema: TableSchema) -> pa.Schema:
    """Return the Arrow schema of new data files."""
    columns = (*schema.system_columns, *schema.fields)
    return pa.schema([_field(column.name, column.type, column.id) for column in columns])


def arrow_type(data_type: DataType, field_id: int, depth: int = 1) -> pa.DataType:
    """Return the Arrow type of a column or of a part of it. ``depth`` is that of the next nested part."""
    root = data_type.root
    nested_id = field_id * _DEPTHS + depth
    match root:
        case TypeRoot.DECIMAL:
            return pa.decimal128(data_type.precision, data_type.scale)
        case TypeRoot.ARRAY:
            (element,) = data_type.children
            inner = arrow_type(element, field_id, depth + 1)
            return pa.list_(_with_id("element", inner, _NESTED_ID + nested_id, nullable=element.nullable))
        case TypeRoot.MAP:
            key, value = data_type.children
            return pa.map_(
                _with_id("key", arrow_type(key, field_id, depth + 1), _NESTED_ID - nested_id),
                _with_id(
                    "value",
                    arrow_type(value, field_id, depth + 1),
                    _NESTED_ID + nested_id,
                    nullable=value.nullable,
                ),
            )
        case TypeRoot.ROW:
            return pa.struct([_field(field.name, field.type, field.id) for field in data_type.fields])
        case _ if root in TIMESTAMP_ROOTS:
            zone = "UTC" if root is TypeRoot.TIMESTAMP_LTZ else None
            return pa.timestamp("ms" if data_type.is_compact_timestamp else "us", zone)
        case _:
            return _SIMPLE[root]


def _field(name: str, data_type: DataType, field_id: int) -> pa.Field:
    return _with_id(name, arrow_type(data_type, field_id), field_id, nullable=data_type.nullable)


def _with_id(name: str, data_type: pa.DataType, field_id: int, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, data_type, nullable=nullable, metadata={_FIELD_ID: str(field_id).encode()})


@dataclass(frozen=True, slots=True)
class Layout:
    """Common parts of all new files of a table. Append tables have no keys."""

    target: Target
    schema: pa.Schema
    options: DataFileOptions
    indexes: FileIndexOptions
    columns: tuple[DataField, ...]
    keys: tuple[DataField, ...]

    @classmethod
    def of(cls, target: Target) -> Layout:
        """Return the layout for a table."""
        schema = target.schema
        keys = schema.trimmed_primary_keys if schema.primary_keys else ()
        return cls(
            target,
            file_schema(schema),
            target.file_options,
            target.index_options,
            schema.fields,
            keys,
        )


@dataclass(slots=True)
class DataFileWriter:
    """Writes a data file, which exists once :meth:`close` has returned."""

    layout: Layout
    path: str
    first_sequence: int
    row_count: int = 0
    deletions: int = 0
    _sink: pa.BufferOutputStream = field(default_factory=pa.BufferOutputStream)
    _writer: pq.ParquetWriter | None = None
    _buffered: list[pa.Table] = field(default_factory=list)
    _buffered_bytes: int = 0
    _indexed: dict[str, list[pa.Array]] = field(default_factory=dict)
    _statistics: list[ColumnStatistics] = field(default_factory=list)
    _key_statistics: list[ColumnStatistics] = field(default_factory=list)
    _min_key: bytes = b""
    _max_key: bytes = b""

    def __post_init__(self) -> None:
        options = self.layout.options
        self._statistics = collectors(self.layout.columns, options)
        mode = options.statistics
        self._key_statistics = [ColumnStatistics(column, mode) for column in self.layout.keys if mode.nulls]
        self._writer = pq.ParquetWriter(
            self._sink,
            self.layout.schema,
            compression=options.compression,
            compression_level=options.compression_level if options.compression == "zstd" else None,
            store_decimal_as_integer=True,
            store_schema=False,
            write_page_index=True,
        )

    @property
    def is_full(self) -> bool:
        """True once the file has reached the table's target size."""
        return int(self._sink.tell()) >= self.layout.options.target_bytes

    def write(self, values: Sequence[pa.Array], kinds: pa.Array | None) -> None:
        """Write rows.

        ``values``: arrays of the columns of the table, sorted by the key if there is one. ``kinds``: the
        engine's number of each row's kind. None for additions.
        """
        schema, count, keys = self.layout.schema, len(values[0]), self.layout.keys
        by_name = {column.name: array for column, array in zip(self.layout.columns, values, strict=True)}
        arrays = list(values)
        if keys:
            first = self.first_sequence + self.row_count
            kinds = pa.repeat(pa.scalar(0, pa.int8()), count) if kinds is None else kinds
            self.deletions += int(np.isin(np.asarray(kinds), _RETRACTIONS).sum())
            system = [pa.array(np.arange(first, first + count, dtype=np.int64)), kinds]
            arrays = [*(by_name[key.name] for key in keys), *system, *values]
            self._note_keys([by_name[key.name] for key in keys])
        columns = [array.cast(field.type) for array, field in zip(arrays, schema, strict=True)]
        table = pa.Table.from_arrays(columns, schema=schema)
        stored = dict(zip(by_name, columns[len(schema) - len(values) :], strict=True))
        for statistics in self._statistics:
            statistics.add(stored[statistics.column.name])
        for statistics in self._key_statistics:
            statistics.add(stored[statistics.column.name])
        self._note_indexed(stored)
        self.row_count += count
        self._buffered.append(table)
        self._buffered_bytes += table.nbytes
        # A batch of Spark's is far smaller than a good row group.
        if self._buffered_bytes >= min(_ROW_GROUP_BYTES, self.layout.options.target_bytes):
            self._flush()

    def close(self) -> tuple[DataFileMeta, list[str]]:
        """Store the file. Return its metadata and the paths of the files that were written."""
        self._flush()
        if self._writer is not None:
            self._writer.close()
        content = self._sink.getvalue().to_pybytes()
        written = [self.path]
        self._create(self.path, content)
        embedded: bytes | None = None
        extra_files: tuple[str, ...] = ()
        if self.layout.indexes.indexes:
            index = self._index()
            if index.in_manifest:
                embedded = index.content
            else:
                written.append(f"{self.path}{FILE_INDEX_SUFFIX}")
                self._create(written[-1], index.content)
                extra_files = (written[-1].rpartition("/")[2],)
        return self._meta(len(content), embedded, extra_files), written

    def _meta(self, size: int, embedded: bytes | None, extra_files: tuple[str, ...]) -> DataFileMeta:
        layout, no_key = self.layout, serialize_row((), ())
        counted = [statistics.column for statistics in self._statistics]
        names = tuple(column.name for column in counted)
        is_dense = layout.options.dense and len(counted) < len(layout.columns)
        return DataFileMeta(
            file_name=self.path.rpartition("/")[2],
            file_size=size,
            row_count=self.row_count,
            min_key=self._min_key or no_key,
            max_key=self._max_key or no_key,
            key_statistics=row_statistics(self._key_statistics, layout.keys)
            if layout.keys
            else _NO_STATISTICS,
            value_statistics=row_statistics(self._statistics, counted if is_dense else layout.columns),
            min_sequence_number=self.first_sequence,
            max_sequence_number=self.first_sequence + self.row_count - 1,
            schema_id=layout.target.schema.id,
            level=_LEVEL,
            extra_files=extra_files,
            creation_time_millis=(dt.datetime.now() - _EPOCH) // _MILLISECOND,  # noqa: DTZ005 - local time
            delete_row_count=self.deletions,
            embedded_index=embedded,
            file_source=FileSource.APPEND,
            value_statistics_columns=names if is_dense else None,
        )

    def _flush(self) -> None:
        if self._buffered and self._writer is not None:
            rows = pa.concat_tables(self._buffered)
            self._writer.write_table(rows, row_group_size=len(rows))
            self._buffered, self._buffered_bytes = [], 0

    def _note_keys(self, arrays: Sequence[pa.Array]) -> None:
        types = [key.type for key in self.layout.keys]
        for at in (0, -1):
            values = [
                field_values(array[at:] if at else array[:1], data_type).tolist()[0]
                for array, data_type in zip(arrays, types, strict=True)
            ]
            if at:
                self._max_key = serialize_row(values, types)
            elif not self._min_key:
                self._min_key = serialize_row(values, types)

    def _note_indexed(self, stored: dict[str, pa.Array]) -> None:
        for name in {index.column for index in self.layout.indexes.indexes}:
            column, key = split_map_key(name)
            values = stored[column]
            if key is not None:
                values = values_under(values, key, column=column, first_row=self.row_count)
            self._indexed.setdefault(name, []).append(values)

    def _index(self) -> BuiltIndex:
        try:
            return build(
                {name: pa.chunked_array(parts) for name, parts in self._indexed.items()}, self.layout.indexes
            )
        except IndexWriteError as error:
            raise IndexWriteError(f"{self.path}: {error}", column=error.column, row=error.row) from error

    def _create(self, path: str, content: bytes) -> None:
        if not Writing(self.layout.target.place.open()).create(path, content):
            raise CorruptIndexError("another file has the name of a new one", path=path)
