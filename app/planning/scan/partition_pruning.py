"""Prunes by partition: selects the manifests that a filter needs, and reduces the filter per partition.

A manifest list bounds the partitions in each manifest, over entries that add files and entries that remove
them. If the bounds rule the filter out, the manifest neither adds nor removes a file of an allowed partition,
and need not be read. The files of the other manifests are complete in every allowed partition. Files of other
partitions are skipped by their partition anyway.

Every file of a partition has the same values in the partition columns, so the leaves on them are decided per
partition. A false filter skips the partition. Otherwise the filter on the other columns remains: ``(dt = 'a'
AND x = 1) OR (dt = 'b' AND x = 2)`` is ``x = 1`` inside ``dt = 'a'``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from app.errors import CorruptMetadataError
from app.planning.plan.file_plan import ExplainStep, SkipStep
from app.planning.plan.state import PlanState
from app.planning.version.contents import NeededManifests
from app.planning.version.version import Version
from app.predicates import (
    ColumnBounds,
    Verdict,
    evaluate_bounds,
    leaf_verdicts,
    point_texts,
)
from app.predicates.model import (
    ALWAYS_FALSE,
    ALWAYS_TRUE,
    BoundLeaf,
    BoundPredicate,
    Constant,
    Unknown,
    leaves,
)
from app.predicates.simplify import with_leaves
from app.table.manifests import ManifestList
from app.table.statistics import partition_bounds
from app.types import FLOATING_ROOTS, DataField
from app.types.binary_row import RowColumns


def needed_manifests(
    version: Version, predicate: BoundPredicate, warnings: list[str]
) -> NeededManifests | None:
    """Select the manifests that a filter needs. Return None for all.

    If bounds are damaged, ``warnings`` gets a text, and all manifests of their list are needed. Raises
    SnapshotExpiredError if the version expired, CorruptMetadataError if a manifest list is damaged.
    """
    snapshot = version.resolved.snapshot
    # Without the snapshot's total, rows_total must be counted from all manifests.
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
        # Writers order NaN and signed zeros differently.
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
    """Reduce the filter of each file by its partition's values, and skip files for which it is false."""
    [predicate] = state.predicates
    keys = {field.id: at for at, field in enumerate(version.schema.partition_fields)}
    tests = [
        (part, part.field)
        for part in leaves(predicate)
        if isinstance(part, BoundLeaf) and part.field.id in keys
    ]
    if not tests:
        if predicate == ALWAYS_FALSE:
            state.skip(state.left(), SkipStep.STATISTICS, predicate=predicate)
        return
    rows = RowColumns(version.contents().partitions, len(keys), "partition {}".format)
    columns = {field.id: _bounds(rows, keys[field.id], field) for _, field in tests}
    # A partition's value is both its lower and its upper bound, so one evaluation decides a test everywhere.
    verdicts = np.stack([leaf_verdicts(part, columns[field.id]) for part, field in tests], axis=1)
    doubts = verdicts == Verdict.SOME
    flags = np.concatenate([verdicts == Verdict.ALL, doubts[:, doubts.any(axis=0)]], axis=1)
    _, examples, numbers = np.unique(_bits(flags), return_index=True, return_inverse=True)
    state.predicates = [
        specialise(predicate, {id(part): verdict for (part, _), verdict in zip(tests, row, strict=True)})
        for row in verdicts[examples].tolist()
    ]
    codes = numbers.astype(np.min_scalar_type(len(state.predicates)))
    state.predicate_codes = codes[state.files.columns.partition_codes]
    is_false = np.array([reduced == ALWAYS_FALSE for reduced in state.predicates], np.bool_)
    state.partitions_skipped = is_false[numbers]
    kept = state.left()
    skipped = kept[is_false[state.predicate_codes[kept]]]
    if state.explanation is not None:
        for (part, field), verdict in zip(tests, verdicts.T, strict=True):
            codes = state.files.columns.partition_codes[skipped]
            is_evidence = verdict[codes] == Verdict.NONE
            state.note_each(
                skipped[is_evidence], _PartitionSteps(part, field, columns[field.id], codes[is_evidence])
            )
    state.skip(skipped, SkipStep.PARTITION, predicate=predicate)


@dataclass(frozen=True, slots=True)
class _PartitionSteps:
    """Steps with the value of a column in partitions where a test is false, formatted on access."""

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


def _bits(holds: NDArray[np.bool_]) -> NDArray[np.generic]:
    # One value for each row of flags, so that np.unique compares rows at once.
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
    """Replace the parts on partition columns by their verdicts, which have the ``id`` of the part as key."""

    def leaf(part: BoundLeaf | Constant | Unknown) -> BoundPredicate:
        # By identity: equal leaves may occur twice, and comparing long lists costs more than deciding both.
        verdict = verdicts.get(id(part))
        return part if verdict in (None, Verdict.SOME) else Constant(verdict == Verdict.ALL)

    return with_leaves(predicate, leaf)


def only_on(predicate: BoundPredicate, field_ids: frozenset[int]) -> BoundPredicate:
    """Weaken a filter to the given columns: rows that satisfy the filter satisfy the result."""

    def leaf(part: BoundLeaf | Constant | Unknown) -> BoundPredicate:
        match part:
            case BoundLeaf(field=field):
                return part if field.id in field_ids else ALWAYS_TRUE
            case Constant():
                return part
            case Unknown():
                return ALWAYS_TRUE

    return with_leaves(predicate, leaf)
