"""Code for Spark's Python workers: rows of data files by their positions, with pyarrow alone.

These functions are pickled by value, so workers need neither this package nor a roaring library. The module
therefore imports from the package only modules that are pickled along with it. Files are plain tuples, since
Spark pickles broadcast values by reference.
"""

from __future__ import annotations

import os
import sys
from bisect import bisect_left
from typing import TYPE_CHECKING, Any, TypeAlias
from zipimport import zipimporter

import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import fs, orc
from pyarrow import parquet as pq

from paimon_index.spark.worker_avro import avro_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

_ROWS_OF_BATCH = 1 << 15

# Largest remote file to read with one request instead of one for the footer and others for columns.
_WHOLE_BYTES = 1 << 19

FileRows: TypeAlias = "tuple[str, str, bytes | None, bool]"
"""Literal URI; ``parquet``, ``orc`` or ``avro``; ascending positions as native signed 64-bit numbers, None
for every row; and True if the rows at these positions are to be skipped instead of read."""


StoreSettings: TypeAlias = "dict[str, str | bool]"
"""Arguments of ``pyarrow.fs.S3FileSystem``."""

S3_SCHEMES = ("s3", "s3a", "s3n")


def reader_of(
    tasks: Any,
    schema: pa.Schema,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for ``mapInArrow`` from numbers of tasks to the rows of their files.

    ``tasks`` is broadcast: lists of :data:`FileRows`, and filesystem settings by bucket. Columns of
    ``schema`` that a file lacks are null.
    """

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        lists, stores = tasks.value
        filesystems = opened_stores(stores)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                files = lists[number]
                yield from gathered(rows for file in files for rows in read_file(file, schema, filesystems))
        forget_zip_finders()

    return read


def forget_zip_finders() -> None:
    """Save the next task of this process a fifth of a second of processor time."""
    # Spark 4.0 invalidates Python's import caches before each task. Every package that was imported from
    # pyspark's zip file then reads the directory of the whole zip again. Removed finders are created on
    # demand.
    for path, finder in [*sys.path_importer_cache.items()]:
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join small batches into larger ones, since Spark's cost for each batch is high."""
    small: list[pa.RecordBatch] = []
    row_count = 0
    for batch in batches:
        if row_count + batch.num_rows > _ROWS_OF_BATCH:
            yield from _as_one(small)
            small, row_count = [], 0
        small.append(batch)
        row_count += batch.num_rows
    yield from _as_one(small)


def _as_one(batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if len(batches) == 1:
        yield from batches
    elif batches:
        yield from pa.Table.from_batches(batches).combine_chunks().to_batches()


def read_file(file: FileRows, schema: pa.Schema, filesystems: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one file. Cache opened filesystems by the front of their URIs.

    Raises FileNotFoundError if the file is gone. Raises ValueError if pyarrow has no filesystem for the URI,
    or a position is after the file's end.
    """
    uri, file_format, packed, is_deleted = file
    positions = None if packed is None else memoryview(packed).cast("q")
    filesystem, path = _opened(uri, filesystems)
    with _stored(filesystem, path, uri) as stored:
        is_far = not uri.startswith("file:")
        source = pa.BufferReader(stored.read()) if is_far and stored.size() <= _WHOLE_BYTES else stored
        start = 0
        for row_count, load in _parts(file_format, source, schema, is_far=is_far):
            if positions is None:
                rows = load()
            else:
                first, last = bisect_left(positions, start), bisect_left(positions, start + row_count)
                if first == last and not is_deleted:
                    rows = None
                else:
                    inside = [position - start for position in positions[first:last]]
                    rows = (
                        _without(load(), inside) if is_deleted else load().take(pa.array(inside, pa.int64()))
                    )
            if rows is not None:
                yield from _shaped(rows, schema).to_batches(max_chunksize=_ROWS_OF_BATCH)
            start += row_count
        if positions is not None and len(positions) and positions[-1] >= start:
            raise ValueError(f"{uri} has {start} rows, and the plan names row {positions[-1]}: plan again")


def _stored(filesystem: Any, path: str, uri: str) -> Any:
    try:
        return filesystem.open_input_file(path)
    except FileNotFoundError:
        # Keeps Spark from appending the stack of this process to the message.
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise FileNotFoundError(
            f"{uri} is not there any more: its snapshot has expired, so read the table again, or read a tag, "
            f"whose files are kept"
        ) from None


def _parts(
    file_format: str,
    source: Any,
    schema: pa.Schema,
    *,
    is_far: bool,
) -> Iterator[tuple[int, Callable[[], pa.Table]]]:
    if file_format == "parquet":
        return _row_groups(source, schema, is_far=is_far)
    return (_stripes if file_format == "orc" else avro_blocks)(source, schema)


def _row_groups(
    source: Any,
    schema: pa.Schema,
    *,
    is_far: bool,
) -> Iterator[tuple[int, Callable[[], pa.Table]]]:
    """Yield row counts and loaders of row groups, without columns that the file lacks."""
    # pre_buffer reads all columns of a remote file with few requests. Spark runs as many tasks as there are
    # cores, so threads would only compete with other tasks.
    file = pq.ParquetFile(source, coerce_int96_timestamp_unit="us", pre_buffer=is_far)
    in_file = {*file.schema_arrow.names}
    present = [name for name in schema.names if name in in_file]
    for number in range(file.num_row_groups):
        row_count = file.metadata.row_group(number).num_rows

        def load(number: int = number, row_count: int = row_count) -> pa.Table:
            if not present:
                return pa.table({"": pa.nulls(row_count)})
            return file.read_row_group(number, columns=present, use_threads=False).select(present)

        yield row_count, load


def _stripes(source: Any, schema: pa.Schema) -> Iterator[tuple[int, Callable[[], pa.Table]]]:
    """Yield row counts and loaders of stripes, which must be read for their row count."""
    file = orc.ORCFile(source)
    present = [name for name in schema.names if name in file.schema.names]
    for number in range(file.nstripes):
        table = pa.Table.from_batches([file.read_stripe(number, columns=present or None)])

        def load(table: pa.Table = table) -> pa.Table:
            return table

        yield table.num_rows, load


def _without(rows: pa.Table, positions: Sequence[int]) -> pa.Table:
    # Without NumPy, which workers need not have.
    keep = bytearray(b"\x01") * rows.num_rows
    for position in positions:
        keep[position] = 0
    numbers = pa.Array.from_buffers(pa.uint8(), rows.num_rows, [None, pa.py_buffer(keep)])
    return rows.filter(pc.cast(numbers, pa.bool_()))


def _shaped(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = []
    for field in schema:
        if field.name in rows.column_names:
            column = rows.column(field.name)
            if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
                # Spark rounds timestamps down, and a cast of Arrow refuses to lose digits.
                column = pc.floor_temporal(column, unit="microsecond")
            columns.append(column if column.type == field.type else pc.cast(column, field.type))
        else:
            columns.append(pa.nulls(rows.num_rows, field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def _opened(uri: str, filesystems: dict[str, Any]) -> tuple[Any, str]:
    """Return the filesystem and path of a URI. The path is not percent-decoded, as in the engine."""
    scheme, _, rest = uri.partition(":")
    scheme = "s3" if scheme in S3_SCHEMES else scheme
    authority, _, path = rest.removeprefix("//").partition("/")
    if scheme == "file":
        return fs.LocalFileSystem(), "/" + rest.lstrip("/")
    place = f"{scheme}://{authority}/"
    if place not in filesystems:
        filesystems[place] = _filesystem(scheme, authority)
    filesystem, root = filesystems[place]
    return filesystem, f"{root.rstrip('/')}/{path}"


def _filesystem(scheme: str, authority: str) -> tuple[Any, str]:
    if scheme == "s3":
        return _bucket(authority, {}), authority
    opened: tuple[Any, str] = fs.FileSystem.from_uri(f"{scheme}://{authority}/")
    return opened


def opened_stores(settings: Mapping[str, StoreSettings]) -> dict[str, Any]:
    """Open the filesystems of buckets for :func:`read_file`."""
    return {f"s3://{bucket}/": (_bucket(bucket, each), bucket) for bucket, each in settings.items()}


def _bucket(bucket: str, settings: StoreSettings) -> fs.S3FileSystem:
    """Open a bucket. Settings win over AWS's environment variables, of which pyarrow reads a part."""
    arguments = dict(settings)
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint and "endpoint_override" not in arguments:
        protocol, _, host = endpoint.rpartition("://")
        arguments |= {"endpoint_override": host.rstrip("/"), "scheme": protocol or "https"}
    if "region" not in arguments:
        if "endpoint_override" in arguments:
            region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
        else:
            region = fs.resolve_s3_region(bucket)
        arguments["region"] = region
    return fs.S3FileSystem(**arguments)
