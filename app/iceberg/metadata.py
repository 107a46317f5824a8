"""Metadata of a table for Iceberg clients, built from schemas, snapshots and tags.

Iceberg has one list of snapshots, and reads branches in the table's schema. In the engine, each branch has
its own snapshot numbers and schemas. So a branch is a table here, ``table$branch_name`` as in the engine, and
only tags are refs.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from app.iceberg.schema import last_column_id, last_partition_id, partition_specs, schema_json
from app.planning import Version
from app.planning.version import Snapshot
from app.table import TableSchema
from app.types import Json
from app.types.digest import digest

# Scheme of locations that nobody can open. Snapshots name manifest lists there, so a client without
# server-side planning fails, and nobody writes on top of this metadata. Writers are also directed there,
# since some write files before they request a commit.
NO_MANIFESTS: Final = "paimon-index-plans-scans"

_WRITE_PATHS: Final = {f"write.{kind}.path": f"{NO_MANIFESTS}:/{kind}" for kind in ("data", "metadata")}
_OPERATIONS: Final = {
    "APPEND": "append",
    "COMPACT": "replace",
    "OVERWRITE": "overwrite",
    "ANALYZE": "replace",
}
_UNSORTED: Final = 0


@dataclass(frozen=True, slots=True)
class TableState:
    """State of a table for clients: its latest version, with schemas and snapshots up to it, ascending."""

    version: Version
    schemas: Sequence[TableSchema]
    snapshots: Sequence[Snapshot]
    tags: Mapping[str, Snapshot]

    def json(self, properties: Mapping[str, str], *, referenced_only: bool, millis: bool) -> dict[str, Json]:
        """Format the metadata.

        ``referenced_only`` restricts snapshots to the latest and those with a tag. Raises ValueError if the
        schema has a type that Iceberg lacks.
        """
        version, schema = self.version, self.version.schema
        latest = None if version.resolved.snapshot is None else Snapshot.of(version.resolved.snapshot)
        refs = {name: snapshot for name, snapshot in self.tags.items() if name != "main"}
        by_id = {} if referenced_only else {snapshot.id: snapshot for snapshot in self.snapshots}
        for referenced in (*refs.values(), *(() if latest is None else (latest,))):
            by_id[referenced.id] = referenced
        # After a rollback a tag's number may belong to another snapshot.
        refs = {name: snapshot for name, snapshot in refs.items() if by_id[snapshot.id] == snapshot}
        snapshots = [by_id[number] for number in sorted(by_id)]
        location = version.source.warehouse.public_url + version.table.directory
        times = list(accumulate((snapshot.time_millis for snapshot in snapshots), max))
        metadata: dict[str, Json] = {
            # Deletion vectors require format version 3.
            "format-version": 3 if schema.options.deletion_vectors else 2,
            "table-uuid": _uuid(version, self.schemas[0]),
            "location": location,
            "last-sequence-number": snapshots[-1].id if snapshots else 0,
            "last-updated-ms": times[-1] if times else schema.time_millis,
            "last-column-id": max(map(last_column_id, self.schemas)),
            "current-schema-id": schema.id,
            "schemas": list(_schemas(self.schemas, schema, millis=millis)),
            "default-spec-id": len(partition_specs(schema)) - 1,
            "partition-specs": partition_specs(schema),
            "last-partition-id": last_partition_id(schema),
            "default-sort-order-id": _UNSORTED,
            "sort-orders": [{"order-id": _UNSORTED, "fields": []}],
            "properties": {**properties, **_WRITE_PATHS},
            "snapshots": [_snapshot(snapshot, by_id) for snapshot in snapshots],
            "snapshot-log": [
                {"snapshot-id": snapshot.id, "timestamp-ms": time}
                for snapshot, time in zip(snapshots, times, strict=True)
            ],
            "metadata-log": [],
        }
        if schema.options.deletion_vectors:
            snapshot = version.resolved.snapshot
            metadata["next-row-id"] = 0 if snapshot is None else snapshot.next_row_id or 0
        if latest is not None:
            metadata["current-snapshot-id"] = latest.id
            metadata["refs"] = {
                "main": {"type": "branch", "snapshot-id": latest.id},
                **{name: {"type": "tag", "snapshot-id": snapshot.id} for name, snapshot in refs.items()},
            }
        return metadata


def _schemas(schemas: Sequence[TableSchema], current: TableSchema, *, millis: bool) -> Iterator[Json]:
    for schema in schemas:
        try:
            yield schema_json(schema, millis=millis)
        except ValueError:
            # Clients then cannot read snapshots of an older schema.
            if schema.id == current.id:
                raise


def _snapshot(snapshot: Snapshot, by_id: Mapping[int, Snapshot]) -> Json:
    metadata: dict[str, Json] = {
        "snapshot-id": snapshot.id,
        "sequence-number": snapshot.id,
        "timestamp-ms": snapshot.time_millis,
        "manifest-list": f"{NO_MANIFESTS}:/snapshot-{snapshot.id}",
        "schema-id": snapshot.schema_id,
        "summary": {
            "operation": _OPERATIONS.get(snapshot.commit_kind, "overwrite"),
            **(
                {}
                if snapshot.total_record_count is None
                else {"total-records": str(snapshot.total_record_count)}
            ),
        },
    }
    if snapshot.id - 1 in by_id:
        metadata["parent-snapshot-id"] = snapshot.id - 1
    return metadata


def _uuid(version: Version, first: TableSchema) -> str:
    """Return a UUID that identifies the table. One created later at the same location gets another."""
    place = version.source.warehouse.public_url, version.resolved.directory, str(version.resolved.level)
    return str(uuid.UUID(bytes=digest(*map(str.encode, place), first.digest.encode()), version=4))
