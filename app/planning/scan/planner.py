"""Plans of one version: the pruning steps over its data files, in order.

1. partition: the filter inside the file's partition is false.
2. bucket: no key that the filter allows is in the file's bucket.
3. primary key tables: no key of the file satisfies the key part of the filter.
4. statistics and file indexes, of one file alone or of the files that merge with it.
5. deletion vectors: none of the rows that can match is live.
6. top-n and limit.

Every step decides all kept files at once. Steps 1 to 3 are safe for single files. Step 4 must respect
merging: see :mod:`app.planning.scan.merge_units`.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final, TypeGuard

import numpy as np
from numpy.typing import NDArray

from app.file_index import KINDS, condition_of
from app.observation import Phase, during
from app.options import MergeEngine
from app.planning.plan.answers import Plan, PlanWarnings, answer_plan
from app.planning.plan.explanation import STEP_BYTES
from app.planning.plan.file_plan import ExplainStep, KeepReason, SkipStep
from app.planning.plan.planned_files import FILE_BYTES
from app.planning.plan.state import PlanState
from app.planning.request.budget import UNBOUNDED, Budget, budget_warnings
from app.planning.request.filters import filter_warnings, read_filter
from app.planning.request.limits import Limits
from app.planning.request.requests import PlanRequest, SelectionForm
from app.planning.scan.bucket_pruning import BucketPruning
from app.planning.scan.data_evolution import judge_groups, keep_deleted_together
from app.planning.scan.first_rows import enough_for_limit, keep_first_rows
from app.planning.scan.global_indexes import GlobalIndexes
from app.planning.scan.index_filter import IndexFilter
from app.planning.scan.live_rows import LiveRows
from app.planning.scan.merge_units import MergeUnits, units_of_version
from app.planning.scan.partition_pruning import needed_manifests, only_on, prune_partitions
from app.planning.scan.value_filter import ValueFilter
from app.planning.side_files.file_indexes import FileIndexes
from app.planning.version.file_bounds import FileBounds
from app.planning.version.version import Version
from app.predicates import ROW_ID, Names
from app.predicates.model import (
    ALWAYS_TRUE,
    NULL_TESTS,
    BoundLeaf,
    BoundPredicate,
    Constant,
    Operator,
    Unknown,
    leaves,
)
from app.table import BucketMode


@dataclass(frozen=True, slots=True)
class Decisions:
    """Decisions about the files of a version."""

    version: Version  # Has only the needed manifests, unless the request reads everything.
    request: PlanRequest
    predicate: BoundPredicate
    state: PlanState
    warnings: PlanWarnings
    timings_ms: Mapping[str, float]
    claim: Callable[[int], None]

    def plan(self) -> Plan:
        """Make the answer. Raises MemoryShortError or LimitExceededError if memory is short."""
        if not self.request.explain:
            files = sum(map(len, self.state.left_in_parts()))
            rows = max(self.state.answer_bytes, len(self.state.positions) * FILE_BYTES)
            self.claim(files * FILE_BYTES + rows)
        return answer_plan(
            self.version, self.request, self.predicate, self.state, self.warnings, self.timings_ms
        )


def decide(
    version: Version,
    request: PlanRequest,
    limits: Limits,
    *,
    named: NDArray[np.int64] | None = None,
    budget: Budget = UNBOUNDED,
    claim: Callable[[int], None] = lambda _: None,
) -> Decisions:
    """Decide which files of a version a request needs. Ignore the request's selector.

    ``claim`` claims memory: for an explanation before it begins, for rows as indexes find them, for files
    before they are listed.

    Raises FilterError if the filter cannot be read, or does not fit. Raises LimitExceededError if the
    explanation or the rows need more memory than there is. Raises MemoryShortError if other work has the
    memory at the moment. Raises SnapshotExpiredError if the version expired meanwhile.
    """
    started = time.perf_counter()
    with during(Phase.LOAD):
        fields, relation = version.schema.fields, version.relation
        warnings = PlanWarnings()
        predicate = read_filter(request.filter, fields, limits, relation, request.in_lists, warnings.lasting)
        if not request.reads_everything:
            needed = needed_manifests(version, predicate, warnings.lasting)
            version = version if needed is None else version.with_manifests(needed)
        version.load()
        if request.explain:
            claim(_explained_bytes(version, request, predicate))
    loaded = time.perf_counter()
    with during(Phase.EVALUATE):
        state = Planner(version, request, predicate, warnings, budget, named, claim).run()
        version.keep_derived()
    timings = {
        "resolve": version.resolving_ms,
        "load": (loaded - started) * 1000,
        "evaluate": (time.perf_counter() - loaded) * 1000,
    }
    return Decisions(version, request, predicate, state, warnings, timings, claim)


def _explained_bytes(version: Version, request: PlanRequest, predicate: BoundPredicate) -> int:
    files = len(version.files()) + len(version.hidden_files() or ())
    if request.files is not None:
        files = min(files, len(request.files))
    steps = 1 + sum(1 for _ in leaves(predicate))
    return files * (FILE_BYTES + steps * STEP_BYTES)


@dataclass(slots=True)
class Planner:
    """Plans one request."""

    version: Version
    request: PlanRequest
    predicate: BoundPredicate
    warnings: PlanWarnings
    budget: Budget = UNBOUNDED
    named: NDArray[np.int64] | None = None
    claim: Callable[[int], None] = lambda _: None

    def run(self) -> PlanState:
        """Decide every requested file."""
        version, request = self.version, self.request
        files = version.files()
        named = self.named
        if named is None and request.files is not None:
            named = files.named(request.files)
        state = PlanState.start(
            files, self._with_whole_buckets(named), self.predicate, explain=request.explain
        )
        self._prune_places(state)
        bounds = FileBounds(version)
        values = ValueFilter(bounds)
        # Files that hold columns of the same rows are decided together. A budget could end in between.
        is_bounded = not (request.explain or request.top_n or version.schema.options.data_evolution)
        budget = self.budget if is_bounded else UNBOUNDED
        file_indexes = FileIndexes(version, budget)
        passing = self.warnings.passing
        indexes = IndexFilter(version, file_indexes, passing, budget.before_deadline(), self.claim)
        joined, global_indexes = None, GlobalIndexes(version, self.warnings)
        if version.schema.options.data_evolution:
            joined = judge_groups(state, state.left(), values, indexes, global_indexes)
        elif version.schema.primary_keys:
            self._judge_units(state, values, indexes)
        else:
            self._test_values(state, values, indexes, state.left_in_parts())
        if named is not None:
            state.considered = named
        if self._wants_rows:
            indexes.find_rows(state)
            global_indexes.find_rows(state, self.claim)
            state.narrow_to_answers()
        else:
            # Evaluation finds rows of some files as a by-product. The request needs none.
            state.answers.clear()
            state.answer_bytes = 0
        if version.contents().vectors.places:
            LiveRows(version, wants_positions=self._wants_positions).apply(state)
        if joined is not None:
            keep_deleted_together(state, joined)
        if request.top_n is not None:
            names = Names(version.schema.fields, version.relation)
            doubt = keep_first_rows(state, request.top_n, names, values.bounds, indexes)
            self.warnings.lasting += [] if doubt is None else [doubt]
        elif request.limit is not None and indexes.are_evaluated_in_full:
            # Pages may come from several plans, which must choose the same files.
            enough_for_limit(state, request.limit)
        state.ran_out_of_time = not file_indexes.are_complete or indexes.unevaluated_files > 0
        beyond_memory = file_indexes.lasting_warnings()
        state.fits_caches = not beyond_memory
        self.warnings.lasting = [
            *narrowing_warnings(state, self.predicate),
            *self.warnings.lasting,
            *self._distrust_warnings(state.count_distrusted()),
            *self._unreadable_warnings(bounds.unreadable),
            *beyond_memory,
            *self._table_warnings(),
        ]
        self.warnings.passing += file_indexes.passing_warnings() + budget_warnings(indexes.unevaluated_files)
        self.warnings.undecided += undecided_warnings(state, values.bounded, version)
        return state

    def _prune_places(self, state: PlanState) -> None:
        prune_partitions(state, self.version)
        if self.version.schema.bucket_mode is not BucketMode.BUCKET_UNAWARE:
            BucketPruning(self.version, self.warnings.passing).prune(state)

    def _table_warnings(self) -> list[str]:
        contents, warnings = self.version.contents(), []
        other_kinds = ", ".join(sorted(contents.other_indexes))
        if other_kinds and self.predicate != ALWAYS_TRUE:
            warnings.append(
                f"the table has indexes that the engine alone reads ({other_kinds}): its own plan may skip "
                "more than this one, and the engine's catalog leaves such tables to it"
            )
        invisible = len(self.version.hidden_files() or ())
        if invisible and not len(self.version.files()):
            warnings.append(
                f"readers see none of the table's rows yet: {invisible} files are invisible to them until a "
                "compaction, as always with deletion vectors, the merge engine first-row or postponed buckets"
            )
        return warnings

    def _test_values(
        self, state: PlanState, values: ValueFilter, indexes: IndexFilter, parts: Iterable[NDArray[np.int64]]
    ) -> None:
        """Skip files without a match by statistics or indexes, in ascending parts."""
        for part in parts:
            indexes.test(state, values.test_values(state, part))

    def _distrust_warnings(self, files: int) -> list[str]:
        if not files:
            return []
        warning = (
            f"{files} files are kept only because their writer may have ignored NaN in bounds of FLOAT and "
            f"DOUBLE, or written bounds of TIMESTAMP(0 to 3) in its own time zone: if only the Java engine "
            f"writes to the warehouse {self.version.source.warehouse.name}, name it in "
            f"PAIMON_INDEX_ENGINE_WRITES_ONLY"
        )
        return [warning]

    def _unreadable_warnings(self, columns: Iterable[str]) -> list[str]:
        return [
            f"bounds of column {column} are ignored in files where they are unreadable; pypaimon up to 1.4.2 "
            "writes such bounds for DECIMAL of more than 18 digits and timestamps of more than 3, and a "
            "compaction by the Java engine rewrites them"
            for column in columns
        ]

    @property
    def _wants_positions(self) -> bool:
        given_out = self.request.selection not in (SelectionForm.NONE, SelectionForm.COUNT)
        return given_out or self.request.top_n is not None

    @property
    def _wants_rows(self) -> bool:
        request = self.request
        first_rows = request.limit is not None or request.top_n is not None
        return first_rows or request.selection is not SelectionForm.NONE

    def _with_whole_buckets(self, named: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
        """Add to named files all others of their buckets, if files may be read together. None means all."""
        schema = self.version.schema
        if named is None or not (schema.primary_keys or schema.options.data_evolution):
            return named
        buckets = self.version.files().columns.bucket_keys
        return np.flatnonzero(np.isin(buckets, buckets[named]))

    def _judge_units(self, state: PlanState, values: ValueFilter, indexes: IndexFilter) -> None:
        schema = self.version.schema
        keys = frozenset(field.id for field in schema.trimmed_primary_keys)
        values.test_keys(state, state.left(), partial(only_on, field_ids=keys))
        units = units_of_version(self.version, state.left())
        if schema.hides_level_zero:
            alone = np.ones(len(units.files), np.bool_)
        else:
            alone = (units.sizes == 1)[units.numbers]
        if schema.merge_engine is MergeEngine.DEDUPLICATE:
            # A merged row equals one of its input rows, so a unit in which no file matches can be skipped.
            tested = np.sort(units.files)
        else:
            tested = np.sort(units.files[alone])
        self._test_values(state, values, indexes, (tested,))
        self._keep_together(state, units, alone)

    def _keep_together(self, state: PlanState, units: MergeUnits, alone: NDArray[np.bool_]) -> None:
        kept = state.is_left(units.files)
        is_kept = np.zeros(len(units.starts), np.bool_)
        if self.version.schema.merge_engine is MergeEngine.DEDUPLICATE:
            is_kept[units.numbers[kept]] = True
        else:
            is_kept[:] = True
        merging = ~alone & is_kept[units.numbers]
        state.keep(units.files[merging], KeepReason.MERGE_REQUIRED)
        state.note(
            units.files[merging],
            ExplainStep(SkipStep.FILE_INDEX, "keep", evidence="merges with other files of its bucket"),
        )
        merged = ~units.raw_convertible
        grouped = state.is_left(units.files) & merged[units.numbers]
        state.raw_convertible[units.files[grouped]] = False
        if len(units.files):
            # Numbered by their first file, so that pages from several plans agree on the number.
            first = np.minimum.reduceat(units.files, units.starts)
            state.merge_groups[units.files[grouped]] = first[units.numbers[grouped]]


_WITHIN_TEXT: Final = frozenset({Operator.ENDS_WITH, Operator.CONTAINS})
_MOST_TESTS: Final = 5


def narrowing_warnings(state: PlanState, predicate: BoundPredicate) -> list[str]:
    """Return warnings that name ways to narrow the answer, for the filters of kept files."""
    if not any(isinstance(part, Unknown) for part in leaves(predicate)):
        return []
    counts = state.count_left()
    return list(
        filter_warnings(*(each for each, files in zip(state.predicates, counts, strict=True) if files))
    )


def undecided_warnings(state: PlanState, bounded: Container[tuple[str, bool]], version: Version) -> list[str]:
    """Warn of files kept because neither bounds nor an index decide a test, and name a remedy.

    ``bounded``: ``(column, False)`` if some file has bounds of it, ``(column, True)`` for counts of NULLs.
    """
    undecided = [[part for part in leaves(each) if _is_undecided(part, bounded)] for each in state.predicates]
    if not any(undecided):
        return []
    # Files whose bounds enclose the literal were evaluated, and are not counted.
    counts = state.count_left(KeepReason.NO_INDEX, KeepReason.NOT_DECIDABLE)
    kept = [(parts, files) for parts, files in zip(undecided, counts, strict=True) if parts and files]
    ways = {str(part): _way_out(part, version) for parts, _ in kept for part in parts}
    shown = "; ".join(f"{test} ({way})" for test, way in islice(ways.items(), _MOST_TESTS))
    rest = f"; and {len(ways) - _MOST_TESTS} more tests" if len(ways) > _MOST_TESTS else ""
    warning = (
        f"{sum(files for _, files in kept):,} files are kept undecided, since none of them has bounds or an "
        f"index that decide {shown}{rest}"
    )
    return [warning] if ways else []


def _is_undecided(
    part: BoundLeaf | Constant | Unknown, bounded: Container[tuple[str, bool]]
) -> TypeGuard[BoundLeaf]:
    return isinstance(part, BoundLeaf) and (
        part.operator in _WITHIN_TEXT or (part.field.name, part.operator in NULL_TESTS) not in bounded
    )


def _way_out(leaf: BoundLeaf, version: Version) -> str:
    name, condition, options = leaf.field.name, condition_of(leaf), version.schema.options
    if condition is None:
        return f"only patterns with a fixed beginning can be decided: {name} LIKE 'abc%'"
    if options.data_evolution and leaf.field.id in version.contents().global_indexes:
        return f"extend the global index of {name}, which does not cover them"
    can_help = options.file_index_read and leaf.field != ROW_ID
    kinds = [
        kind
        for kind, index in KINDS.items()
        if can_help and index.takes(leaf.field.type) and index.can_answer(condition)
    ]
    declared = [each.kind for each in options.file_indexes if each.column == name and each.kind in kinds]
    if declared:
        label = shlex.quote(f"{version.table.database}.{version.table.name}")
        return f"declared: {', '.join(declared)}; these files lack it: `paimon-index job build-index {label}`"
    return f"bounds of {name} would{', or an index of it: ' if kinds else ''}{', '.join(kinds)}"
