"""Asks file indexes whether any row of a file can match, and which.

An index that is damaged or cannot be read keeps its file, and the plan warns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from app.errors import CorruptIndexError, StorageError, UnsupportedFormatError
from app.file_index.evaluation import evaluate
from app.file_index.result import SKIP, Rows
from app.planning.answers import ExplainStep, KeepReason, SkipStep
from app.planning.evolution import in_file_schema
from app.storage import check_deadline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from app.file_index.container import FileIndex
    from app.file_index.trace import Step
    from app.planning.drafts import Drafts
    from app.planning.file_indexes import FileIndexes
    from app.planning.version import Version
    from app.predicates.model import BoundPredicate

UNUSABLE: Final = (CorruptIndexError, UnsupportedFormatError, StorageError)


@dataclass(slots=True)
class IndexFilter:
    """The file indexes of one version.

    Attributes:
        version: the version that is planned.
        indexes: loads them.
        warnings: where indexes that could not be used are reported.
    """

    version: Version
    indexes: FileIndexes
    warnings: list[str]

    def test(self, drafts: Drafts, files: NDArray[np.int64]) -> None:
        """Skips files without a matching row.

        Args:
            drafts: the plan.
            files: those that statistics leave undecided, ascending.
        """
        drafts.keep(files, KeepReason.NO_INDEX)
        if not self.version.schema.options.file_index_read:
            return
        for predicate, members in drafts.by_predicate(files):
            schema_ids = drafts.files.columns.schema_ids[members]
            for schema_id in np.unique(schema_ids).tolist():
                check_deadline()
                rebound = in_file_schema(predicate, self.version.schema, self.version.file_schema(schema_id))
                some = members[schema_ids == schema_id]
                some = some[self.indexes.has_index(some)]
                self._ask_rows(drafts, dict.fromkeys(some.tolist(), rebound))

    def open(self, drafts: Drafts, files: NDArray[np.int64]) -> Iterator[tuple[int, FileIndex]]:
        """The complete indexes of those files that have some they can use."""
        if not self.version.schema.options.file_index_read:
            return
        indexed = files[self.indexes.has_index(files)].tolist()
        for file, index in self.indexes.open(dict.fromkeys(indexed)):
            if isinstance(index, Exception):
                self.unreadable(drafts, file, index)
            else:
                yield file, index

    def unreadable(self, drafts: Drafts, file: int, error: Exception) -> None:
        """Keeps a file although its index cannot be used, and says so."""
        at = np.array([file])
        drafts.keep(at, KeepReason.INDEX_UNREADABLE)
        shown = error.at(self.indexes.path(file)) if isinstance(error, CorruptIndexError) else error
        self.warnings.append(f"the index of {drafts.files.name(file)} is not used: {shown}")
        drafts.note(at, ExplainStep(SkipStep.FILE_INDEX, "unknown", predicate=str(error)))

    def _ask_rows(self, drafts: Drafts, filters: dict[int, BoundPredicate]) -> None:
        """Asks single files for their rows; skips those that have none."""
        for file, index in self.indexes.open(filters):
            if isinstance(index, Exception):
                self.unreadable(drafts, file, index)
                continue
            trace: list[Step] = []
            row_count = int(drafts.files.columns.row_counts[file])
            try:
                answer = evaluate(filters[file], index, row_count=row_count, trace=trace)
            except UNUSABLE as error:
                self.unreadable(drafts, file, error)
                continue
            at = np.array([file])
            if any(step.index is not None for step in trace):
                drafts.keep(at, KeepReason.MATCHED)
            for step in trace:
                drafts.note(at, ExplainStep.of(step))
            if isinstance(answer, Rows):
                drafts.answers[file] = answer
            elif answer is SKIP:
                drafts.skip(at, SkipStep.FILE_INDEX, explained=str(filters[file]))
