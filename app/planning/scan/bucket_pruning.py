"""Skips buckets that cannot hold matching rows.

A filter pins a key when ``=``, IN, or an OR of these bounds every key column: then finitely many keys can
match. In a table with fixed buckets, the bucket function names their buckets. In one with dynamic buckets, a
key can only be in a bucket whose hash index holds its hash. A bucket without a readable index is kept.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.bucket_index import BucketFunction, buckets_of, key_hashes
from app.errors import FilterError, SnapshotExpiredError
from app.planning.buckets.directory import read_usable
from app.planning.plan.explanation import CodedSteps
from app.planning.plan.file_plan import ExplainStep, SkipStep
from app.planning.plan.state import PlanState
from app.planning.version.version import Version
from app.predicates.model import BoundLeaf, BoundPredicate, Constant, Operator, Unknown, fold
from app.table import BucketMode
from app.types import BINARY_ROOTS, FLOATING_ROOTS, STRING_ROOTS, DataField, DataType, Value
from app.types.binary_row import fields_of


@dataclass(slots=True)
class BucketPruning:
    """Decides together all files that share a filter."""

    version: Version
    warnings: list[str]

    def prune(self, state: PlanState) -> None:
        """Skip files in buckets where no row can match."""
        schema = self.version.schema
        match schema.bucket_mode:
            case BucketMode.HASH_FIXED if schema.options.bucket_function in set(BucketFunction):
                decide, key = self._outside_fixed, schema.bucket_key
            case BucketMode.HASH_DYNAMIC:
                decide, key = self._outside_dynamic, schema.trimmed_primary_keys
            case _:
                return
        kept = state.left()
        # If a key column's type changed, a value may have been hashed in either form: nothing is pruned.
        if not len(kept) or not key or not self._is_stable(key):
            return
        types = [field.type for field in key]
        for predicate, files in state.by_predicate(kept):
            keys = pinned_keys(predicate, key)
            if keys is None:
                continue
            outside = files[decide(files, keys, types)]
            if state.explanation is not None:
                state.note_each(outside, self._steps(outside, predicate, len(keys)))
            state.skip(outside, SkipStep.BUCKET, predicate=predicate)

    def _steps(self, files: NDArray[np.int64], predicate: BoundPredicate, keys: int) -> CodedSteps:
        columns, written = self.version.contents().columns, str(predicate)
        label = "the key" if keys == 1 else f"any of the {keys:,} keys"
        buckets, codes = np.unique(columns.buckets[files], return_inverse=True)
        steps = [
            ExplainStep(
                SkipStep.BUCKET,
                "skip",
                predicate=written,
                evidence=f"bucket {bucket} cannot have {label} that the filter allows",
            )
            for bucket in buckets.tolist()
        ]
        return CodedSteps(steps, codes)

    def _outside_fixed(
        self, files: NDArray[np.int64], keys: Sequence[tuple[Value, ...]], types: Sequence[DataType]
    ) -> NDArray[np.bool_]:
        function = BucketFunction(self.version.schema.options.bucket_function)
        columns = self.version.contents().columns
        totals, buckets = columns.total_buckets[files], columns.buckets[files]
        outside = np.zeros(len(files), np.bool_)
        for total in np.unique(totals[totals > 0]).tolist():
            try:
                allowed = buckets_of(function, fields_of(keys, types), len(keys), total)
            except FilterError:
                # The function refuses such keys, so it cannot have placed them either.
                continue
            outside |= (totals == total) & ~np.isin(buckets, allowed)
        return outside

    def _outside_dynamic(
        self, files: NDArray[np.int64], keys: Sequence[tuple[Value, ...]], types: Sequence[DataType]
    ) -> NDArray[np.bool_]:
        contents = self.version.contents()
        codes, buckets = contents.columns.partition_codes[files], contents.columns.buckets[files]
        distinct = np.unique(codes).tolist()
        partitions = [contents.hash_indexes.get(contents.columns.partitions[code], ()) for code in distinct]
        hashes = key_hashes(fields_of(keys, types), len(keys))
        outside = np.zeros(len(files), np.bool_)
        usable = read_usable(self.version.source, partitions)
        for code, entries, (index, failures) in zip(distinct, partitions, usable, strict=True):
            for entry, error in failures:
                self.warnings.append(f"the hash index of bucket {entry.bucket} is not used: {error}")
            holding = index.holding(hashes) | {entry.bucket for entry, _ in failures}
            without = {entry.bucket for entry in entries} - holding
            outside |= (codes == code) & np.isin(buckets, list(without))
        return outside

    def _is_stable(self, key: Sequence[DataField]) -> bool:
        """Return True if key columns hash alike in every schema with which rows may have been written."""
        # All schemas, not those of the files: a compaction records a newer one but leaves rows in their
        # buckets.
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


def _hash_alike(written: DataType, present: DataType) -> bool:
    for roots in (STRING_ROOTS, BINARY_ROOTS):
        if written.root in roots:
            # Readers cut values to the length of today's type, but the whole value was hashed.
            return present.root in roots and present.precision >= written.precision
    return written.same_kind(present)


MAX_KEYS: Final = 1000
"""Maximum number of keys tried; with more, the filter counts as not pinning the key, as in the engine."""


def pinned_keys(predicate: BoundPredicate, fields: Sequence[DataField]) -> list[tuple[Value, ...]] | None:
    """Return every key that can match, in the order of ``fields``.

    Return None if the filter does not pin them all.

    An empty list means that no key can match (``a = 1 AND a = 2``).
    """
    per_field = []
    for field in fields:
        allowed = _allowed(predicate, field)
        if allowed is None:
            return None
        per_field.append(sorted(_stored_forms(allowed, field)))
    if math.prod(map(len, per_field)) > MAX_KEYS:
        return None
    return list(itertools.product(*per_field))


def _stored_forms(allowed: frozenset[Value], field: DataField) -> Iterator[Value]:
    for value in allowed:
        # Writers hash 0.0 and -0.0 differently; to SQL they are one value.
        if field.type.root in FLOATING_ROOTS and value == 0:
            yield -0.0
            yield 0.0
        else:
            yield value


def _allowed(predicate: BoundPredicate, field: DataField) -> frozenset[Value] | None:
    """Return a set that holds every value of ``field`` in matching rows. Return None if nothing bounds it."""

    def of_leaf(leaf: BoundLeaf | Constant | Unknown) -> frozenset[Value] | None:
        match leaf:
            case BoundLeaf(operator=Operator.EQUAL | Operator.IN, literals=literals) if leaf.field == field:
                # NaN differs from itself, so no set contains it, and its many bit patterns hash apart.
                return None if any(literal != literal for literal in literals) else frozenset(literals)  # noqa: PLR0124
            case Constant(value=False):
                return frozenset()
            case _:
                return None

    def all_of(sets: Sequence[frozenset[Value] | None]) -> frozenset[Value] | None:
        bounded = [buckets for buckets in sets if buckets is not None]
        return frozenset.intersection(*bounded) if bounded else None

    def any_of(sets: Sequence[frozenset[Value] | None]) -> frozenset[Value] | None:
        bounded = [buckets for buckets in sets if buckets is not None]
        return frozenset[Value]().union(*bounded) if len(bounded) == len(sets) else None

    return fold(predicate, of_leaf, all_of, any_of)
