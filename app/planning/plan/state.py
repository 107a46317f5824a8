"""Decisions about the files of a plan while it is made, as columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from app.file_index import KINDS
from app.file_index.answers import Rows
from app.planning.plan.explanation import Explanation, Steps, Unless
from app.planning.plan.file_plan import ExplainStep, KeepReason, SkipStep
from app.planning.version.files import Files
from app.predicates.model import BoundPredicate
from app.types.roaring import Positions
from app.types.values import group_rows

SKIPS: Final = (*((step, None) for step in SkipStep), *((SkipStep.FILE_INDEX, kind) for kind in KINDS))
"""Meaning of skip codes from 1 on: the step, and the kind of index if a file index decided."""

_FILES_OF_A_PART: Final = 1 << 20

_KEPT: Final = 0
_SKIP_CODES: Final[dict[tuple[SkipStep, str | None], int]] = {
    skip: code for code, skip in enumerate(SKIPS, start=1)
}
_KEEP_REASONS: Final = tuple(KeepReason)
_REASON_CODES: Final = {reason: code for code, reason in enumerate(_KEEP_REASONS)}


@dataclass(slots=True, eq=False)
class PlanState:
    """Decisions about the requested files. Unless noted, arrays are indexed by file number, shape (n,)."""

    files: Files
    # Requested files, ascending; None for all, whose numbers would be a large array.
    considered: NDArray[np.int64] | None
    skips: NDArray[np.int8]  # 0 while a file is kept, else the code of the step that skipped it.
    reasons: NDArray[np.int8]  # Code of the reason why a file is kept, if it is.
    predicates: list[BoundPredicate]
    predicate_codes: NDArray[np.integer]  # Position of each file's filter in ``predicates``.
    proven: NDArray[np.bool_]
    raw_convertible: NDArray[np.bool_]
    merge_groups: NDArray[np.int32]  # Number shared by files that merge, -1 for none.
    # The file is kept only because bounds of other writers than the engine are not trusted.
    distrusted: NDArray[np.bool_]
    # Rows that indexes found, by file. No other row of the file matches.
    answers: dict[int, Rows] = field(default_factory=dict)
    # Approximate memory of ``answers``.
    answer_bytes: int = 0
    # Remaining rows by file, unless all rows remain or the request needs no rows.
    positions: dict[int, Positions] = field(default_factory=dict)
    # Rows that can match, by the newest file of a group that holds columns of the same rows.
    joined_rows: dict[int, Positions] = field(default_factory=dict)
    explanation: Explanation | None = None
    ran_out_of_time: bool = False
    fits_caches: bool = True
    # True for partitions in which the filter is false. None if the filter names no partition column.
    partitions_skipped: NDArray[np.bool_] | None = None
    _narrowed: NDArray[np.int64] | None = None
    # Codes of steps that skipped files. Some skips may be undone.
    _used: set[int] = field(default_factory=set)

    @classmethod
    def start(
        cls, files: Files, considered: NDArray[np.int64] | None, predicate: BoundPredicate, *, explain: bool
    ) -> Self:
        """Keep every file until a step decides otherwise."""
        count = len(files)
        return cls(
            files,
            considered,
            skips=np.zeros(count, np.int8),
            reasons=np.full(count, _REASON_CODES[KeepReason.NO_FILTER], np.int8),
            predicates=[predicate],
            # A broadcast number takes no memory.
            predicate_codes=np.broadcast_to(np.int8(0), count),
            proven=np.zeros(count, np.bool_),
            raw_convertible=np.ones(count, np.bool_),
            merge_groups=np.full(count, -1, np.int32),
            distrusted=np.zeros(count, np.bool_),
            explanation=Explanation() if explain else None,
        )

    @property
    def scope(self) -> slice | NDArray[np.int64]:
        """The requested files, as an index into arrays."""
        return slice(None) if self.considered is None else self.considered

    def left(self) -> NDArray[np.int64]:
        """Return the files that are kept so far, ascending."""
        if self.considered is None:
            return np.flatnonzero(self.skips == _KEPT)
        left: NDArray[np.int64] = self.considered[self.is_left(self.considered)]
        return left

    def left_in_parts(self, files_of_a_part: int = _FILES_OF_A_PART) -> Iterator[NDArray[np.int64]]:
        """Yield :meth:`left` in parts, since the numbers of many million files would be a large array."""
        if self.considered is not None:
            yield self.left()
            return
        for start in range(0, len(self.files), files_of_a_part):
            yield start + np.flatnonzero(self.skips[start : start + files_of_a_part] == _KEPT)

    @property
    def rows_left(self) -> NDArray[np.int64]:
        """Remaining rows after filter and deletion vector. All rows of a file that merges."""
        return self.files.columns.row_counts if self._narrowed is None else self._narrowed

    def narrow(self, files: NDArray[np.int64] | int, rows: NDArray[np.int64] | int) -> None:
        """Record how many rows of files remain."""
        if self._narrowed is None:
            self._narrowed = self.files.columns.row_counts.copy()
        self._narrowed[files] = rows

    def narrow_to_answers(self) -> None:
        """Narrow raw convertible files to the rows that indexes found, after all are evaluated."""
        files = np.fromiter(self.answers, np.int64, len(self.answers))
        files = files[self.is_left(files) & self.raw_convertible[files]]
        if len(files):
            positions = {file: self.answers[file].positions for file in files.tolist()}
            self.positions.update(positions)
            self.narrow(files, np.fromiter(map(len, positions.values()), np.int64, len(positions)))

    def is_left(self, files: NDArray[np.int64] | slice) -> NDArray[np.bool_]:
        """Return True for each file that is kept so far."""
        kept: NDArray[np.bool_] = self.skips[files] == _KEPT
        return kept

    def is_skipped_by(self, files: NDArray[np.int64] | slice, step: SkipStep) -> NDArray[np.bool_]:
        """Return True for each file that a step skipped."""
        codes = [code for code in self._used if SKIPS[code - 1][0] is step]
        skips = self.skips[files]
        return np.isin(skips, codes) if codes else np.zeros(len(skips), np.bool_)

    def count_distrusted(self) -> int:
        """Count files kept only because their bounds are distrusted. Files that merge count all or none."""
        if not self.distrusted.any():
            return 0
        left = self.left()
        trusted_groups = self.merge_groups[left[~self.distrusted[left]]]
        groups = self.merge_groups[left]
        is_alone = (groups < 0) | ~np.isin(groups, trusted_groups)
        return int((self.distrusted[left] & is_alone).sum())

    def count_left(self, *reasons: KeepReason) -> list[int]:
        """Count kept files, or those kept for ``reasons``, by their filter in ``predicates``."""
        counts, codes = (
            np.zeros(len(self.predicates), np.int64),
            [_REASON_CODES[reason] for reason in reasons],
        )
        for files in self.left_in_parts():
            counted = files[np.isin(self.reasons[files], codes)] if codes else files
            counts += np.bincount(self.predicate_codes[counted], minlength=len(counts))
        return list(map(int, counts))

    def undo_skips(self, files: NDArray[np.int64]) -> None:
        """Keep skipped files again, for the reason recorded before the skip."""
        self.skips[files] = _KEPT

    def skipped(self, skip: tuple[SkipStep, str | None]) -> int:
        """Count the requested files that a step skipped, by a kind of index if one is named."""
        code = _SKIP_CODES[skip]
        return int(np.count_nonzero(self.skips[self.scope] == code)) if code in self._used else 0

    def skip(
        self,
        files: NDArray[np.int64],
        step: SkipStep,
        *,
        kind: str | None = None,
        predicate: BoundPredicate | None = None,
        evidence: str | None = None,
    ) -> None:
        """Skip files."""
        # An index of unknown kind can still skip a file: by an entry that records that there is no value.
        code = _SKIP_CODES.get((step, kind), _SKIP_CODES[step, None])
        self.skips[files] = code
        self._used.add(code)
        if self.explanation is not None:
            written = None if predicate is None else str(predicate)
            conclusion = ExplainStep(step, "skip", predicate=written, evidence=evidence)
            # Most steps have noted before which part of the filter decided.
            self.explanation.add(files, conclusion, Unless.CONCLUDED)

    def keep(self, files: NDArray[np.int64], reason: KeepReason) -> None:
        """Keep files, including files that an earlier step skipped."""
        self.skips[files] = _KEPT
        self.reasons[files] = _REASON_CODES[reason]

    def note(self, files: NDArray[np.int64], step: ExplainStep) -> None:
        """Add a step to the explanation of files."""
        if self.explanation is not None:
            self.explanation.add(files, step)

    def note_each(self, files: NDArray[np.int64], steps: Steps, unless: Unless = Unless.NEVER) -> None:
        """Add each file's own step to the explanation."""
        if self.explanation is not None:
            self.explanation.add(files, steps, unless)

    def decisions(self, files: NDArray[np.int64]) -> NDArray[np.int8]:
        """Return the code of each file's decision, for :func:`decision`."""
        return np.where(self.is_left(files), ~self.reasons[files], self.skips[files])

    def is_exact(self, files: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return True for each file whose remaining rows are exactly its rows in the answer."""
        exact = self.proven[files].copy()
        if self.answers:
            answers = (self.answers.get(file) for file in files.tolist())
            exact |= np.fromiter(
                (answer is not None and answer.exact for answer in answers), np.bool_, len(files)
            )
        return exact & self.raw_convertible[files]

    def by_predicate(self, files: NDArray[np.int64]) -> Iterator[tuple[BoundPredicate, NDArray[np.int64]]]:
        """Yield files grouped by the filter inside their partition."""
        if len(self.predicates) == 1 and len(files):
            yield self.predicates[0], files
            return
        for group in group_rows(self.predicate_codes[files]):
            members = files[group]
            yield self.predicates[self.predicate_codes[members[0]]], members


def decision(code: int) -> KeepReason | SkipStep:
    """Decode the reason why a file is kept (negative codes), or the step that skipped it."""
    return _KEEP_REASONS[~code] if code < 0 else SKIPS[code - 1][0]
