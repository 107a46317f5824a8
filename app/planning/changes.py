"""What differs between two versions of a table: the files that came, and those that went, after a filter.

A file that compaction has rewritten went, and what it was rewritten to came. A file with another deletion
vector than before did both: its rows before are those of the first version, and its rows after those of the
second.

Manifests that both versions have give them the same files, but for those that a later manifest removes. So
names are compared of the other manifests alone, and a commit costs what it added.

A file that both versions have may be kept in one of them alone: since another file of its key came or went,
or since an option was altered. Where a filter meets either, the plans of both versions are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from app.planning.plan.answers import Plan
from app.planning.request.limits import Limits
from app.planning.request.requests import PlanRequest
from app.planning.scan.planner import decide
from app.planning.version.version import Version
from app.types.session_zone import SessionZone
from app.work import LEDGER, Claim


@dataclass(frozen=True, slots=True)
class Changes:
    """What differs between two versions."""

    added: Plan
    removed: Plan


def answer_changes(
    before: Version, after: Version, request: PlanRequest, limits: Limits, zone: SessionZone | None
) -> Changes:
    """The changes from one version to another.

    Args:
        before: the earlier one, with the columns of the later one.
        request: filter and form of the answer; ``files`` counts for nothing.

    Raises:
        FilterError: the filter cannot be read, or does not fit.
        SnapshotExpiredError: a version went away.
    """
    removed, added = changed_files(before, after)
    schema, options = after.schema, before.schema.options.values
    joins_files = schema.primary_keys or schema.options.data_evolution
    if request.filter is not None and (joins_files or options != schema.options.values):
        request = request.model_copy(update={"files": None, "totals": True})
        with _claim(before) as of_old, _claim(after) as of_new:
            old = decide(before, request, limits, zone, claim=of_old.grow_to).plan()
            new = decide(after, request, limits, zone, claim=of_new.grow_to).plan()
            old_names, new_names = map(_names_of, (old, new))
            return Changes(
                _told(new, np.isin(new.files.array("number"), added) | ~np.isin(new_names, old_names)),
                _told(old, np.isin(old.files.array("number"), removed) | ~np.isin(old_names, new_names)),
            )
    request = request.model_copy(update={"files": []})
    return Changes(
        decide(after, request, limits, zone, named=added).plan(),
        decide(before, request, limits, zone, named=removed).plan(),
    )


def _claim(version: Version) -> AbstractContextManager[Claim]:
    return LEDGER.claim("plans", path=version.table.name, line=version.source.warehouse.name)


def _names_of(plan: Plan) -> NDArray[np.object_]:
    return np.array(plan.files.table.column("file_name").to_pylist(), object)


def _told(plan: Plan, chosen: NDArray[np.bool_]) -> Plan:
    return replace(plan, files=plan.files.take(np.flatnonzero(chosen)))


def changed_files(before: Version, after: Version) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The files that only one of two versions has, or that have another deletion vector; ascending."""
    only_before, only_after = dict(_changed(before, after)), dict(_changed(after, before))
    removed = np.array(sorted(file for name, file in only_before.items() if name not in only_after), np.int64)
    added = np.array(sorted(file for name, file in only_after.items() if name not in only_before), np.int64)
    vectors, later = _vectors(before), _vectors(after)
    names = [
        name.decode(errors="surrogatepass")
        for name in vectors.keys() | later.keys()
        if vectors.get(name) != later.get(name)
    ]
    if names:
        # Of the files that both have: others came or went anyway.
        removed = np.union1d(removed, _of_both(before, after, names))
        added = np.union1d(added, _of_both(after, before, names))
    return removed, added


def _of_both(version: Version, other: Version, names: Sequence[str]) -> NDArray[np.int64]:
    files, others = version.files(), other.files()
    in_both = others.names(others.named(names)).to_pylist()
    return files.named([name.decode(errors="surrogatepass") for name in in_both])


def _changed(version: Version, other: Version) -> Iterator[tuple[bytes, int]]:
    numbers = {file: number for number, file in enumerate(other.manifest_files())}
    files, others = version.files(), other.files()
    for number, file in enumerate(version.manifest_files()):
        rows, same = files.columns.rows[number], numbers.get(file)
        start = int(files.columns.starts[number])
        if same is not None:
            other_rows = others.columns.rows[same]
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
    having = np.flatnonzero(numbers >= 0)
    places_by_name = {}
    for name, number in zip(files.names(having).to_pylist(), numbers[having].tolist(), strict=True):
        entry, place = places[number]
        places_by_name[name] = (entry.file.file_name, place.offset, place.length)
    return places_by_name
