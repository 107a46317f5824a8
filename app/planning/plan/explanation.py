"""Explanation of a plan: the steps tried for each file, in order.

A table has many more files than a page. So steps are stored as columns, one note per step and its files, and
texts are made only for the files of a page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.planning.plan.file_plan import ExplainStep
from app.work import check_deadline

STEP_BYTES: Final = 96
"""Estimated bytes of one file's step, if it has numbers or bounds of its own."""

_SINGLE_FILES: Final = 1_024
_STEP_OBJECT_BYTES: Final = 300


class Steps(Protocol):
    """A step for each file of a note, made on access."""

    @property
    def nbytes(self) -> int:
        """Estimated bytes of memory."""
        ...

    def at(self, places: NDArray[np.int64]) -> Iterable[ExplainStep]:
        """Yield the steps at some places in the note."""
        ...


@dataclass(frozen=True, slots=True)
class CodedSteps:
    """Few distinct steps, with the code of each file's step."""

    distinct: Sequence[ExplainStep]
    codes: NDArray[np.integer]

    @property
    def nbytes(self) -> int:
        """Estimated bytes of memory."""
        return self.codes.nbytes + _STEP_OBJECT_BYTES * len(self.distinct)

    def at(self, places: NDArray[np.int64]) -> Iterator[ExplainStep]:
        """Yield the steps at some places in the note."""
        return map(self.distinct.__getitem__, self.codes[places].tolist())


@dataclass(frozen=True, slots=True)
class MeasuredSteps:
    """Steps that differ in their numbers: ``rows``, ``fpp`` and ``index_bytes``."""

    alike: CodedSteps
    numbers: pa.RecordBatch

    @classmethod
    def of(cls, steps: Sequence[ExplainStep]) -> Self:
        """Put the steps of files into columns."""
        numbers = pa.RecordBatch.from_pydict(
            {
                "rows": pa.array([step.rows for step in steps], pa.int64()),
                "fpp": pa.array([step.fpp for step in steps], pa.float64()),
                "index_bytes": pa.array([step.index_bytes for step in steps], pa.int64()),
            }
        )
        kinds: dict[tuple[object, ...], int] = {}
        distinct: list[ExplainStep] = []
        codes = np.empty(len(steps), np.int32)
        for at, step in enumerate(steps):
            kind = step.step, step.outcome, step.column, step.index, step.predicate, step.evidence
            codes[at] = code = kinds.setdefault(kind, len(distinct))
            if code == len(distinct):
                distinct.append(step)
        return cls(CodedSteps(distinct, codes), numbers)

    @property
    def nbytes(self) -> int:
        """Estimated bytes of memory."""
        return self.alike.nbytes + int(self.numbers.nbytes)

    def at(self, places: NDArray[np.int64]) -> Iterator[ExplainStep]:
        """Yield the steps at some places in the note."""
        numbers = self.numbers.take(pa.array(places)).to_pydict().values()
        for like, rows, fpp, size in zip(self.alike.at(places), *numbers, strict=True):
            alike = like.step, like.outcome, like.column, like.index, like.predicate
            yield ExplainStep(*alike, rows, like.evidence, fpp, size)


class Unless(Enum):
    """Condition under which a file does not get the step of a note."""

    NEVER = auto()
    KNOWN = auto()
    """The file has a step with the same evidence."""
    CONCLUDED = auto()
    """The latest step of the file is of this kind, and skipped the file."""

    def leaves_out(self, step: ExplainStep, before: Sequence[ExplainStep]) -> bool:
        """Return True if a step adds nothing to those before it."""
        match self:
            case Unless.NEVER:
                return False
            case Unless.KNOWN:
                return any(other.evidence == step.evidence for other in before)
            case Unless.CONCLUDED:
                return bool(before) and (before[-1].step, before[-1].outcome) == (step.step, "skip")


@dataclass(frozen=True, slots=True)
class _Note:
    files: NDArray[np.int32]  # Ascending, without duplicates.
    order: NDArray[np.int64] | None  # Places of the files in ``steps``; None if they are in order.
    steps: Steps
    unless: Unless


class Explanation:
    """Steps tried for the files of one plan; not thread-safe before the plan is made."""

    def __init__(self) -> None:
        self._notes: list[_Note] = []
        self._singles: list[tuple[int, ExplainStep]] = []

    @property
    def nbytes(self) -> int:
        """Estimated bytes of memory."""
        self._gather_singles()
        return sum(note.files.nbytes + note.steps.nbytes for note in self._notes)

    def add(
        self, files: NDArray[np.int64], steps: Steps | ExplainStep, unless: Unless = Unless.NEVER
    ) -> None:
        """Record a step for each file. ``files`` has no duplicates."""
        if len(files) == 1 and isinstance(steps, ExplainStep) and unless is Unless.NEVER:
            # A caller that decides file by file would add as many notes as there are files.
            self._singles.append((int(files[0]), steps))
            if len(self._singles) >= _SINGLE_FILES:
                self._gather_singles()
            return
        self._gather_singles()
        if isinstance(steps, ExplainStep):
            steps = CodedSteps((steps,), np.broadcast_to(np.int8(0), len(files)))
        self._note(files, steps, unless)

    def of(self, files: NDArray[np.int64]) -> list[tuple[ExplainStep, ...]]:
        """Return the steps of each file, in order."""
        self._gather_singles()
        order = np.argsort(files, kind="stable")
        ascending = files[order].astype(np.int32)
        steps_of_files: list[list[ExplainStep]] = [[] for _ in range(len(files))]
        for note in self._notes:
            if not len(files) or note.files[-1] < ascending[0] or note.files[0] > ascending[-1]:
                continue
            check_deadline()
            places = np.searchsorted(note.files, ascending)
            noted = np.flatnonzero(note.files.take(places, mode="clip") == ascending)
            places = places[noted]
            steps = note.steps.at(places if note.order is None else note.order[places])
            for at, step in zip(order[noted].tolist(), steps, strict=True):
                if not note.unless.leaves_out(step, steps_of_files[at]):
                    steps_of_files[at].append(step)
        return list(map(tuple, steps_of_files))

    def _note(self, files: NDArray[np.int64], steps: Steps, unless: Unless) -> None:
        if not len(files):
            return
        order = None
        if not (np.diff(files) > 0).all():
            order = np.argsort(files, kind="stable")
            files = files[order]
        self._notes.append(_Note(files.astype(np.int32), order, steps, unless))

    def _gather_singles(self) -> None:
        singles, self._singles = self._singles, []
        while singles:
            first_steps: dict[int, ExplainStep] = {}
            pending = []
            for file, step in singles:
                if first_steps.setdefault(file, step) is not step:
                    pending.append((file, step))
            self._note(
                np.array([*first_steps], np.int64), MeasuredSteps.of([*first_steps.values()]), Unless.NEVER
            )
            singles = pending


@dataclass(frozen=True, slots=True)
class FileSteps:
    """Steps of a plan's files, in the order of the plan. Each part has its own explanation."""

    parts: tuple[tuple[Explanation, NDArray[np.int64]], ...]

    def __len__(self) -> int:
        return sum(len(files) for _, files in self.parts)

    def __getitem__(self, at: slice) -> list[tuple[ExplainStep, ...]]:
        start, stop, _ = at.indices(len(self))
        steps: list[tuple[ExplainStep, ...]] = []
        for explanation, files in self.parts:
            steps += explanation.of(files[max(0, start) : max(0, stop)])
            start, stop = start - len(files), stop - len(files)
        return steps

    @property
    def nbytes(self) -> int:
        """Estimated bytes of memory."""
        return sum(explanation.nbytes + files.nbytes for explanation, files in self.parts)
