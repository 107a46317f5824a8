"""Which buckets of a partition can hold rows that match.

Fixed buckets: a row's bucket is a function of its bucket key, so a filter that pins the key names the
buckets. Dynamic buckets: the hash index lists the key hashes of each bucket, so a filter that pins the
primary key can only match in buckets whose index holds a hash of it. A bucket without an index, or with one
that cannot be read, is kept.

Hashes are taken of the key as it was written. Should a key column's type have changed between schema
versions, a value may have been hashed in either form and nothing is pruned.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.bucket_index import BucketFunction, buckets_of, key_hashes
from app.errors import FilterError, SnapshotExpiredError
from app.planning.answers import SkipStep
from app.planning.key_candidates import pinned_keys
from app.planning.key_directory import read_usable
from app.table.schema import BucketMode
from app.types.data_types import BINARY_ROOTS, STRING_ROOTS
from app.types.row_matrix import fields_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from app.planning.draft import Draft
    from app.planning.version import Version
    from app.types import DataField, DataType, Value


@dataclass(slots=True)
class BucketPruning:
    """Decides per partition, and once for equal filters.

    Attributes:
        version: the version that is planned.
        warnings: where hash indexes that could not be used are reported.
    """

    version: Version
    warnings: list[str]
    _fixed: dict[tuple[int, int], frozenset[int] | None] = field(default_factory=dict)
    _dynamic: dict[bytes, frozenset[int]] = field(default_factory=dict)

    def prune(self, drafts: Iterable[Draft]) -> None:
        """Skips files in buckets where no row can match."""
        schema = self.version.schema
        match schema.bucket_mode:
            case BucketMode.HASH_FIXED if _is_known(schema.options.bucket_function):
                key = schema.bucket_key
            case BucketMode.HASH_DYNAMIC:
                key = schema.trimmed_primary_keys
            case _:
                return
        waiting = [draft for draft in drafts if draft.skipped is None]
        if not waiting or not key or not self._is_stable(key):
            return
        asked = _with_pinned_keys(waiting, key)
        types = [each.type for each in key]
        if schema.bucket_mode is BucketMode.HASH_DYNAMIC:
            self._ask_indexes({draft.entry.partition: keys for draft, keys in reversed(asked)}, types)
        for draft, keys in asked:
            if schema.bucket_mode is BucketMode.HASH_DYNAMIC:
                outside = draft.entry.bucket in self._dynamic[draft.entry.partition]
            else:
                outside = self._outside_fixed(draft, keys, types)
            if outside:
                draft.skip(SkipStep.BUCKET, predicate=str(draft.predicate))

    def _outside_fixed(
        self, draft: Draft, keys: Sequence[tuple[Value, ...]], types: Sequence[DataType]
    ) -> bool:
        buckets = draft.entry.total_buckets
        if buckets <= 0:
            return False
        place = (id(draft.predicate), buckets)
        if place not in self._fixed:
            function = BucketFunction(self.version.schema.options.bucket_function)
            try:
                chosen = buckets_of(function, fields_of(keys, types), len(keys), buckets)
                found: frozenset[int] | None = frozenset(chosen.tolist())
            except FilterError:
                # The function refuses such keys, so it cannot have placed them either.
                found = None
            self._fixed[place] = found
        allowed = self._fixed[place]
        return allowed is not None and draft.entry.bucket not in allowed

    def _ask_indexes(
        self, keys: Mapping[bytes, Sequence[tuple[Value, ...]]], types: Sequence[DataType]
    ) -> None:
        """Finds the buckets of each partition whose hash index holds none of the keys that are asked for."""
        partitions = [self.version.contents.hash_indexes.get(partition, ()) for partition in keys]
        usable = read_usable(self.version.loader, partitions)
        distinct = {id(each): each for each in keys.values()}
        hashes = {name: key_hashes(fields_of(each, types), len(each)) for name, each in distinct.items()}
        for partition, entries, (index, failures) in zip(keys, partitions, usable, strict=True):
            for entry, error in failures:
                self.warnings.append(f"the hash index of bucket {entry.bucket} is not used: {error}")
            holding = index.holding(hashes[id(keys[partition])]) | {entry.bucket for entry, _ in failures}
            self._dynamic[partition] = frozenset(entry.bucket for entry in entries) - holding

    def _is_stable(self, key: Sequence[DataField]) -> bool:
        """Whether the key columns hash alike in every schema that rows may have been written with.

        A compaction stamps files with a newer schema but leaves rows in their buckets, so the schemas of the
        files that are there do not tell.
        """
        version = self.version
        try:
            schemas = [version.table.schema(version.resolved, number) for number in range(version.schema.id)]
        except SnapshotExpiredError:
            return False
        return all(
            written is not None and _hash_alike(written.type, column.type)
            for schema in schemas
            for column in key
            for written in (schema.by_id.get(column.id),)
        )


def _with_pinned_keys(
    drafts: Iterable[Draft], key: Sequence[DataField]
) -> list[tuple[Draft, list[tuple[Value, ...]]]]:
    """The files whose filter pins the key, each with all keys that can match."""
    pinned: dict[int, list[tuple[Value, ...]] | None] = {}
    found = []
    for draft in drafts:
        number = id(draft.predicate)
        if number not in pinned:
            pinned[number] = pinned_keys(draft.predicate, key)
        keys = pinned[number]
        if keys is not None:
            found.append((draft, keys))
    return found


def _is_known(function: str) -> bool:
    return function in set(BucketFunction)


def _hash_alike(written: DataType, present: DataType) -> bool:
    for roots in (STRING_ROOTS, BINARY_ROOTS):
        if written.root in roots:
            return present.root in roots
    return written.same_kind(present)
