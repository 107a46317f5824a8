"""Finds the bucket of a key, lists the content of buckets, and predicts where a writer would put a key.

Keys with CHAR columns are looked up in every form that writers may have stored. A key's bucket follows from
its bytes: Spark and Flink hash ``'c3'`` padded with blanks, the Java API hashes it as it is, and Spark treats
both as equal. The padded form wins if it is in the index.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.bucket_index import (
    UNKNOWN,
    BucketFunction,
    HashBucketAssigner,
    Hashes,
    PartitionIndex,
    buckets_of,
    hashed_buckets,
    key_hashes,
)
from app.errors import FilterError, LimitExceededError
from app.options import AssignerOptions
from app.planning.buckets.answers import (
    AssignedBucket,
    AssignmentAnswer,
    BucketInfo,
    BucketList,
    BucketLookup,
    KeyBucket,
)
from app.planning.buckets.directory import read_directories
from app.planning.request.filters import NamedPartition
from app.planning.request.requests import AssignRequest, BucketsRequest, LookupRequest
from app.planning.version.files import Files
from app.planning.version.version import Version
from app.predicates import Names
from app.suggestions import hint
from app.table import BucketMode
from app.table.manifests import IndexEntry
from app.types import INTEGER_BITS, DataField, DataType, Json, TypeRoot, Value, parse_json
from app.types.binary_row import FieldValues, write_row
from app.types.values import integer_range, same_in_sql
from app.work import check_deadline

MAX_BYTES: Final = 64 * 1024 * 1024
# Estimated overhead of a Python value on top of its bytes.
_VALUE_BYTES: Final = 64
# Continuation bytes of UTF-8.
_CONTINUATION: Final = bytes(range(0x80, 0xC0))


@dataclass(frozen=True, slots=True, eq=False)
class KeyForms:
    """Every form in which keys may be stored."""

    fields: tuple[FieldValues, ...]  # The key columns of all forms, each of shape (forms,).
    owners: Sequence[int]  # Number of each form's key, ascending; the padded form of a key is its first.

    def buckets(self, hashes: Sequence[int], buckets: Iterable[int | None]) -> tuple[KeyBucket, ...]:
        """Answer each key from the hash and the bucket of each of its forms."""
        answers = []
        rows = zip(self.owners, hashes, buckets, strict=True)
        for _, forms in itertools.groupby(rows, key=lambda form: form[0]):
            listed = [(hashed, bucket) for _, hashed, bucket in forms]
            first = next((form for form in listed if form[1] is not None), listed[0])
            other_buckets = {bucket for _, bucket in listed if bucket is not None} - {first[1]}
            answers.append(KeyBucket(*first, tuple(sorted(other_buckets))))
        return tuple(answers)


def key_forms(fields: Sequence[FieldValues], keys: int) -> KeyForms | None:
    """Expand keys to every form. Return None if no column is CHAR.

    ``fields``: the key columns, each of shape (keys,). Raises LimitExceededError if all forms together take
    too much memory.
    """
    types = [field.type for field in fields]
    if all(data_type.root is not TypeRoot.CHAR for data_type in types):
        return None
    rows: list[tuple[Value | None, ...]] = []
    owners: list[int] = []
    free_bytes = MAX_BYTES
    for owner, key in enumerate(zip(*(field.tolist() for field in fields), strict=True)):
        lengths = [_form_lengths(value, data_type) for value, data_type in zip(key, types, strict=True)]
        longest = sum(_VALUE_BYTES + form_lengths[0] for form_lengths in lengths)
        free_bytes -= longest * math.prod(map(len, lengths))
        if free_bytes < 0:
            raise LimitExceededError(
                f"the padded forms of {keys} keys take more than {MAX_BYTES} bytes: ask for fewer at once",
                limit=MAX_BYTES,
            )
        forms = list(itertools.product(*map(_forms, key, lengths)))
        rows += forms
        owners += [owner] * len(forms)
    columns = zip(*rows, strict=True) if rows else ((),) * len(types)
    expanded = tuple(
        FieldValues.of(values, data_type) for values, data_type in zip(columns, types, strict=True)
    )
    return KeyForms(expanded, owners)


def _form_lengths(value: Value | None, data_type: DataType) -> range:
    """Return the bytes of each form of a value, the padded one first. Return a single 0 for a single form."""
    if data_type.root is not TypeRoot.CHAR or not isinstance(value, bytes):
        return range(1)
    stem = value.rstrip(b" ")
    characters = len(stem.translate(None, _CONTINUATION))
    padded = len(stem) + max(0, data_type.precision - characters)
    return range(max(padded, len(value)), len(stem) - 1, -1)


def _forms(value: Value | None, lengths: range) -> list[Value | None]:
    if not isinstance(value, bytes) or lengths == range(1):
        return [value]
    stem = value.rstrip(b" ")
    return [stem.ljust(length) for length in lengths]


_NO_FILES: Final = (0, 0)
_NO_INDEX = {
    BucketMode.CROSS_PARTITION: "keys of this table move between partitions, so it has no hash index",
    BucketMode.BUCKET_UNAWARE: "this table has no buckets: its files all lie in bucket 0",
    BucketMode.POSTPONE_MODE: "rows of this table wait in bucket -2 until a compaction assigns them",
}


def answer_lookup(version: Version, request: LookupRequest) -> BucketLookup:
    """Find the bucket of each key.

    Raises FilterError if the partition or a key does not fit the table. Raises CorruptIndexError if a hash
    index is damaged. Raises StorageError if a hash index cannot be read.
    """
    mode = version.schema.bucket_mode
    partition = NamedPartition.read(version.schema, request.partition)
    hashes, keys = _hashes(version, request, partition.values)
    doubt = _doubt(version)
    if doubt is not None:
        unknown = tuple(KeyBucket(hashed, None) for hashed in hashes.tolist())
        return BucketLookup(version.snapshot_id, mode.value.lower(), unknown, doubt)
    forms = None if keys is None else key_forms(keys, len(hashes))
    if forms is not None:
        keys, hashes = forms.fields, key_hashes(forms.fields, len(forms.owners))
    buckets: Sequence[int | None]
    match mode:
        case BucketMode.HASH_DYNAMIC:
            looked_up = partition_index(version, partition).lookup(hashes)
            buckets = [None if bucket == UNKNOWN else bucket for bucket in looked_up.tolist()]
        case BucketMode.HASH_FIXED:
            buckets = _fixed_buckets(version, hashes, keys, partition).tolist()
        case _:
            buckets = [None] * len(hashes)
    answers = (
        tuple(map(KeyBucket, hashes.tolist(), buckets))
        if forms is None
        else forms.buckets(hashes.tolist(), buckets)
    )
    return BucketLookup(version.snapshot_id, mode.value.lower(), answers, _NO_INDEX.get(mode))


def answer_buckets(version: Version, request: BucketsRequest) -> BucketList:
    """List the buckets of one partition or of all, with their content."""
    schema = version.schema
    named = request.partition
    partition = None if named is None else NamedPartition.read(version.schema, named)
    files = _bucket_sizes(version.files())
    indexes: dict[tuple[bytes, int], IndexEntry] = {
        (row, entry.bucket): entry
        for row, entries in version.contents().hash_indexes.items()
        for entry in entries
    }
    selected = [
        (row, bucket)
        for row, bucket in {**files, **indexes}
        if partition is None or partition.could_be(version.partitions.values(row))
    ]
    infos = []
    for row, bucket in sorted(selected):
        index = indexes.get((row, bucket))
        is_dynamic = schema.bucket_mode is BucketMode.HASH_DYNAMIC
        infos.append(
            BucketInfo(
                partition=version.partitions.json(row),
                bucket=bucket,
                index_file=None if index is None else version.source.paths.index_file(index),
                index_rows=None if index is None else index.file.row_count,
                full=(
                    index is not None and index.file.row_count >= schema.options.dynamic_buckets.target_rows
                )
                if is_dynamic
                else None,
                data_files=files.get((row, bucket), _NO_FILES)[0],
                rows=files.get((row, bucket), _NO_FILES)[1],
            )
        )
    return BucketList(version.snapshot_id, schema.bucket_mode.value.lower(), tuple(infos))


def answer_assignment(version: Version, request: AssignRequest) -> AssignmentAnswer:
    """Predict the bucket in which a new assigner would put each key, or the buckets that it may choose from.

    Raises FilterError if the table assigns no buckets, or a key belongs to another assigner.
    """
    schema = version.schema
    if schema.bucket_mode is not BucketMode.HASH_DYNAMIC:
        mode = schema.bucket_mode.value.lower()
        raise FilterError(f"only dynamic buckets (hash_dynamic) are assigned; this table is {mode}")
    partition = NamedPartition.read(version.schema, request.partition)
    row = write_row(partition.values, [field.type for field in schema.partition_fields])
    hashes, _ = _hashes(version, request, partition.values)
    dynamic = schema.options.dynamic_buckets
    options = AssignerOptions(
        channels=request.num_channels,
        assigners=request.num_assigners,
        assign_id=request.assign_id,
        target_rows=dynamic.target_rows,
        max_buckets=dynamic.max_buckets,
    )
    assigner = HashBucketAssigner(options, lambda _: partition_index(version, partition))
    assigned = assigner.assign(row, hashes).tolist()
    check_deadline()
    buckets = tuple(
        AssignedBucket(hashed, place.bucket, place.strategy.value, place.permitted)
        for hashed, place in zip(hashes.tolist(), assigned, strict=True)
    )
    return AssignmentAnswer(version.snapshot_id, schema.bucket_mode.value.lower(), buckets)


def partition_index(version: Version, partition: NamedPartition) -> PartitionIndex:
    """Merge the hash indexes of a partition's buckets."""
    entries = [
        entry
        for row, listed in version.contents().hash_indexes.items()
        if partition.could_be(version.partitions.values(row))
        for entry in listed
    ]
    (directory,) = read_directories(version.source, [entries])
    return directory


def _bucket_sizes(files: Files) -> dict[tuple[bytes, int], tuple[int, int]]:
    _, firsts, numbers = np.unique(files.columns.bucket_keys, return_index=True, return_inverse=True)
    counts = np.bincount(numbers, minlength=len(firsts)).tolist()
    rows = np.zeros(len(firsts), np.int64)
    np.add.at(rows, numbers, files.columns.row_counts)
    sizes = zip(counts, rows.tolist(), strict=True)
    return dict(zip(map(files.path, firsts.tolist()), sizes, strict=True))


def _key_fields(version: Version) -> tuple[DataField, ...]:
    schema = version.schema
    if schema.bucket_mode is BucketMode.HASH_FIXED:
        return schema.bucket_key
    return schema.trimmed_primary_keys


def _doubt(version: Version) -> str | None:
    """Return the reason why no bucket can be determined, or None."""
    names = Names(version.schema.fields, version.relation)
    # Some readers show NULLs of a key column as another value, and look for the rows under another key.
    return next((why for field in _key_fields(version) if (why := names.doubt_of(field)) is not None), None)


def _hashes(
    version: Version, request: LookupRequest, partition: tuple[Value | None, ...]
) -> tuple[Hashes, tuple[FieldValues, ...] | None]:
    if request.keys is None:
        return np.array(request.hashes or (), np.int32), None
    fields = _read_keys(version, request.keys, partition)
    return key_hashes(fields, len(request.keys)), fields


def _read_keys(
    version: Version,
    keys: Sequence[Mapping[str, Json]],
    partition: tuple[Value | None, ...],
) -> tuple[FieldValues, ...]:
    schema, fields = version.schema, _key_fields(version)
    allowed = {field.name for field in fields} | set(schema.primary_keys) | set(schema.partition_keys)
    for key in keys:
        if not allowed.issuperset(key):
            name = next(name for name in key if name not in allowed)
            suggestion = hint(name, sorted(allowed), plural="key columns")
            raise FilterError(f"{name!r:.200} is not a key column of this table{suggestion}", column=name)
    for field, value in zip(schema.partition_fields, partition, strict=True):
        if any(field.name in key and not _is(field, _value(key, field), value) for key in keys):
            raise FilterError(f"{field.name!r} of the key is not that of the partition", column=field.name)
    return tuple(_read_field(keys, field) for field in fields)


def _is(field: DataField, one: Value | None, other: Value | None) -> bool:
    return one == other or (one is not None and other is not None and same_in_sql(field.type, one, other))


def _read_field(keys: Sequence[Mapping[str, Json]], field: DataField) -> FieldValues:
    if field.type.root in INTEGER_BITS:
        numbers = [value for key in keys if type(value := key.get(field.name)) is int]
        low, high = integer_range(field.type)
        if numbers and len(numbers) == len(keys) and low <= min(numbers) and max(numbers) <= high:
            return FieldValues(field.type, np.array(numbers, np.int64), np.zeros(len(numbers), np.bool_))
    return FieldValues.of([_value(key, field) for key in keys], field.type)


def _value(written: Mapping[str, Json], field: DataField) -> Value | None:
    if field.name not in written:
        raise FilterError(f"the key lacks {field.name!r}", column=field.name)
    try:
        return parse_json(written[field.name], field.type)
    except FilterError as error:
        raise FilterError(str(error), column=field.name) from error


def _fixed_buckets(
    version: Version, hashes: Hashes, keys: tuple[FieldValues, ...] | None, partition: NamedPartition
) -> NDArray[np.int64]:
    options = version.schema.options
    columns = version.contents().columns
    # Rescaling changes the number of buckets partition by partition, so the option may be newer than the
    # files.
    inside = version.partitions.where(columns.partitions, partition.could_be)
    totals = columns.total_buckets[inside[columns.partition_codes] & (columns.total_buckets > 0)]
    total = int(totals[-1]) if len(totals) else options.bucket
    if options.bucket_function not in set(BucketFunction):
        raise FilterError(f"the bucket function {options.bucket_function!r} is not supported")
    function = BucketFunction(options.bucket_function)
    if keys is not None:
        return buckets_of(function, keys, len(hashes), total)
    if function is not BucketFunction.DEFAULT:
        raise FilterError(f"the bucket function {function.value!r} needs keys, not hashes")
    return hashed_buckets(hashes, total)
