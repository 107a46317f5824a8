"""Which manifests of a version a filter needs, told by their lists alone.

A manifest list has bounds of the partitions in each manifest, over entries that add files and entries that
remove them. Where the bounds rule the filter out, no file of a partition that the filter allows is in the
manifest, nor is the removal of such a file: the manifest need not be read. What is left of the version is
complete in every partition that the filter allows. Of other partitions it may lack files, and may have files
that a manifest left out removes; a plan skips these by their partition anyway.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from app.errors import CorruptMetadataError
from app.planning.version.manifests import NeededManifests
from app.planning.version.version import Version
from app.predicates.column_bounds import ColumnBounds
from app.predicates.model import BoundLeaf, BoundPredicate, leaves
from app.predicates.verdicts import Verdict, evaluate_bounds
from app.table.manifests.manifest_list import ManifestList
from app.table.statistics.statistics import partition_bounds
from app.types import DataField
from app.types.data_types import FLOATING_ROOTS


def needed_manifests(
    version: Version, predicate: BoundPredicate, warnings: list[str]
) -> NeededManifests | None:
    """The manifests of a version that a filter needs; None for all.

    All are needed, too, where the snapshot does not tell how many rows there are.

    Args:
        version: the version.
        predicate: the filter, bound to its schema.
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
    lists = version.table.contents.manifest_lists(version.resolved)
    needed = np.concatenate([_may_match(each, predicate, places, warnings) for each in lists])
    if needed.all():
        return None
    files = sum(int(each.added.sum() - each.deleted.sum()) for each in lists)
    return NeededManifests(needed, files, snapshot.total_record_count)


def _may_match(
    manifests: ManifestList, predicate: BoundPredicate, places: Mapping[int, int], warnings: list[str]
) -> NDArray[np.bool_]:
    """Which manifests may have an entry in a partition that the filter allows, shape (n,)."""

    def bounds(field: DataField, rows: NDArray[np.int64]) -> ColumnBounds | None:
        place = places.get(field.id)
        # NaN and zeros of both signs have an order of their own in the bounds.
        if place is None or field.type.root in FLOATING_ROOTS:
            return None
        return partition_bounds(manifests, rows, field.type, place, len(places))

    told = np.flatnonzero(~manifests.partition_bounds.say_nothing)
    may_match = np.ones(len(manifests.manifests), np.bool_)
    try:
        may_match[told] = evaluate_bounds(predicate, bounds, told) != Verdict.NONE
    except CorruptMetadataError as error:
        warnings.append(f"every manifest of a list is read, since its partition bounds are damaged: {error}")
    return may_match
