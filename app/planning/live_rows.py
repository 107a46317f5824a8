"""Leaves deleted rows out: the fifth step of a plan.

A deletion vector that is damaged or missing is an error: without it a reader would see deleted rows again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyroaring import BitMap, BitMap64

from app.file_index.result import Rows
from app.planning.answers import SkipStep
from app.planning.vectors import load_vectors
from app.storage import check_deadline

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.deletion_vectors import DeletionVector
    from app.planning.answers import Positions
    from app.planning.draft import Draft
    from app.planning.version import Version
    from app.table.index_manifest import DeletionRange, IndexEntry

_ROWS_OF_32_BITS = 1 << 32


@dataclass(frozen=True, slots=True)
class LiveRows:
    """Fills ``live_rows`` and ``positions`` of files.

    Attributes:
        version: the version that is planned.
        wants_positions: somebody needs the positions of files that only deletions narrow.
    """

    version: Version
    wants_positions: bool

    def apply(self, drafts: Iterable[Draft]) -> None:
        """Counts the live rows of each file, and skips files that have none."""
        for draft in drafts:
            check_deadline()
            rows = draft.entry.file.row_count
            positions: Positions | None = None
            if draft.raw_convertible and isinstance(draft.answer, Rows):
                positions = draft.answer.positions
            place = self.version.vector(draft.entry)
            if place is not None:
                positions, deleted = self._subtract(draft, positions, place)
                rows -= deleted
            draft.positions = positions
            draft.live_rows = rows if positions is None else len(positions)
            if draft.live_rows == 0 and place is not None:
                draft.skip(SkipStep.DELETION_VECTOR)

    def _subtract(
        self, draft: Draft, positions: Positions | None, place: tuple[IndexEntry, DeletionRange]
    ) -> tuple[Positions | None, int]:
        """The positions that are left, if they are needed, and how many rows of the file are deleted."""
        row_count, deleted = draft.entry.file.row_count, place[1].cardinality
        needs_vector = deleted is None or positions is not None
        if not needs_vector and (
            deleted == row_count or not (self.wants_positions and draft.raw_convertible)
        ):
            return None, deleted or 0
        vector = read_deletions(self.version, place, row_count)
        if positions is None and not (self.wants_positions and draft.raw_convertible):
            return None, vector.cardinality
        live = _difference(all_rows(row_count) if positions is None else positions, vector.positions)
        draft.tried(SkipStep.DELETION_VECTOR, "rows", rows=len(live))
        return live, vector.cardinality


def all_rows(row_count: int) -> Positions:
    """Every position of a file."""
    return BitMap(range(row_count)) if row_count <= _ROWS_OF_32_BITS else BitMap64(range(row_count))


def _difference(positions: Positions, deleted: Positions) -> Positions:
    if isinstance(positions, BitMap) and isinstance(deleted, BitMap):
        return positions - deleted
    return BitMap64(positions) - BitMap64(deleted)


def read_deletions(
    version: Version, place: tuple[IndexEntry, DeletionRange], row_count: int
) -> DeletionVector:
    """The deletion vector of a data file of ``row_count`` rows.

    Raises:
        SnapshotExpiredError: its file is gone.
        CorruptIndexError: it is damaged, or deletes rows that the data file does not have.
    """
    entry, vector_range = place
    (vector,) = load_vectors(version.loader, [(entry, vector_range, row_count)])
    return vector
