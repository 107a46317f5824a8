"""A plan: decisions about its files while it is made, and the answer that follows from them."""

from app.planning.plan.answers import Plan, Summary
from app.planning.plan.file_plan import (
    DeletionFile,
    ExplainStep,
    FileFacts,
    FilePlan,
    Int64,
    KeepReason,
    SkipStep,
    Text,
    arrow_types,
)
from app.planning.plan.planned_files import Coded, ColumnValues, PlannedFiles, to_arrow
from app.planning.plan.state import PlanState

__all__ = [
    # A column with few distinct values.
    "Coded",
    # One member of many files.
    "ColumnValues",
    # The place of a data file's deletion vector.
    "DeletionFile",
    # One step of `explain` for one file.
    "ExplainStep",
    # Members that kept and skipped files have.
    "FileFacts",
    # One data file of a plan, kept or skipped.
    "FilePlan",
    # Integers of 64 bits, for Arrow.
    "Int64",
    # The reason why a file is kept.
    "KeepReason",
    # The answer to a PlanRequest.
    "Plan",
    # Decisions made so far about the files of a request.
    "PlanState",
    # Files of a plan, as columns.
    "PlannedFiles",
    # The step that skipped a file.
    "SkipStep",
    # Totals of a plan.
    "Summary",
    # Text, for Arrow.
    "Text",
    # The members of a dataclass with their types in Arrow.
    "arrow_types",
    # Turns a member into an Arrow array.
    "to_arrow",
]
