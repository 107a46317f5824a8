"""The files of a plan while it is being made: one column for each thing that is decided of them."""

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
"""What codes from 1 on stand for: the step that left a file out, and the kind of index where one did."""

_FILES_OF_A_PART: Final = 1 << 20

_KEPT: Final = 0
_SKIP_CODES: Final[dict[tuple[SkipStep, str | None], int]] = {
    skip: code for code, skip in enumerate(SKIPS, start=1)
}
_KEEP_REASONS: Final = tuple(KeepReason)
_REASON_CODES: Final = {reason: code for code, reason in enumerate(_KEEP_REASONS)}


@dataclass(slots=True, eq=False)
class PlanState:
    """Decisions about the files that were asked about; arrays are indexed by a file's number, shape (n,).

    Attributes:
        considered: int64, the files that are decided, ascending; None for all, whose numbers would be a
            large array.
        skips: int8, 0 while a file is kept, else the code of the step that left it out.
        reasons: int8, code of why a file is kept, if it is.
        predicate_codes: each file's filter in ``predicates``.
        merge_groups: int32, number of the files it is merged with, -1 for none.
        distrusted: the file is kept only since bounds of other writers than the engine are not trusted.
        answers: rows outside of which nothing matches, of files whose indexes say so.
        positions: the rows that are left, of files where these are not all rows and somebody needs them.
        partitions_left_out: for each partition, whether the filter is false in it; None where it names none.
    """

    files: Files
    considered: NDArray[np.int64] | None
    skips: NDArray[np.int8]
    reasons: NDArray[np.int8]
    predicates: list[BoundPredicate]
    predicate_codes: NDArray[np.integer]
    proven: NDArray[np.bool_]
    raw_convertible: NDArray[np.bool_]
    merge_groups: NDArray[np.int32]
    distrusted: NDArray[np.bool_]
    answers: dict[int, Rows] = field(default_factory=dict)
    positions: dict[int, Positions] = field(default_factory=dict)
    explanation: Explanation | None = None
    ran_out_of_time: bool = False
    fits_caches: bool = True
    partitions_left_out: NDArray[np.bool_] | None = None
    _narrowed: NDArray[np.int64] | None = None
    _used: set[int] = field(default_factory=set)
    """Codes of steps that left files out, some of which may have been taken back."""

    @classmethod
    def start(
        cls, files: Files, considered: NDArray[np.int64] | None, predicate: BoundPredicate, *, explain: bool
    ) -> Self:
        """Nothing is decided yet."""
        count = len(files)
        return cls(
            files,
            considered,
            skips=np.zeros(count, np.int8),
            reasons=np.full(count, _REASON_CODES[KeepReason.NO_FILTER], np.int8),
            predicates=[predicate],
            # One number that stands for all of them takes no memory.
            predicate_codes=np.broadcast_to(np.int8(0), count),
            proven=np.zeros(count, np.bool_),
            raw_convertible=np.ones(count, np.bool_),
            merge_groups=np.full(count, -1, np.int32),
            distrusted=np.zeros(count, np.bool_),
            explanation=Explanation() if explain else None,
        )

    @property
    def scope(self) -> slice | NDArray[np.int64]:
        """The files that are decided, as an index of arrays."""
        return slice(None) if self.considered is None else self.considered

    def left(self) -> NDArray[np.int64]:
        """The files that no step has left out, ascending."""
        if self.considered is None:
            return np.flatnonzero(self.skips == _KEPT)
        left: NDArray[np.int64] = self.considered[self.is_left(self.considered)]
        return left

    def left_in_parts(self, files_of_a_part: int = _FILES_OF_A_PART) -> Iterator[NDArray[np.int64]]:
        """The same cut up: of a table of many million files, all numbers at once would be a large array."""
        if self.considered is not None:
            yield self.left()
            return
        for start in range(0, len(self.files), files_of_a_part):
            yield start + np.flatnonzero(self.skips[start : start + files_of_a_part] == _KEPT)

    @property
    def rows_left(self) -> NDArray[np.int64]:
        """Rows that are left of filter and deletion vector; all rows of a file that merges."""
        return self.files.columns.row_counts if self._narrowed is None else self._narrowed

    def narrow(self, files: NDArray[np.int64] | int, rows: NDArray[np.int64] | int) -> None:
        """Notes how many rows are left of files."""
        if self._narrowed is None:
            self._narrowed = self.files.columns.row_counts.copy()
        self._narrowed[files] = rows

    def narrow_to_answers(self) -> None:
        """Narrows files that can be read straight to the rows that indexes answered, once all have."""
        files = np.fromiter(self.answers, np.int64, len(self.answers))
        files = files[self.is_left(files) & self.raw_convertible[files]]
        if len(files):
            positions = {file: self.answers[file].positions for file in files.tolist()}
            self.positions.update(positions)
            self.narrow(files, np.fromiter(map(len, positions.values()), np.int64, len(positions)))

    def is_left(self, files: NDArray[np.int64] | slice) -> NDArray[np.bool_]:
        """Which of some files no step has left out."""
        kept: NDArray[np.bool_] = self.skips[files] == _KEPT
        return kept

    def is_skipped_by(self, files: NDArray[np.int64] | slice, step: SkipStep) -> NDArray[np.bool_]:
        """Which of some files a step has left out."""
        codes = [code for (left_out_by, _), code in _SKIP_CODES.items() if left_out_by is step]
        return np.isin(self.skips[files], codes)

    def count_distrusted(self) -> int:
        """How many files are left for want of trust alone: they, and all that merge with them."""
        if not self.distrusted.any():
            return 0
        left = self.left()
        others = self.merge_groups[left[~self.distrusted[left]]]
        groups = self.merge_groups[left]
        is_alone = (groups < 0) | ~np.isin(groups, others)
        return int((self.distrusted[left] & is_alone).sum())

    def count_left(self, *reasons: KeepReason) -> list[int]:
        """How many files are left of each of ``predicates``; if reasons are named, those kept for them."""
        counts, codes = (
            np.zeros(len(self.predicates), np.int64),
            [_REASON_CODES[reason] for reason in reasons],
        )
        for files in self.left_in_parts():
            counted = files[np.isin(self.reasons[files], codes)] if codes else files
            counts += np.bincount(self.predicate_codes[counted], minlength=len(counts))
        return list(map(int, counts))

    def take_back(self, files: NDArray[np.int64]) -> None:
        """Has files left that a step has left out; why they are kept is as it was before."""
        self.skips[files] = _KEPT

    def skipped(self, skip: tuple[SkipStep, str | None]) -> int:
        """How many of the files that are decided were left out by a step, and a kind of index if one did."""
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
        """Leaves files out."""
        # A kind that nobody knows can still have an entry without any value.
        code = _SKIP_CODES.get((step, kind), _SKIP_CODES[step, None])
        self.skips[files] = code
        self._used.add(code)
        if self.explanation is not None:
            written = None if predicate is None else str(predicate)
            conclusion = ExplainStep(step, "skip", predicate=written, evidence=evidence)
            # The part of the filter that decided has mostly been noted.
            self.explanation.add(files, conclusion, Unless.CONCLUDED)

    def keep(self, files: NDArray[np.int64], reason: KeepReason) -> None:
        """Keeps files, even those that an earlier step has left out."""
        self.skips[files] = _KEPT
        self.reasons[files] = _REASON_CODES[reason]

    def note(self, files: NDArray[np.int64], step: ExplainStep) -> None:
        """Adds to the explanation of some files."""
        if self.explanation is not None:
            self.explanation.add(files, step)

    def note_each(self, files: NDArray[np.int64], steps: Steps, unless: Unless = Unless.NEVER) -> None:
        """Adds to the explanation of each of some files a step of its own."""
        if self.explanation is not None:
            self.explanation.add(files, steps, unless)

    def decisions(self, files: NDArray[np.int64]) -> NDArray[np.int8]:
        """For each file the code that :func:`decision` reads."""
        return np.where(self.is_left(files), ~self.reasons[files], self.skips[files])

    def is_exact(self, files: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the rows that are left of each file are just the rows of the answer."""
        exact = self.proven[files].copy()
        if self.answers:
            answers = (self.answers.get(file) for file in files.tolist())
            exact |= np.fromiter(
                (answer is not None and answer.exact for answer in answers), np.bool_, len(files)
            )
        return exact & self.raw_convertible[files]

    def by_predicate(self, files: NDArray[np.int64]) -> Iterator[tuple[BoundPredicate, NDArray[np.int64]]]:
        """Some files cut up by the filter inside of their partition."""
        if len(self.predicates) == 1 and len(files):
            yield self.predicates[0], files
            return
        for group in group_rows(self.predicate_codes[files]):
            members = files[group]
            yield self.predicates[self.predicate_codes[members[0]]], members


def decision(code: int) -> KeepReason | SkipStep:
    """Why a file is kept (negative codes), or the step that left it out."""
    return _KEEP_REASONS[~code] if code < 0 else SKIPS[code - 1][0]
