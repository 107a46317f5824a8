"""Comparison of two versions of a table: the files added and removed, after a filter.

A compaction removes the files that it rewrites and adds the new ones. A file whose deletion vector changed is
both removed, with its rows in the first version, and added, with its rows in the second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from app.planning.plan.answers import Plan
from app.planning.request.limits import Limits
from app.planning.request.requests import PlanRequest
from app.planning.scan.planner import decide
from app.planning.version.version import Version
from app.work import LEDGER, Claim


@dataclass(frozen=True, slots=True, weakref_slot=True)
class PlanChanges:
    """Files that differ between two versions. Their memory stays claimed while the object lives."""

    added: Plan
    removed: Plan


def answer_changes(before: Version, after: Version, request: PlanRequest, limits: Limits) -> PlanChanges:
    """Return the changes from one version to another.

    ``before``: the earlier version, in the columns of the later one.
    ``request``: filter and form of the answer. ``files`` is ignored.

    Raises FilterError if the filter cannot be read, or does not fit. Raises SnapshotExpiredError if a version
    expired meanwhile.
    """
    removed, added = changed_files(before, after)
    schema, options = after.schema, before.schema.options.values
    # A file of both versions may be kept in one only, if another file of its key was added or removed, or an
    # option changed: then the plans of both versions are compared.
    joins_files = schema.primary_keys or schema.options.data_evolution
    compares_plans = request.filter is not None and (joins_files or options != schema.options.values)
    request = request.model_copy(
        update={"files": None, "totals": True} if compares_plans else {"files": []},
    )
    with ExitStack() as stack:
        plans: list[Plan] = []
        claims: list[Claim] = []
        for version, changed in ((before, removed), (after, added)):
            table, line = version.table.name, version.source.warehouse.name
            claim = stack.enter_context(LEDGER.claim("plans", path=table, line=line))
            named = None if compares_plans else changed
            plans.append(decide(version, request, limits, named=named, claim=claim.grow_to).plan())
            claims.append(claim)
        old, new = plans
        if compares_plans:
            old_names, new_names = map(_names_of, (old, new))
            new = _take(new, np.isin(new.files.array("number"), added) | ~np.isin(new_names, old_names))
            old = _take(old, np.isin(old.files.array("number"), removed) | ~np.isin(old_names, new_names))
        changes = PlanChanges(new, old)
        for claim in claims:
            claim.outlive(changes)
    return changes


def _names_of(plan: Plan) -> NDArray[np.object_]:
    return np.array(plan.files.table.column("file_name").to_pylist(), object)


def _take(plan: Plan, chosen: NDArray[np.bool_]) -> Plan:
    return replace(plan, files=plan.files.take(np.flatnonzero(chosen)))


def changed_files(before: Version, after: Version) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the files removed and added, ascending. A file whose deletion vector changed is in both."""
    # A manifest of both versions has the same files in both, except files that a later manifest removes. So
    # only names of other files are compared, and the cost depends on what commits have added.
    only_before, only_after = dict(_files_not_shared(before, after)), dict(_files_not_shared(after, before))
    removed = np.array(sorted(file for name, file in only_before.items() if name not in only_after), np.int64)
    added = np.array(sorted(file for name, file in only_after.items() if name not in only_before), np.int64)
    vectors, vectors_after = _vectors(before), _vectors(after)
    names = [
        name.decode(errors="surrogatepass")
        for name in vectors.keys() | vectors_after.keys()
        if vectors.get(name) != vectors_after.get(name)
    ]
    if names:
        # Only files of both versions: the others are listed already.
        removed = np.union1d(removed, _in_both(before, after, names))
        added = np.union1d(added, _in_both(after, before, names))
    return removed, added


def _in_both(version: Version, other: Version, names: Sequence[str]) -> NDArray[np.int64]:
    files, other_files = version.files(), other.files()
    in_both = other_files.names(other_files.named(names)).to_pylist()
    return files.named([name.decode(errors="surrogatepass") for name in in_both])


def _files_not_shared(version: Version, other: Version) -> Iterator[tuple[bytes, int]]:
    numbers = {file: number for number, file in enumerate(other.manifest_files())}
    files, other_files = version.files(), other.files()
    for number, file in enumerate(version.manifest_files()):
        rows, other_number = files.columns.rows[number], numbers.get(file)
        start = int(files.columns.starts[number])
        if other_number is not None:
            other_rows = other_files.columns.rows[other_number]
            # Both versions have every row of this manifest that `version` has.
            if rows is other_rows or other_rows is None:
                continue
            if rows is None:
                rows = np.arange(len(files.manifests[number]), dtype=np.int64)
            places = np.flatnonzero(~np.isin(rows, other_rows))
        else:
            places = np.arange(int(files.columns.starts[number + 1]) - start)
        names = files.names(start + places)
        yield from zip(names.to_pylist(), (start + places).tolist(), strict=True)


def _vectors(version: Version) -> dict[bytes, tuple[str, int, int]]:
    files, places = version.files(), version.contents().vectors.places
    if not places:
        return {}
    numbers = version.vector_numbers(files.all())
    with_vector = np.flatnonzero(numbers >= 0)
    places_by_name = {}
    for name, number in zip(files.names(with_vector).to_pylist(), numbers[with_vector].tolist(), strict=True):
        entry, place = places[number]
        places_by_name[name] = (entry.file.file_name, place.offset, place.length)
    return places_by_name
