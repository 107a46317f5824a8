"""What there is to know of a table besides its files, as JSON objects."""

from __future__ import annotations

from collections.abc import Mapping

from app.planning.version.version import Version
from app.table.schema.schema import TableSchema
from app.table.snapshot import Snapshot
from app.types import Json


def describe_table(version: Version, latest: Snapshot | None) -> Mapping[str, Json]:
    """The schema of a version and what follows from it.

    Args:
        version: what is described.
        latest: the newest snapshot of its branch.
    """
    schema, snapshot = version.schema, version.resolved.snapshot
    return {
        "database": version.table.database,
        "table": version.table.name,
        "schema_id": schema.id,
        "fields": [
            {
                "id": field.id,
                "name": field.name,
                "type": str(field.type),
                "nullable": field.type.nullable,
                "description": field.description,
            }
            for field in schema.fields
        ],
        "partition_keys": list(schema.partition_keys),
        "primary_keys": list(schema.primary_keys),
        "options": dict(schema.options.values),
        "comment": schema.comment,
        "snapshot": None if snapshot is None else describe_snapshot(snapshot),
        "latest_snapshot": None if latest is None else describe_snapshot(latest),
        "merge_engine": None if schema.merge_engine is None else schema.merge_engine.value,
        "bucket_mode": schema.bucket_mode.value.lower(),
        "deletion_vectors": schema.options.deletion_vectors,
        "indexes": _indexes(schema),
    }


def describe_snapshot(snapshot: Snapshot) -> Mapping[str, Json]:
    """A snapshot without the names of its manifests."""
    return {
        "id": snapshot.id,
        "schema_id": snapshot.schema_id,
        "commit_kind": snapshot.commit_kind,
        "commit_user": snapshot.commit_user,
        "commit_identifier": snapshot.commit_identifier,
        "time_millis": snapshot.time_millis,
        "total_record_count": snapshot.total_record_count,
    }


def describe_index_files(version: Version, index_type: str | None) -> list[Json]:
    """The live entries of the index manifest, of one type or of all."""
    entries = version.table.contents.index_entries(version.resolved)
    return [
        {
            "kind": entry.kind.name,
            "partition": version.partitions.json(entry.partition),
            "bucket": entry.bucket,
            "index_type": entry.file.index_type,
            "file_name": entry.file.file_name,
            "path": version.source.paths.index_file(entry),
            "file_size": entry.file.file_size,
            "row_count": entry.file.row_count,
            "ranges": [
                {
                    "data_file": place.data_file,
                    "offset": place.offset,
                    "length": place.length,
                    "cardinality": place.cardinality,
                }
                for place in entry.file.ranges
            ]
            or None,
        }
        for entry in entries
        if index_type is None or entry.file.index_type == index_type
    ]


def _indexes(schema: TableSchema) -> list[Json]:
    return [
        {"column": each.column, "type": each.kind, "options": dict(each.parameters)}
        for each in schema.options.file_indexes
    ]
