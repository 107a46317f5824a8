"""Subtracts deleted rows: the fifth step of a plan.

A damaged or missing deletion vector is an error: without it a reader would see deleted rows again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap, BitMap64

from app.deletion_vectors import DeletionVector
from app.planning.deletions import load_vectors
from app.planning.plan.file_plan import ExplainStep, SkipStep
from app.planning.plan.state import PlanState
from app.planning.version.vector_places import UNKNOWN_CARDINALITY
from app.planning.version.version import Version
from app.types.roaring import Positions
from app.work import check_deadline

_ROWS_OF_32_BITS: Final = 1 << 32
_VECTORS_AT_ONCE: Final = 1024


@dataclass(frozen=True, slots=True)
class LiveRows:
    """Narrows files to live rows. Computes positions only if the request needs them."""

    version: Version
    wants_positions: bool

    def apply(self, state: PlanState) -> None:
        """Count the live rows of each kept file, and skip files without any."""
        kept = state.left()
        numbers = self.version.vector_numbers(kept)
        if not (numbers >= 0).any():
            return
        files, numbers = kept[numbers >= 0], numbers[numbers >= 0]
        # The index manifest counts a vector's rows, so vectors are read only for positions, and where an old
        # writer did not count.
        deleted = self.version.contents().vectors.deleted_rows(numbers)
        row_counts = state.files.columns.row_counts[files]
        narrowed = np.fromiter((file in state.positions for file in files.tolist()), np.bool_, len(files))
        listed = self.wants_positions & state.raw_convertible[files] & (deleted != row_counts)
        needed = narrowed | listed | (deleted == UNKNOWN_CARDINALITY)
        state.narrow(files[~needed], (row_counts - deleted)[~needed])
        for start in range(0, int(needed.sum()), _VECTORS_AT_ONCE):
            batch = slice(start, start + _VECTORS_AT_ONCE)
            self._subtract(state, files[needed][batch], numbers[needed][batch])
        gone = files[state.rows_left[files] == 0]
        state.skip(gone, SkipStep.DELETION_VECTOR, evidence="every row that can match is deleted")

    def _subtract(self, state: PlanState, files: NDArray[np.int64], numbers: NDArray[np.int32]) -> None:
        check_deadline()
        places = self.version.contents().vectors.places
        row_counts = state.files.columns.row_counts[files].tolist()
        vectors = load_vectors(
            self.version.source,
            [(*places[number], rows) for number, rows in zip(numbers.tolist(), row_counts, strict=True)],
        )
        for file, rows, vector in zip(files.tolist(), row_counts, vectors, strict=True):
            self._narrow(state, file, rows, vector)

    def _narrow(self, state: PlanState, file: int, row_count: int, vector: DeletionVector) -> None:
        positions = state.positions.get(file)
        if positions is None and not (self.wants_positions and state.raw_convertible[file]):
            state.narrow(file, row_count - vector.cardinality)
            return
        live = _difference(every_position(row_count) if positions is None else positions, vector.positions)
        state.positions[file] = live
        state.narrow(file, len(live))
        if live:
            state.note(np.array([file]), ExplainStep(SkipStep.DELETION_VECTOR, "rows", rows=len(live)))


def every_position(row_count: int) -> Positions:
    """Return all positions of a file."""
    return BitMap(range(row_count)) if row_count <= _ROWS_OF_32_BITS else BitMap64(range(row_count))


def _difference(positions: Positions, deleted: Positions) -> Positions:
    if isinstance(positions, BitMap) and isinstance(deleted, BitMap):
        return positions - deleted
    return BitMap64(positions) - BitMap64(deleted)
