"""Which index files of a version are asked at one time, and the reading of those of an object store ahead."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from app.planning.side_files.fetch import FRONT_BYTES, fetch_ahead
from app.planning.side_files.segments import Passing
from app.storage import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from numpy.typing import NDArray

    from app.planning.request.budget import Budget
    from app.planning.side_files.fetch import Ahead
    from app.planning.side_files.indexes import SideIndexes
    from app.planning.version.version import Version

_FILES_AT_ONCE: Final = 512
"""Index files of an object store that are read before the next ones are, of which twice as many are held: up
to 64 MiB."""

_FILES_OF_BUDGET: Final = 128
"""The same for a plan with a budget of time, which ends between them."""


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """Files of one manifest that are asked at one time.

    Attributes:
        number: of the manifest.
        positions: int64, shape (k,): of the files among those that were asked about.
        rows: int64, shape (k,): of the files in the manifest.
        beside: bool, shape (k,): files whose index is a file.
    """

    number: int
    positions: NDArray[np.int64]
    rows: NDArray[np.int64]
    beside: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Portions:
    """Cuts files up into portions that are asked one after the other.

    Attributes:
        version: of which files are asked.
        budget: when to stop reading.
        side_indexes: the index files of a manifest by its number.
    """

    version: Version
    budget: Budget
    side_indexes: Callable[[int], SideIndexes]

    def in_turn(self, files: NDArray[np.int64]) -> Iterator[tuple[list[Share], Ahead, bool]]:
        """What is asked at one time, what was read of it, and whether more may be read.

        Without a budget, an object store is asked for the next files while those before are looked at.
        """
        if self.budget.ends is not None or self.version.source.warehouse.is_local:
            for together in self._together(files):
                may_fetch = not self.budget.is_spent
                yield together, self._read_ahead(self._unread(together)) if may_fetch else {}, may_fetch
            return
        before: tuple[list[Share], Future[Ahead]] | None = None
        for together in self._together(files):
            read = partial(self._read_ahead, self._unread(together))
            reading = self.version.source.warehouse.readers.begin(read)
            if before is not None:
                yield before[0], wait_for(before[1]), True
            before = together, reading
        if before is not None:
            yield before[0], wait_for(before[1]), True

    def _together(self, files: NDArray[np.int64]) -> Iterator[list[Share]]:
        """Cuts ascending ``files`` up into what is asked at one time, between two looks at the budget.

        Where index files have to be read from an object store, these are files of many manifests.
        """
        all_files = self.version.files()
        is_local, is_bounded = self.version.source.warehouse.is_local, self.budget.ends is not None
        most = _FILES_OF_BUDGET if is_bounded else _FILES_AT_ONCE
        together: list[Share] = []
        reads = 0
        for number, part, rows in all_files.by_manifest(files):
            positions = np.arange(part.start, part.stop)
            beside = all_files.manifests[number].embedded_indexes.lengths[rows] < 0
            lacking = 0
            if beside.any() and (is_bounded or not is_local):
                lacking = len(self.side_indexes(number).without_head(rows[beside]))
            step = most if lacking else len(rows)
            for start in range(0, len(rows), step):
                here = slice(start, start + step)
                together.append(Share(number, positions[here], rows[here], beside[here]))
                reads += lacking and len(rows[here])
                if is_local or reads >= most:
                    yield together
                    together, reads = [], 0
        if together:
            yield together

    def _unread(self, together: list[Share]) -> list[str]:
        """Index files that nobody has read yet, if they lie in an object store."""
        if self.version.source.warehouse.is_local:
            return []
        paths: list[str] = []
        for share in together:
            if share.beside.any():
                side = self.side_indexes(share.number)
                paths += side.paths(side.without_head(share.rows[share.beside]))
        return paths

    def _read_ahead(self, paths: list[str]) -> Ahead:
        """The fronts of index files."""
        if not paths:
            return {}
        source = self.version.source
        found: Passing[Ahead] = source.caches.file_indexes.get_or_load(
            ("ahead", source.warehouse.name, *paths),
            lambda: Passing(fetch_ahead(source.warehouse, paths)),
            expected_bytes=FRONT_BYTES * len(paths),
            storage=source.warehouse.name,
        )
        return found.item
