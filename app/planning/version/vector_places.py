"""Where the deletion vectors of a version's files lie, found by name once per version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.planning.version.files import Files
from app.table.manifests.index_manifest import IndexEntry
from app.types.array_memory import own_bytes
from app.types.index_files import DELETION_VECTORS, DeletionRange

UNKNOWN_CARDINALITY: Final = -1

_NONE: Final = -1
_MEMORY_PER_PLACE: Final = 400


@dataclass(frozen=True, slots=True, eq=False)
class VectorPlaces:
    """The deletion vectors of some files.

    Attributes:
        places: index file and range of each vector.
        cardinalities: int64, shape (vectors,): deleted rows, -1 where the index manifest does not tell.
        numbers: int32, shape (files,): each file's vector, -1 for none.
    """

    places: tuple[tuple[IndexEntry, DeletionRange], ...]
    cardinalities: NDArray[np.int64]
    numbers: NDArray[np.int32]

    @classmethod
    def find(cls, entries: Sequence[IndexEntry], files: Files) -> Self:
        """The vectors in some index files that belong to ``files``; of two for one the later one holds."""
        places = tuple(
            (entry, place)
            for entry in entries
            if entry.file.index_type == DELETION_VECTORS
            for place in entry.file.ranges
        )
        cardinalities = [
            UNKNOWN_CARDINALITY if place.cardinality is None else place.cardinality for _, place in places
        ]
        # One number that stands for all of them takes no memory.
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
        """How many rows vectors delete, shape (n,): 0 for no vector, -1 where nobody counted."""
        return np.append(self.cardinalities, 0)[numbers]

    @property
    def nbytes(self) -> int:
        """About how much memory the object takes."""
        return own_bytes(self.numbers) + _MEMORY_PER_PLACE * len(self.places)
