"""Pruning by partition: which manifests a filter needs, and what it becomes inside of each partition.

A manifest list has bounds of the partitions in each manifest, over entries that add files and entries that
remove them. Where the bounds rule the filter out, no file of a partition that the filter allows is in the
manifest, nor is the removal of such a file: the manifest need not be read. What is left of the version is
complete in every partition that the filter allows. Of other partitions it may lack files, and may have files
that a manifest left out removes; a plan skips these by their partition anyway.

Every file of a partition has the same values in the partition columns, so the leaves on those columns are
decided for the partition; what remains is the filter on the other columns. This is partition pruning (the
filter became false), and more: ``(dt = 'a' AND x = 1) OR (dt = 'b' AND x = 2)`` is ``x = 1`` inside
``dt = 'a'``, which statistics, buckets and indexes can then use.

The values of a partition are bounds of its rows with both ends equal, so that one evaluation decides a test
of a partition column for all partitions at once. Partitions where the same tests hold have the same filter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import compress, repeat

import numpy as np
from numpy.typing import NDArray

from app.errors import CorruptMetadataError
from app.planning.plan.file_plan import ExplainStep, SkipStep
from app.planning.plan.state import PlanState
from app.planning.version.contents import NeededManifests
from app.planning.version.version import Version
from app.predicates import (
    UNKNOWN_COUNT,
    ColumnBounds,
    Verdict,
    Verdicts,
    evaluate_bounds,
    leaf_verdicts,
    point_texts,
)
from app.predicates.model import (
    ALWAYS_FALSE,
    ALWAYS_TRUE,
    BoundLeaf,
    BoundPredicate,
    ComputedTest,
    Constant,
    Unknown,
    leaves,
)
from app.predicates.simplify import with_leaves
from app.table.manifests import ManifestList
from app.table.statistics import partition_bounds
from app.types import FLOATING_ROOTS, DataField, Value
from app.types.binary_row import FieldValues, RowColumns


def needed_manifests(
    version: Version, predicate: BoundPredicate, warnings: list[str]
) -> NeededManifests | None:
    """The manifests of a version that a filter needs; None for all.

    All are needed, too, where the snapshot does not tell how many rows there are.

    Args:
        warnings: told of bounds that are damaged; all manifests of their list are needed.

    Raises:
        SnapshotExpiredError: the version went away.
        CorruptMetadataError: a manifest list is damaged.
    """
    snapshot = version.resolved.snapshot
    if snapshot is None or snapshot.total_record_count is None:
        return None
    places = {field.id: at for at, field in enumerate(version.schema.partition_fields)}
    if not any(isinstance(leaf, BoundLeaf) and leaf.field.id in places for leaf in leaves(predicate)):
        return None
    lists = version.table.metadata.manifest_lists(version.resolved)
    needed = np.concatenate(
        [_may_match(manifest_list, predicate, places, warnings) for manifest_list in lists]
    )
    if needed.all():
        return None
    files = sum(int(manifest_list.added.sum() - manifest_list.deleted.sum()) for manifest_list in lists)
    return NeededManifests(needed, files, snapshot.total_record_count)


def _may_match(
    manifests: ManifestList, predicate: BoundPredicate, places: Mapping[int, int], warnings: list[str]
) -> NDArray[np.bool_]:
    def bounds(field: DataField, rows: NDArray[np.int64]) -> ColumnBounds | None:
        place = places.get(field.id)
        # NaN and zeros of both signs have an order of their own in the bounds.
        if place is None or field.type.root in FLOATING_ROOTS:
            return None
        return partition_bounds(manifests, rows, field.type, place, len(places))

    bounded = np.flatnonzero(~manifests.partition_bounds.say_nothing)
    may_match = np.ones(len(manifests.manifests), np.bool_)
    try:
        may_match[bounded] = evaluate_bounds(predicate, bounds, bounded) != Verdict.NONE
    except CorruptMetadataError as error:
        warnings.append(f"every manifest of a list is read, since its partition bounds are damaged: {error}")
    return may_match


def prune_partitions(state: PlanState, version: Version) -> None:
    """Gives each file the filter of its partition, and leaves out files where that is false."""
    [predicate] = state.predicates
    keys = {field.id: at for at, field in enumerate(version.schema.partition_fields)}
    tests = [
        (part, field)
        for part in leaves(predicate)
        if (field := _tested(part)) is not None and field.id in keys
    ]
    if not tests:
        if predicate == ALWAYS_FALSE:
            state.skip(state.left(), SkipStep.STATISTICS, predicate=predicate)
        return
    rows = RowColumns(version.contents().partitions, len(keys), "partition {}".format)
    columns = {field.id: _bounds(rows, keys[field.id], field) for _, field in tests}
    verdicts = np.stack([_verdicts(part, columns[field.id]) for part, field in tests], axis=1)
    doubts = verdicts == Verdict.SOME
    flags = np.concatenate([verdicts == Verdict.ALL, doubts[:, doubts.any(axis=0)]], axis=1)
    _, examples, numbers = np.unique(_bits(flags), return_index=True, return_inverse=True)
    state.predicates = [
        specialise(predicate, {id(part): verdict for (part, _), verdict in zip(tests, row, strict=True)})
        for row in verdicts[examples].tolist()
    ]
    codes = numbers.astype(np.min_scalar_type(len(state.predicates)))
    state.predicate_codes = codes[state.files.columns.partition_codes]
    nowhere = np.array([reduced == ALWAYS_FALSE for reduced in state.predicates], np.bool_)
    state.partitions_left_out = nowhere[numbers]
    left = state.left()
    gone = left[nowhere[state.predicate_codes[left]]]
    if state.explanation is not None:
        for (part, field), verdict in zip(tests, verdicts.T, strict=True):
            codes = state.files.columns.partition_codes[gone]
            some = verdict[codes] == Verdict.NONE
            state.note_each(gone[some], _PartitionSteps(part, field, columns[field.id], codes[some]))
    state.skip(gone, SkipStep.PARTITION, predicate=predicate)


@dataclass(frozen=True, slots=True)
class _PartitionSteps:
    """The values of a column in partitions where a test is false, in words for those who read them."""

    part: BoundLeaf | Constant | Unknown
    field: DataField
    values: ColumnBounds
    codes: NDArray[np.int32]

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + self.values.nbytes

    def at(self, places: NDArray[np.int64]) -> Iterator[ExplainStep]:
        codes = self.codes[places].astype(np.int64)
        alike = repeat(self.field.name), repeat(None), repeat(str(self.part)), repeat(None)
        texts = point_texts(self.field, self.values.take(codes))
        return map(ExplainStep, repeat(SkipStep.PARTITION), repeat("skip"), *alike, texts)


def _tested(part: BoundLeaf | Constant | Unknown) -> DataField | None:
    """The column that a part tests by its values, or by what a function makes of them."""
    match part:
        case BoundLeaf(field=field) | Unknown(computed=ComputedTest(field=field)):
            return field
        case _:
            return None


def _verdicts(part: BoundLeaf | Constant | Unknown, values: ColumnBounds) -> Verdicts:
    """Proves a part of a filter for each partition, by the values of a column."""
    match part:
        case BoundLeaf():
            return leaf_verdicts(part, values)
        case Unknown(computed=ComputedTest() as test):
            known = values.has_low.tolist()
            listed = values.low.tolist() if isinstance(values.low, np.ndarray) else values.low.to_pylist()
            results = {value: _result(test, value) for value in {*compress(listed, known)}}
            found = FieldValues.of([results.get(value) for value in listed], test.leaf.field.type)
            has = ~found.is_null & values.has_low
            nulls = np.where(has, 0, np.where(values.has_low, UNKNOWN_COUNT, 1))
            ends = replace(values, low=found.values, high=found.values, has_low=has, has_high=has)
            return leaf_verdicts(test.leaf, replace(ends, null_count=nulls))
        case _:
            return np.full(len(values), Verdict.SOME, np.int8)


def _result(test: ComputedTest, value: Value) -> Value | None:
    try:
        return test.compute(value)
    except ValueError:
        return None


def _bits(holds: NDArray[np.bool_]) -> NDArray[np.generic]:
    """One thing for each row of flags, equal where the rows are."""
    packed = np.packbits(holds, axis=1)
    return (
        packed.reshape(-1)
        if packed.shape[1] == 1
        else packed.view(np.dtype((np.void, packed.shape[1]))).reshape(-1)
    )


def _bounds(rows: RowColumns, position: int, field: DataField) -> ColumnBounds:
    values, known = rows.read(position, field.type)
    return ColumnBounds(
        low=values,
        high=values,
        has_low=known,
        has_high=known,
        null_count=np.where(known, 0, 1),
        row_count=np.ones(len(known), np.int64),
        may_hold_nan=np.zeros(len(known), np.bool_),
        unreadable=np.zeros(len(known), np.bool_),
    )


def specialise(predicate: BoundPredicate, verdicts: Mapping[int, int]) -> BoundPredicate:
    """The filter with the parts on partition columns decided, as far as they are.

    ``verdicts``: on parts in the partition, by the ``id`` of the part: equal leaves may stand in a filter
    more than once, and comparing long lists of literals costs more than deciding twice.
    """

    def leaf(part: BoundLeaf | Constant | Unknown) -> BoundPredicate:
        verdict = verdicts.get(id(part))
        if isinstance(part, Unknown) and verdict == Verdict.SOME:
            return replace(part, text=f"{part.text} in some partitions")
        return part if verdict in (None, Verdict.SOME) else Constant(verdict == Verdict.ALL)

    return with_leaves(predicate, leaf)


def only_on(predicate: BoundPredicate, field_ids: frozenset[int]) -> BoundPredicate:
    """A weaker filter that reads the given columns only: what satisfies the filter satisfies it."""

    def leaf(part: BoundLeaf | Constant | Unknown) -> BoundPredicate:
        match part:
            case BoundLeaf(field=field):
                return part if field.id in field_ids else ALWAYS_TRUE
            case Constant():
                return part
            case Unknown():
                return ALWAYS_TRUE

    return with_leaves(predicate, leaf)
