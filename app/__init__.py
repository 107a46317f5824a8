"""paimon-index: answers from Apache Paimon index files.

``from app import open_service`` is the library (:mod:`app.library`); it is imported when it is asked for, so
that importing a part of this package does not import all of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str

    from app.library import (
        AssignAnswer,
        AssignedBucket,
        AssignRequest,
        BucketInfo,
        BucketsAnswer,
        BucketsRequest,
        CharKeyBucket,
        Deletion,
        DeletionsAnswer,
        DeletionsRequest,
        EvaluateAnswer,
        EvaluatedFile,
        EvaluateRequest,
        ExplainStep,
        FileDeletions,
        FilePlan,
        IndexFileRef,
        IndexService,
        KeepReason,
        KeyBucket,
        LookupAnswer,
        LookupRequest,
        PaimonIndexError,
        Plan,
        PlanRequest,
        PlanSummary,
        SelectionForm,
        SkipStep,
        SnapshotSelector,
        SortKey,
        TableRef,
        TopN,
        open_service,
    )

__all__ = [
    "AssignAnswer",
    "AssignRequest",
    "AssignedBucket",
    "BucketInfo",
    "BucketsAnswer",
    "BucketsRequest",
    "CharKeyBucket",
    "Deletion",
    "DeletionsAnswer",
    "DeletionsRequest",
    "EvaluateAnswer",
    "EvaluateRequest",
    "EvaluatedFile",
    "ExplainStep",
    "FileDeletions",
    "FilePlan",
    "IndexFileRef",
    "IndexService",
    "KeepReason",
    "KeyBucket",
    "LookupAnswer",
    "LookupRequest",
    "PaimonIndexError",
    "Plan",
    "PlanRequest",
    "PlanSummary",
    "SelectionForm",
    "SkipStep",
    "SnapshotSelector",
    "SortKey",
    "TableRef",
    "TopN",
    "__version__",
    "open_service",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the library offers under that name
    if name == "__version__":
        return import_module("importlib.metadata").version("paimon-index")
    if name in __all__:
        return getattr(import_module("app.library"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
