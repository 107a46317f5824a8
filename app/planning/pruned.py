"""A snapshot that names only the files that a plan keeps, so that the engine's own readers read just these.

Nothing is written to the warehouse: the engine's catalog ``paimon-index`` serves the metadata from memory,
see ``docs/decisions/sql-catalog.md``. In tables with data evolution, plans keep together the files that
hold columns of the same rows, and readers also get the ids of the rows to read.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap64

from app.errors import LimitExceededError
from app.file_index import KINDS
from app.planning.plan.answers import Plan
from app.planning.plan.file_plan import KeepReason
from app.planning.plan.state import decision
from app.planning.request.limits import Limits
from app.planning.scan.merge_units import units_of_version
from app.planning.version.version import Version
from app.table import TableSnapshot
from app.table.commits import ListedManifests, Outline, listed, manifest_options, manifests_of, write_manifest
from app.table.manifests import ManifestEntry
from app.types import Json
from app.types.row_ids import RowRanges, ranges_of, rows_from
from app.work import check_deadline

# Files encoded to estimate the size of the answer.
_SAMPLED: Final = 64

LARGE_BYTES: Final = 8 << 20
"""Size from which a data file keeps its index: reading a smaller one whole is quicker than reading its index.
"""

_INDEX_TRIED: Final = (KeepReason.MATCHED, KeepReason.NO_INDEX)
_VERSION: Final = 3
_USER: Final = "paimon-index"


@dataclass(frozen=True, slots=True)
class ServedManifest:
    """A manifest or manifest list, to be served as ``manifest/<name>`` below the table."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class PrunedSnapshot:
    """A snapshot with the files of a plan alone.

    Attributes:
        files_named: number of the plan's files, and of the files that merge with them.
        document: content of the snapshot file. None if :func:`prune` builds no snapshot.
        delta_manifest_list: name of the planned snapshot's delta manifest list, unique among tables. None for
            a table without snapshots.
        options_schema_id: id of the schema whose options apply.
        row_ranges: ids of the rows to read, in a table with data evolution. None for all rows of the files.
    """

    name: str
    plan: Plan
    files_named: int
    document: Mapping[str, Json] | None
    metadata_files: tuple[ServedManifest, ...]
    delta_manifest_list: str | None
    options_schema_id: int
    row_ranges: RowRanges | None = None


def prune(version: Version, plan: Plan, most_share: float, limits: Limits) -> PrunedSnapshot:
    """Make the snapshot of the files that a plan keeps.

    A snapshot is built if the share of files to name, or of rows to read in ranges, is within ``most_share``,
    or if kept files are in moved partitions. ``document`` is None otherwise, and in tables without snapshots.

    Raises UnsupportedFormatError if the table's metadata is not in Avro. Raises LimitExceededError if there
    are too many files, or their metadata takes too many bytes. Raises PaimonIndexError if the version cannot
    be read.
    """
    table, schema = version.table, version.schema
    files = version.files()
    numbers = _whole_units(version, plan.files.array("number"))
    snapshot = version.resolved.snapshot
    name = str(uuid.uuid4())
    if snapshot is None:
        return PrunedSnapshot(name, plan, 0, None, (), None, schema.ids.options)
    ranges = _row_ranges(plan, limits.pruned_ranges) if len(numbers) <= limits.pruned_files else None
    few_rows = ranges is not None and ranges.count <= most_share * plan.summary.rows_total
    moved = version.moved_partitions(files.columns.partition_codes[numbers])
    moved_rows = {files.columns.partitions[code] for code in moved}
    # Readers fail on files in other directories than the engine's, unless the snapshot gives their paths.
    if len(numbers) > most_share * plan.summary.files_total and not few_rows and not moved:
        delta_list = snapshot.delta_manifest_list
        return PrunedSnapshot(name, plan, len(numbers), None, (), delta_list, schema.ids.options)
    if len(numbers) > limits.pruned_files:
        raise LimitExceededError(
            f"{len(numbers)} files of table {table.name} are kept, and a pruned snapshot names at most "
            f"{limits.pruned_files}: read the table itself",
            limit=limits.pruned_files,
        )
    metadata_files = _metadata_files(version, plan, numbers, moved_rows, name, limits.pruned_bytes)
    return PrunedSnapshot(
        name,
        plan,
        len(numbers),
        _document(version, snapshot, metadata_files, int(files.columns.row_counts[numbers].sum())),
        metadata_files,
        snapshot.delta_manifest_list,
        schema.ids.options,
        ranges,
    )


def _metadata_files(
    version: Version,
    plan: Plan,
    numbers: NDArray[np.int64],
    moved: Collection[bytes],
    name: str,
    most_bytes: int,
) -> tuple[ServedManifest, ...]:
    """Write manifests of files, a list that names them all, and an empty list."""
    options = manifest_options(version.table.name, version.schema)
    answered = _without_index(version, plan)
    sampled = numbers[:: len(numbers) // _SAMPLED + 1]
    sample = write_manifest(list(_entries(version, sampled, answered, moved)), options.compression)
    if len(sample) * len(numbers) > most_bytes * len(sampled):
        raise LimitExceededError(
            f"the metadata of the {len(numbers)} kept files of table {version.table.name} takes more than "
            f"{most_bytes >> 20} MiB: read the table itself",
            limit=most_bytes,
        )
    written: list[ServedManifest] = []
    records = []
    for entries in manifests_of(_entries(version, numbers, answered, moved), options.target_bytes):
        check_deadline()
        content = write_manifest(entries, options.compression)
        written.append(ServedManifest(f"manifest-{name}-{len(written)}", content))
        records.append(listed(written[-1].name, len(content), Outline.of(entries), version.schema))
    for number, of_list in enumerate((ListedManifests(tuple(records)), ListedManifests())):
        written.append(ServedManifest(f"manifest-list-{name}-{number}", of_list.write(options.compression)))
    return tuple(written)


def _document(
    version: Version, snapshot: TableSnapshot, metadata_files: Sequence[ServedManifest], row_count: int
) -> dict[str, Json]:
    *_, base, delta = metadata_files
    document: dict[str, Json] = {
        "version": _VERSION,
        "id": snapshot.id,
        # The plan's condition is about this schema, so the files are read by it.
        "schemaId": version.schema.id,
        "baseManifestList": base.name,
        "baseManifestListSize": len(base.content),
        "deltaManifestList": delta.name,
        "deltaManifestListSize": len(delta.content),
        "indexManifest": snapshot.index_manifest,
        "commitUser": _USER,
        "commitIdentifier": 0,
        "commitKind": "COMPACT",
        "timeMillis": snapshot.time_millis,
        "totalRecordCount": row_count,
        "deltaRecordCount": 0,
        "nextRowId": snapshot.next_row_id,
    }
    return {member: value for member, value in document.items() if value is not None}


def _row_ranges(plan: Plan, most: int) -> RowRanges | None:
    """Return the rows to read, in at most ``most`` ranges. Return None if files are read whole."""
    files, first_rows = plan.files, plan.files.table.column("first_row_id")
    counts, matching = files.array("row_count").tolist(), {**files.selections, **files.joined_rows}
    # Reading a file in parts saves no time if most of its rows remain, such as after a few deletions.
    parts = {at: rows for at, rows in matching.items() if 2 * len(rows) <= counts[at]}
    if not parts or first_rows.null_count:
        return None
    groups = files.table.column("merge_group").to_pylist()
    in_parts = {groups[at] for at in parts} - {None}
    all_rows = BitMap64()
    for at, (first, count, group) in enumerate(zip(first_rows.to_pylist(), counts, groups, strict=True)):
        if rows := parts.get(at):
            all_rows |= rows.shift(first) if isinstance(rows, BitMap64) else rows_from(first, rows)
        elif rows is None and group not in in_parts:
            all_rows.add_range(first, first + count)
    return ranges_of(all_rows, most)


def _entries(
    version: Version, numbers: NDArray[np.int64], without_index: Collection[int], moved: Collection[bytes]
) -> Iterator[ManifestEntry]:
    source = version.source
    for number, entry in zip(numbers.tolist(), version.files().entries(numbers), strict=True):
        named = entry.without_index() if number in without_index else entry
        if entry.partition in moved and entry.file.external_path is None:
            path = f"{source.warehouse.public_url}{source.data.data_file(entry)}"
            named = replace(named, file=replace(named.file, external_path=path))
        yield named


def _without_index(version: Version, plan: Plan) -> set[int]:
    kinds = (KINDS[index.kind] for index in version.schema.options.file_indexes if index.kind in KINDS)
    selects_rows = any(kind.tells_rows for kind in kinds)
    files = zip(
        plan.files.array("number").tolist(),
        plan.files.array("decision").tolist(),
        plan.files.array("file_size").tolist(),
        strict=True,
    )
    # Readers read the index of each file that they open. After the plan has used an index, it can only select
    # rows for a reader, which saves time only in a large file.
    return {
        number
        for number, code, size in files
        if decision(code) in _INDEX_TRIED and not (selects_rows and size >= LARGE_BYTES)
    }


def _whole_units(version: Version, kept: NDArray[np.int64]) -> NDArray[np.int64]:
    if not version.schema.primary_keys:
        # Plans list files of the same rows next to each other.
        return np.sort(kept)
    keys = version.files().columns.bucket_keys
    # The engine's query may have another condition than the plan. It must not see an older version of a row
    # because the file with the newer one was skipped.
    units = units_of_version(version, np.flatnonzero(np.isin(keys, keys[kept])))
    is_kept = np.zeros(len(units.starts), np.bool_)
    is_kept[units.numbers[np.isin(units.files, kept)]] = True
    return np.sort(units.files[is_kept[units.numbers]])
