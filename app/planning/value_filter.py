"""Asks the statistics and the file indexes of single files whether any of their rows can match.

Statistics come first, for all files; the indexes are loaded only of files that statistics leave, some at a
time, so that a plan never holds the indexes of a whole table. An index that is damaged or cannot be read
keeps its file, and the plan warns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from app.errors import CorruptIndexError, DeadlineExceededError, StorageError, UnsupportedFormatError
from app.file_index.evaluation import evaluate
from app.file_index.result import KEEP, SKIP
from app.planning.answers import ExplainStep, KeepReason, SkipStep
from app.planning.evolution import in_file_schema
from app.planning.trusted_bounds import trusted_bounds
from app.predicates.bounds import Verdict, evaluate_bounds
from app.predicates.model import ALWAYS_TRUE
from app.storage import check_deadline
from app.table.statistics import key_statistics, value_statistics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from app.file_index.container import FileIndex
    from app.file_index.result import Result
    from app.file_index.trace import Step
    from app.planning.draft import Draft
    from app.planning.version import Version
    from app.predicates.bounds import ColumnBounds
    from app.predicates.model import BoundLeaf, BoundPredicate
    from app.table.manifest_entry import ManifestEntry
    from app.table.statistics import ColumnStatistics
    from app.types import DataField

_FILES_AT_ONCE: Final = 64
_UNREADABLE = (CorruptIndexError, UnsupportedFormatError, StorageError)
_OUTCOMES = {Verdict.NONE: "skip", Verdict.SOME: "unknown", Verdict.ALL: "keep"}


@dataclass(slots=True)
class ValueFilter:
    """Tests files one by one; whether a file may be judged alone is the planner's matter.

    Attributes:
        version: the version that is planned.
        warnings: where index files that could not be used are reported.
    """

    version: Version
    warnings: list[str]
    _rebound: dict[tuple[int, int], tuple[BoundPredicate, BoundPredicate]] = field(default_factory=dict)

    def test_keys(
        self, drafts: Iterable[Draft], key_part: Callable[[BoundPredicate], BoundPredicate]
    ) -> None:
        """Skips files whose range of keys lies outside of what the filter allows.

        Args:
            drafts: files of a primary key table.
            key_part: the filter with everything but key columns unknown.
        """
        for draft in drafts:
            check_deadline()
            predicate = key_part(draft.predicate)
            if predicate == ALWAYS_TRUE:
                continue
            if self._ask_statistics(draft, predicate, SkipStep.KEY_STATISTICS) is Verdict.NONE:
                draft.skip(SkipStep.KEY_STATISTICS, predicate=str(predicate))

    def test_values(self, drafts: Iterable[Draft]) -> None:
        """Skips files without a matching row, and notes the rows that can match in the others."""
        undecided = [draft for draft in drafts if self._is_left_by_statistics(draft)]
        for draft in undecided:
            draft.reason = KeepReason.NO_INDEX
        for draft, index in self.load(undecided):
            draft.answer = self._evaluate(draft, index)
            if draft.answer is SKIP:
                draft.skip(SkipStep.FILE_INDEX, predicate=str(draft.predicate))

    def test_joined(self, drafts: Sequence[Draft]) -> None:
        """Skips files that hold columns of the same rows, if by statistics none of these rows matches.

        The newest file that holds a column has its values; indexes are not asked, since an older file's index
        may be about values that a newer file has replaced.
        """
        newest_last = sorted(drafts, key=lambda draft: draft.entry.file.max_sequence_number)
        holders: dict[int, Callable[[DataField], ColumnBounds | None]] = {}
        for draft in newest_last:
            file_schema = self.version.file_schema(draft.entry)
            written = draft.entry.file.write_columns
            bounds = self.bounds(draft)
            for column in file_schema.fields:
                if written is None or column.name in written:
                    holders[column.id] = bounds

        def of_newest(asked: DataField) -> ColumnBounds | None:
            holder = holders.get(asked.id)
            return None if holder is None else holder(asked)

        predicate = newest_last[0].predicate
        if evaluate_bounds(predicate, of_newest) is Verdict.NONE:
            for draft in drafts:
                draft.skip(SkipStep.STATISTICS, predicate=str(predicate))

    def load(self, drafts: Iterable[Draft]) -> Iterator[tuple[Draft, FileIndex]]:
        """The indexes of those files that have some, loaded some at a time."""
        if not self.version.schema.options.file_index_read:
            return
        loader = self.version.loader
        indexed = (draft for draft in drafts if loader.has_file_index(draft.entry))
        while some := list(islice(indexed, _FILES_AT_ONCE)):
            check_deadline()
            # Embedded indexes are here already; only files are worth a thread.
            beside = [draft for draft in some if draft.entry.file.embedded_index is None]
            read = dict(zip(map(id, beside), loader.readers.map(self._load_one, beside), strict=True))
            for draft in some:
                found = read.get(id(draft)) or self._load_one(draft)
                if isinstance(found, Exception):
                    self.unreadable(draft, found)
                else:
                    yield draft, found

    def bounds(self, draft: Draft) -> Callable[[DataField], ColumnBounds | None]:
        """The statistics of a file's columns, in the schema of the plan."""
        statistics = value_statistics(
            draft.entry.file, self.version.file_schema(draft.entry), self.version.schema
        )
        return self._lookup(draft.entry, statistics)

    def _is_left_by_statistics(self, draft: Draft) -> bool:
        """Whether statistics neither rule the file out nor prove that all of its rows match."""
        if draft.predicate == ALWAYS_TRUE:
            draft.proven = True
            return False
        check_deadline()
        verdict = self._ask_statistics(draft, draft.predicate, SkipStep.STATISTICS)
        if verdict is Verdict.NONE:
            draft.skip(SkipStep.STATISTICS, predicate=str(draft.predicate))
        elif verdict is Verdict.ALL:
            draft.proven, draft.reason = True, KeepReason.MATCHED
        return verdict is Verdict.SOME

    def _ask_statistics(self, draft: Draft, predicate: BoundPredicate, step: SkipStep) -> Verdict:
        def note(leaf: BoundLeaf, verdict: Verdict) -> None:
            if draft.steps is not None:
                outcome = _OUTCOMES[verdict]
                draft.steps.append(ExplainStep(step, outcome, leaf.field.name, "min_max", str(leaf)))

        if step is SkipStep.KEY_STATISTICS:
            file_schema = self.version.file_schema(draft.entry)
            statistics = key_statistics(draft.entry.file, file_schema, self.version.schema)
            return evaluate_bounds(predicate, self._lookup(draft.entry, statistics), note)
        return evaluate_bounds(predicate, self.bounds(draft), note)

    def _lookup(
        self, entry: ManifestEntry, statistics: Mapping[int, ColumnStatistics]
    ) -> Callable[[DataField], ColumnBounds | None]:
        columns = self.version.schema.by_id

        def bounds(asked: DataField) -> ColumnBounds | None:
            found = statistics.get(asked.id)
            # A key of a map has the map's id, but the map's null count says nothing of it.
            if found is None or columns[asked.id].name != asked.name:
                return None
            return trusted_bounds(found, asked.type, entry.file.file_name)

        return bounds

    def _load_one(self, draft: Draft) -> FileIndex | Exception:
        try:
            return self.version.loader.file_index(draft.entry)
        except DeadlineExceededError:
            raise
        except _UNREADABLE as error:
            return error

    def _evaluate(self, draft: Draft, index: FileIndex) -> Result:
        trace: list[Step] = []
        rebound = self._in_file_schema(draft.entry, draft.predicate)
        try:
            answer = evaluate(rebound, index, row_count=draft.entry.file.row_count, trace=trace)
        except _UNREADABLE as error:
            self.unreadable(draft, error)
            return KEEP
        if any(step.index is not None for step in trace):
            draft.reason = KeepReason.MATCHED
        if draft.steps is not None:
            draft.steps.extend(ExplainStep.of(step) for step in trace)
        return answer

    def _in_file_schema(self, entry: ManifestEntry, predicate: BoundPredicate) -> BoundPredicate:
        # A filter may be large, so it is known by its id; keeping it here keeps the id its own.
        key = (entry.file.schema_id, id(predicate))
        if key not in self._rebound:
            rebound = in_file_schema(predicate, self.version.schema, self.version.file_schema(entry))
            self._rebound[key] = (predicate, rebound)
        return self._rebound[key][1]

    def unreadable(self, draft: Draft, error: Exception) -> None:
        """Keeps a file although its index cannot be used, and says so."""
        draft.reason = KeepReason.INDEX_UNREADABLE
        path = self.version.loader.paths.side_index(draft.entry) or self.version.loader.paths.data_file(
            draft.entry
        )
        shown = error.at(path) if isinstance(error, CorruptIndexError) else error
        self.warnings.append(f"the index of {draft.entry.file.file_name} is not used: {shown}")
        if draft.steps is not None:
            draft.steps.append(ExplainStep(SkipStep.FILE_INDEX, "unknown", predicate=str(error)))
