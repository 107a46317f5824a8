"""Places of the deletion vectors of a version's files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.planning.version.files import Files
from app.table.manifests import (
    IndexEntry,
)
from app.types import own_bytes
from app.types.index_files import DELETION_VECTORS, DeletionRange

UNKNOWN_CARDINALITY: Final = -1

_NONE: Final = -1
_MEMORY_PER_PLACE: Final = 400


@dataclass(frozen=True, slots=True, eq=False)
class VectorPlaces:
    """The deletion vectors of some files."""

    places: tuple[tuple[IndexEntry, DeletionRange], ...]
    # Shape (vectors,): deleted rows, -1 if the manifest does not count them.
    cardinalities: NDArray[np.int64]
    numbers: NDArray[np.int32]  # Shape (files,): each file's vector, -1 for none.

    @classmethod
    def find(cls, entries: Sequence[IndexEntry], files: Files) -> Self:
        """Find the vectors of ``files`` in index files. Of two vectors for one file, the later counts."""
        places = tuple(
            (entry, place)
            for entry in entries
            if entry.file.index_type == DELETION_VECTORS
            for place in entry.file.ranges
        )
        cardinalities = [
            UNKNOWN_CARDINALITY if place.cardinality is None else place.cardinality for _, place in places
        ]
        # A broadcast number takes no memory.
        numbers = np.broadcast_to(np.int32(_NONE), len(files))
        if places:
            numbers = numbers.copy()
            names = pa.array([place.data_file.encode() for _, place in places], pa.large_binary())
            named = np.flatnonzero(pc.is_in(files.names(files.all()), value_set=names))
            by_file = {
                (entry.partition, entry.bucket, place.data_file): number
                for number, (entry, place) in enumerate(places)
            }
            numbers[named] = [
                by_file.get((*files.path(file), files.name(file)), _NONE) for file in named.tolist()
            ]
        return cls(places, np.array(cardinalities, np.int64), numbers)

    def deleted_rows(self, numbers: NDArray[np.int32]) -> NDArray[np.int64]:
        """Count the rows that vectors delete, shape (n,): 0 without a vector, -1 if unknown."""
        return np.append(self.cardinalities, 0)[numbers]

    @property
    def nbytes(self) -> int:
        """Estimated bytes of memory."""
        return own_bytes(self.numbers) + _MEMORY_PER_PLACE * len(self.places)
