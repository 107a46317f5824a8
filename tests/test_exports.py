"""What packages offer to each other: a change here is a change of what others may rely on."""

from __future__ import annotations

import importlib
import pkgutil

import app

EXPORTS = {
    "app.access": {
        "EVERYBODY",
        "EVERYTHING",
        "Caller",
        "Role",
        "TokenBook",
        "TokenFile",
        "is_loopback",
        "new_secret",
        "stored_digest",
    },
    "app.bucket_index": {
        "UNKNOWN",
        "AssignerOptions",
        "Assignment",
        "Assignments",
        "BucketFunction",
        "DynamicBucketIndexMaintainer",
        "DynamicBucketOptions",
        "HashBucketAssigner",
        "Hashes",
        "KeyBatch",
        "PartitionIndex",
        "Strategy",
        "assigners_of",
        "bucket_of",
        "buckets_of",
        "hashed_buckets",
        "key_hash",
        "key_hashes",
        "routing_keys",
    },
    "app.building": {
        "BloomFindings",
        "BuiltEntry",
        "BuiltIndex",
        "CheckedEntry",
        "ColumnAdvice",
        "ColumnTypes",
        "DataFile",
        "DataFormat",
        "IndexProblem",
        "Verification",
        "advise",
        "build",
        "read_columns",
        "table_options",
        "verify",
        "write_file",
    },
    "app.cli": {"main", "program"},
    "app.deletion_vectors": {
        "RECORD_MARGIN_BYTES",
        "DeletionVector",
        "EncodedVector",
        "Positions",
        "Rows",
        "VectorChange",
        "VectorFile",
        "VectorOptions",
        "delete_in_bucket",
        "delete_without_buckets",
        "files_to_read",
        "read_file",
        "read_vector",
        "read_vectors",
        "write_file",
        "write_files",
    },
    "app.jobs": {
        "AuditReport",
        "DeleteReport",
        "IndexReport",
        "JobTable",
        "PlanReport",
        "UpsertReport",
        "audit",
        "build_index",
        "delete",
        "drop_index",
        "plan",
        "rows_from_files",
        "upsert",
    },
    "app.storage": {
        "ByteCache",
        "CacheStatistics",
        "Cancellation",
        "Contents",
        "DiskTier",
        "DiskTierStatistics",
        "Listings",
        "Maintenance",
        "Readers",
        "RetryPolicy",
        "StoredFile",
        "Warehouse",
        "cancellable",
        "check_deadline",
        "check_listable",
        "remaining_seconds",
        "time_limit",
        "wait_for",
    },
    "app.table": {
        "BucketMode",
        "Catalog",
        "Orphan",
        "OrphanSearch",
        "OrphanKind",
        "Orphans",
        "ResolvedSnapshot",
        "Snapshot",
        "Table",
        "TableReader",
        "TableSchema",
    },
    "app.types": {
        "DataField",
        "DataType",
        "Json",
        "TypeRoot",
        "Value",
        "parse_json",
        "parse_type",
        "sql_key",
        "to_json",
        "type_json",
    },
}


def test_packages_export_exactly_this() -> None:
    packages = [f"app.{module.name}" for module in pkgutil.iter_modules(app.__path__) if module.ispkg]

    exported = {name: set(getattr(importlib.import_module(name), "__all__", ())) for name in packages}

    assert {name: names for name, names in exported.items() if names} == EXPORTS


def test_every_export_is_there() -> None:
    for package, names in EXPORTS.items():
        assert names <= set(dir(importlib.import_module(package)))
