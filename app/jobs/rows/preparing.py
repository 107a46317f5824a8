"""First step of tasks: checks values and computes the place of each row.

=================  ==============  ======================================================================
column             type            meaning, and the tables that have it unless all do
=================  ==============  ======================================================================
``c0``, ``c1`` …   the table's     values of the table's columns
``place``          int64           position of the row in the input
``kind``           int8            kind of the row, in tables whose rows have kinds
``partition``      binary          serialized row of the partition columns
``bucket``         int32           bucket, in tables without dynamic buckets
``hash``           int32           hash of the trimmed primary key, in tables with dynamic buckets
``channel``        int32           the row's assigner, in tables with dynamic buckets
``slot``           int32           shuffle key that gives each channel a task, in the same tables
=================  ==============  ======================================================================
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import mmh3
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.bucket_index import BucketFunction, Hashes, assigners_of, buckets_of, key_hashes
from app.errors import RequestError
from app.jobs.rows.incoming import KIND, KINDS, ORDER, spark_schema
from app.jobs.rows.target import Target
from app.table import BucketMode
from app.types import BINARY_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataField
from app.types.arrow_fields import field_values, serialized_rows
from app.types.binary_row import ARITY_BYTES, row_hash

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

PARTITION: Final = "partition"
BUCKET: Final = "bucket"
HASH: Final = "hash"
CHANNEL: Final = "channel"
SLOT: Final = "slot"

_INT: Final = struct.Struct("<i")
_SPARK_SEED: Final = 42
_MICROS_PER_MILLI: Final = 1000
_ONLY_BUCKET: Final = 0


@dataclass(frozen=True, slots=True)
class Preparation:
    """Checks rows and routes them, as a function for ``mapInArrow``."""

    # A class instead of a closure: Spark's workers find it by its name.
    target: Target
    channels: int = 1
    assigners: int = 1

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches with the columns that the module's docstring lists."""
        slots = np.array(slots_of(self.channels), np.int32)
        for batch in batches:
            if batch.num_rows:
                yield self._prepared(batch, slots)

    def _prepared(self, batch: pa.RecordBatch, slots: NDArray[np.int32]) -> pa.RecordBatch:
        fields, count = self.target.schema.fields, batch.num_rows
        values = [self._checked(batch.column(at), column) for at, column in enumerate(fields)]
        arrays = {f"c{at}": array for at, array in enumerate(values)}
        arrays[ORDER] = batch.column(len(fields))
        if self.target.has_kinds:
            arrays[KIND] = _kinds(batch.column(len(fields) + 1))
        by_name = {column.name: array for column, array in zip(fields, values, strict=True)}
        schema = self.target.schema
        partition = [field_values(by_name[field.name], field.type) for field in schema.partition_fields]
        arrays[PARTITION] = serialized_rows(partition, count)
        hashed = [field_values(by_name[field.name], field.type) for field in self.target.hash_fields]
        match schema.bucket_mode:
            case BucketMode.HASH_DYNAMIC:
                hashes = key_hashes(hashed, count)
                of_partition = _row_hashes(arrays[PARTITION])
                channels = assigners_of(of_partition, hashes, self.channels, self.assigners)
                arrays[HASH] = pa.array(hashes)
                arrays[CHANNEL] = pa.array(channels.astype(np.int32))
                arrays[SLOT] = pa.array(slots[channels])
            case BucketMode.HASH_FIXED:
                function = BucketFunction(schema.options.bucket_function)
                buckets = buckets_of(function, hashed, count, schema.options.bucket)
                arrays[BUCKET] = pa.array(buckets.astype(np.int32))
            case _:
                arrays[BUCKET] = pa.array(np.full(count, _ONLY_BUCKET, np.int32))
        return pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays))

    def _checked(self, array: pa.Array, column: DataField) -> pa.Array:
        is_key = column.name in self.target.schema.primary_keys
        if array.null_count and (is_key or not column.type.nullable):
            label = "a column of the primary key" if is_key else "NOT NULL"
            raise RequestError(
                f"column {column.name!r} is {label}, and {array.null_count} rows have no value"
            )
        root = column.type.root
        if root in STRING_ROOTS | BINARY_ROOTS:
            measure = pc.utf8_length if root in STRING_ROOTS else pc.binary_length
            longest = pc.max(measure(array)).as_py() or 0
            if longest > column.type.precision:
                raise RequestError(
                    f"column {column.name!r} is {column.type}, and a value has length {longest}"
                )
        if root in TIMESTAMP_ROOTS and column.type.is_compact_timestamp:
            # The engine stores milliseconds, and hashes keys as it stores them.
            micros = np.asarray(array.cast(pa.int64()).fill_null(0))
            cut = pa.array(micros - micros % _MICROS_PER_MILLI, pa.int64(), mask=np.asarray(array.is_null()))
            return cut.cast(array.type)
        return array


def prepared_schema(target: Target) -> StructType:
    """Return the output of :class:`Preparation` in Spark's types."""
    from pyspark.sql import types  # noqa: PLC0415 - an extra

    dynamic = target.schema.bucket_mode is BucketMode.HASH_DYNAMIC
    numbers = (HASH, CHANNEL, SLOT) if dynamic else (BUCKET,)
    return types.StructType(
        [
            *values_schema(target),
            types.StructField(PARTITION, types.BinaryType()),
            *(types.StructField(name, types.IntegerType()) for name in numbers),
        ]
    )


def values_schema(target: Target) -> StructType:
    """Return the Spark schema of a row's values, its place in the input and, if rows have kinds, its kind."""
    from pyspark.sql import types  # noqa: PLC0415 - an extra

    fields = [
        types.StructField(f"c{at}", field.dataType) for at, field in enumerate(spark_schema(target).fields)
    ]
    fields.append(types.StructField(ORDER, types.LongType()))
    if target.has_kinds:
        fields.append(types.StructField(KIND, types.ByteType()))
    return types.StructType(fields)


def slots_of(channels: int) -> list[int]:
    """Return for each channel a number that Spark's hash maps to the partition of that channel.

    ``repartition(channels, column)`` takes Murmur3 of the column modulo the partitions. Plain numbers of
    channels would leave some tasks without work and give others twice as much.
    """
    slots: dict[int, int] = {}
    number = 0
    while len(slots) < channels:
        slots.setdefault(mmh3.hash(_INT.pack(number), _SPARK_SEED, signed=True) % channels, number)
        number += 1
    return [slots[channel] for channel in range(channels)]


def _row_hashes(partitions: pa.BinaryArray) -> Hashes:
    coded = partitions.dictionary_encode()
    distinct = [row_hash(row.as_py()[ARITY_BYTES:]) for row in coded.dictionary]
    hashes: Hashes = np.array(distinct, np.int32)[np.asarray(coded.indices)]
    return hashes


def _kinds(texts: pa.Array) -> pa.Array:
    kinds = pc.index_in(texts, pa.array(list(KINDS), texts.type))
    if kinds.null_count:
        wrong = texts.filter(kinds.is_null())[0].as_py()
        raise RequestError(f"expected +I, -U, +U or -D as the kind of a row, found {wrong!r:.50}")
    return kinds.cast(pa.int8())
