"""Makes a plan: the pruning steps, in order, over the data files of one version.

1. partition: the filter inside of a file's partition became false;
2. bucket: no key that the filter allows lies in the file's bucket;
3. primary key tables: no key of the file satisfies the key part of the filter;
4. statistics and file indexes, of one file alone or of the files that merge with it;
5. deletion vectors: none of the rows that can match is live;
6. top-n and limit.

Steps 1 to 3 are always safe for single files. Step 4 is where merging matters: see
:mod:`app.planning.merge_units`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.planning.answers import KeepReason, SkipStep
from app.planning.bucket_pruning import BucketPruning
from app.planning.draft import Draft
from app.planning.first_rows import enough_for_limit, keep_first_rows
from app.planning.live_rows import LiveRows
from app.planning.merge_units import KeyRange, merge_units, sections
from app.planning.requests import SelectionForm
from app.planning.specialise import only_on, specialise
from app.planning.value_filter import ValueFilter
from app.planning.version import keeps_one_version
from app.predicates.model import ALWAYS_FALSE
from app.table.options import MergeEngine
from app.table.statistics import key_range
from app.types import DataField, DataType, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from app.planning.merge_units import MergeUnit
    from app.planning.requests import PlanRequest
    from app.planning.version import Version
    from app.predicates.model import BoundPredicate
    from app.table.manifest_entry import ManifestEntry

_ROW_ID = (DataField(-1, "_ROW_ID", DataType(TypeRoot.BIGINT)),)


@dataclass(slots=True)
class Planner:
    """Plans one request.

    Attributes:
        version: what is planned.
        request: what was asked.
        predicate: the request's filter, bound to the version's schema.
        warnings: what did not stop the plan but should be known.
    """

    version: Version
    request: PlanRequest
    predicate: BoundPredicate
    warnings: list[str] = field(default_factory=list)

    def run(self) -> list[Draft]:
        """Every file that was asked about, decided, in manifest order."""
        drafts = self._drafts()
        self._prune_partitions(drafts)
        BucketPruning(self.version, self.warnings).prune(drafts)
        values = ValueFilter(self.version, self.warnings)
        if self.version.schema.options.data_evolution:
            self._join_columns(_left(drafts), values)
        elif self.version.schema.primary_keys:
            self._judge_units(drafts, values)
        else:
            values.test_values(_left(drafts))
        if self.request.files is not None:
            asked = frozenset(self.request.files)
            drafts = [draft for draft in drafts if draft.entry.file.file_name in asked]
        wants_positions = self.request.selection not in (SelectionForm.NONE, SelectionForm.COUNT)
        live = LiveRows(self.version, wants_positions=wants_positions or self.request.top_n is not None)
        live.apply(_left(drafts))
        if self.request.top_n is not None:
            keep_first_rows(_left(drafts), self.request.top_n, values)
        elif self.request.limit is not None:
            enough_for_limit(_left(drafts), self.request.limit)
        return drafts

    def _drafts(self) -> list[Draft]:
        entries: Sequence[ManifestEntry] = self.version.contents.visible
        if self.request.files is not None:
            asked = frozenset(self.request.files)
            # Files of one bucket may merge, so the ones beside a file that was asked for matter too.
            buckets = {(each.partition, each.bucket) for each in entries if each.file.file_name in asked}
            entries = [each for each in entries if (each.partition, each.bucket) in buckets]
        return [Draft(each, self.predicate, [] if self.request.explain else None) for each in entries]

    def _prune_partitions(self, drafts: Iterable[Draft]) -> None:
        """Gives each file the filter of its partition; one object per partition."""
        fields = self.version.schema.partition_fields
        if not fields:
            for draft in drafts:
                if draft.predicate == ALWAYS_FALSE:
                    draft.skip(SkipStep.STATISTICS, predicate=str(self.predicate))
            return
        by_partition: dict[bytes, BoundPredicate] = {}
        for draft in drafts:
            row = draft.entry.partition
            if row not in by_partition:
                values = self.version.partition(row)
                known = {each.id: value for each, value in zip(fields, values, strict=True)}
                by_partition[row] = specialise(self.predicate, known)
            draft.predicate = by_partition[row]
            if draft.predicate == ALWAYS_FALSE:
                draft.skip(SkipStep.PARTITION, predicate=str(self.predicate))

    def _judge_units(self, drafts: Sequence[Draft], values: ValueFilter) -> None:
        keys = frozenset(each.id for each in self.version.schema.trimmed_primary_keys)
        values.test_keys(_left(drafts), lambda predicate: only_on(predicate, keys))
        by_unit = self._units(_left(drafts))
        alone = [draft for unit, members in by_unit if self._is_judged_alone(unit) for draft in members]
        values.test_values(alone)
        group = 0
        for unit, members in by_unit:
            if not self._is_judged_alone(unit):
                self._judge_together(members, values)
            kept = _left(members)
            if unit.raw_convertible or not kept:
                continue
            for draft in kept:
                draft.raw_convertible, draft.merge_group = False, group
            group += 1

    def _units(self, drafts: Iterable[Draft]) -> list[tuple[MergeUnit, list[Draft]]]:
        """The units of every bucket, each with its files."""
        buckets: dict[tuple[bytes, int], list[Draft]] = defaultdict(list)
        for draft in drafts:
            buckets[draft.entry.partition, draft.entry.bucket].append(draft)
        schema = self.version.schema
        found: list[tuple[MergeUnit, list[Draft]]] = []
        for members in buckets.values():
            ranges = [
                KeyRange(
                    draft.entry.file, *key_range(draft.entry.file, self.version.file_schema(draft.entry))
                )
                for draft in members
            ]
            by_file = {id(draft.entry.file): draft for draft in members}
            units = merge_units(ranges, schema.trimmed_primary_keys, one_version=keeps_one_version(schema))
            found.extend((unit, [by_file[id(file)] for file in unit.files]) for unit in units)
        return found

    def _is_judged_alone(self, unit: MergeUnit) -> bool:
        return len(unit.files) == 1 or keeps_one_version(self.version.schema)

    def _judge_together(self, members: Sequence[Draft], values: ValueFilter) -> None:
        """Files that merge: all or none, and none only where a merged row is one of the rows merged."""
        if self.version.schema.merge_engine is MergeEngine.DEDUPLICATE:
            values.test_values(members)
            if all(draft.skipped is not None for draft in members):
                return
        for draft in members:
            draft.skipped, draft.reason = None, KeepReason.MERGE_REQUIRED
            draft.tried(SkipStep.FILE_INDEX, "keep", predicate="merges with other files of its bucket")

    def _join_columns(self, drafts: Sequence[Draft], values: ValueFilter) -> None:
        """Files that hold columns of the same rows are read together, and judged by all their columns."""
        ranges = [
            KeyRange(file, (file.first_row_id,), (file.first_row_id + file.row_count - 1,))
            for file in (draft.entry.file for draft in drafts)
            if file.first_row_id is not None
        ]
        by_file = {id(draft.entry.file): draft for draft in drafts}
        for draft in drafts:
            draft.raw_convertible, draft.reason = False, KeepReason.MERGE_REQUIRED
        for group, section in enumerate(sections(ranges, _ROW_ID)):
            members = [by_file[id(file)] for file in section]
            if len({(file.first_row_id, file.row_count) for file in section}) == 1:
                values.test_joined(members)
            for draft in members:
                draft.merge_group = group


def _left(drafts: Iterable[Draft]) -> list[Draft]:
    """The files that no step has left out."""
    return [draft for draft in drafts if draft.skipped is None]
