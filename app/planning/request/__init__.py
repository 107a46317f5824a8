"""Requests, with the filters and partitions in them, and their limits. All callers share them."""

from app.planning.request.faults import explain_faults
from app.planning.request.filters import NamedPartition, read_filter
from app.planning.request.requests import (
    AssignRequest,
    BucketsRequest,
    ColumnRef,
    DeletionsRequest,
    EvaluateRequest,
    FilteredRequest,
    IndexFileRef,
    InspectRequest,
    LookupRequest,
    PlanRequest,
    SelectionForm,
    SnapshotSelector,
    SortKey,
    TableRef,
    TopN,
    VersionedRequest,
)

__all__ = [
    # Asks which buckets a writer would assign.
    "AssignRequest",
    # Asks which buckets there are.
    "BucketsRequest",
    # A column of the data files that index files belong to.
    "ColumnRef",
    # Asks which rows are deleted.
    "DeletionsRequest",
    # Asks index files about a filter.
    "EvaluateRequest",
    # Members of every request with a filter.
    "FilteredRequest",
    # An index file by its path or its bytes.
    "IndexFileRef",
    # Asks what is in an index file.
    "InspectRequest",
    # Asks which buckets keys are in.
    "LookupRequest",
    # A value for each partition column.
    "NamedPartition",
    # Asks which files a query reads.
    "PlanRequest",
    # The form of row positions in answers.
    "SelectionForm",
    # The version that a caller selects.
    "SnapshotSelector",
    # One key of ORDER BY.
    "SortKey",
    # A table as callers name it.
    "TableRef",
    # ORDER BY ... LIMIT.
    "TopN",
    # Members of every request about a version.
    "VersionedRequest",
    # Names the members at fault, and what is expected.
    "explain_faults",
    # Reads and binds a filter and lists of values.
    "read_filter",
]
