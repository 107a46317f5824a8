"""The data files of one version as columns, so that planning works on arrays instead of objects.

A *file* is a number from 0 to n - 1, counted over the manifests in order. Its columns are gathered once per
version. Names, paths and statistics stay in the manifests, which :class:`Files` joins with the columns for
the time of a request.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress, pairwise
from typing import Any, Final, Self, get_args, get_origin, get_type_hints

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.table.manifests import Manifest, ManifestEntry, OptionalIntegers
from app.types import BytesColumn, own_bytes

Arrays = Mapping[str, NDArray[Any]]

# One part in this many is spare capacity; memory that is never written to costs nothing.
_SPARE: Final = 4


class GrowingArrays:
    """Shared buffers of several arrays of one length, with room to append. Thread-safe.

    A new version mostly has the files of the version before, and a few more. Copying all of them with every
    commit would keep as many copies as versions are cached. So rows are appended to the shared buffers.
    Whatever is within the length of an array that was given out never changes.
    """

    def __init__(self, before: Arrays, added: Arrays) -> None:
        """Copy arrays, append others of the same names, and add spare capacity."""
        self._lock = threading.Lock()
        self._used = _length(before)
        least = self._used + _length(added)
        self._capacity = least + least // _SPARE
        self._buffers = {name: np.empty(self._capacity, array.dtype) for name, array in before.items()}
        for name, array in before.items():
            self._buffers[name][: self._used] = array
        self.append(self._used, added)

    def append(self, length: int, added: Arrays) -> bool:
        """Append to arrays of ``length`` items. Return False if capacity is short, or other rows follow."""
        end = length + _length(added)
        with self._lock:
            if length != self._used or end > self._capacity:
                return False
            for name, array in added.items():
                self._buffers[name][length:end] = array
            self._used = end
        return True

    def first(self, length: int) -> Arrays:
        """Return views of the first ``length`` items."""
        return {name: buffer[:length] for name, buffer in self._buffers.items()}


def _length(arrays: Arrays) -> int:
    return len(next(iter(arrays.values())))


@dataclass(frozen=True, slots=True, eq=False)
class FileColumns:
    """Columns of manifests, of shape (n,), in the order of the manifests."""

    # By manifest: its entries that are files of the version, ascending; None for all.
    rows: tuple[NDArray[np.int64] | None, ...]
    starts: NDArray[np.int64]  # Shape (manifests + 1,): number of each manifest's first file.
    partitions: tuple[bytes, ...]
    partition_codes: NDArray[np.int32]  # Position in ``partitions``.
    buckets: NDArray[np.int32]
    total_buckets: NDArray[np.int32]
    levels: NDArray[np.int32]
    schema_ids: NDArray[np.int64]
    row_counts: NDArray[np.int64]
    file_sizes: NDArray[np.int64]
    delete_row_counts: NDArray[np.int64]  # 0 if an old writer did not count.
    growing: GrowingArrays | None = None  # Buffers of the columns, if rows can be appended.

    @classmethod
    def of(cls, manifests: Sequence[Manifest], rows: Sequence[NDArray[np.int64]]) -> Self:
        """Gather the columns of some rows of each manifest."""
        starts = _starts(list(map(len, rows)))
        columns: dict[str, Any] = {name: np.empty(int(starts[-1]), dtype) for name, dtype in _DTYPES.items()}
        partitions: dict[bytes, int] = {}
        rows_or_all: list[NDArray[np.int64] | None] = []
        # In one pass: spilled manifests are mapped on access, and not all fit into memory at once.
        for manifest, chosen, start in zip(manifests, rows, starts[:-1].tolist(), strict=True):
            numbers = [partitions.setdefault(row, len(partitions)) for row in manifest.partitions]
            renumbered: dict[str, NDArray[Any]] = {
                "partition_codes": np.array(numbers, np.int32)[manifest.partition_codes],
                "delete_row_counts": manifest.delete_row_counts.values,
            }
            rows_or_all.append(None if len(chosen) == len(manifest) else chosen)
            for name, column in columns.items():
                values = renumbered[name] if name in renumbered else getattr(manifest, name)
                part = slice(start, start + len(chosen))
                column[part] = values if rows_or_all[-1] is None else values[chosen]
        return cls(rows=tuple(rows_or_all), starts=starts, partitions=tuple(partitions), **columns)

    def first(self, manifests: int) -> Self:
        """Return the columns of the files in the first ``manifests`` manifests."""
        if manifests == len(self.rows):
            return self
        count = int(self.starts[manifests])
        arrays = {name: array[:count] for name, array in self.arrays.items()}
        return replace(self, rows=self.rows[:manifests], starts=self.starts[: manifests + 1], **arrays)

    def followed_by(self, following: Self) -> Self:
        """Append the columns of files in further manifests."""
        partitions = dict(zip(self.partitions, range(len(self.partitions)), strict=True))
        numbers = [partitions.setdefault(row, len(partitions)) for row in following.partitions]
        codes = np.array(numbers, np.int32)[following.partition_codes]
        added = following.arrays | {"partition_codes": codes}
        growing = self.growing
        if growing is None or not growing.append(len(self), added):
            growing = GrowingArrays(self.arrays, added)
        return replace(
            self,
            rows=(*self.rows, *following.rows),
            starts=np.concatenate([self.starts, self.starts[-1] + following.starts[1:]]),
            partitions=tuple(partitions),
            growing=growing,
            **growing.first(len(self) + len(following)),
        )

    def of_manifests(self, manifests: NDArray[np.int64]) -> Self:
        """Select the files in some manifests, given by their ascending numbers."""
        # Adjacent manifests are copied as one piece.
        runs = np.split(manifests, np.flatnonzero(np.diff(manifests) != 1) + 1) if len(manifests) else []
        bounds = [(int(self.starts[run[0]]), int(self.starts[run[-1] + 1])) for run in runs]
        arrays = {
            name: np.concatenate([array[:0], *(array[start:end] for start, end in bounds)])
            for name, array in self.arrays.items()
        }
        used = np.zeros(len(self.partitions), np.bool_)
        used[arrays["partition_codes"]] = True
        arrays["partition_codes"] = (np.cumsum(used, dtype=np.int32) - np.int32(1))[arrays["partition_codes"]]
        rows = tuple(map(self.rows.__getitem__, manifests.tolist()))
        partitions = tuple(compress(self.partitions, used))
        starts = _starts(np.diff(self.starts)[manifests])
        return replace(self, rows=rows, starts=starts, partitions=partitions, growing=None, **arrays)

    def select(self, chosen: NDArray[np.bool_]) -> Self:
        """Select some of the files."""
        arrays = {name: array[chosen] for name, array in self.arrays.items()}
        of_manifests = np.split(chosen, self.starts[1:-1]) if self.rows else []
        rows = tuple(
            before if selected.all() else np.flatnonzero(selected) if before is None else before[selected]
            for before, selected in zip(self.rows, of_manifests, strict=True)
        )
        starts = _starts([int(np.count_nonzero(selected)) for selected in of_manifests])
        return replace(self, rows=rows, starts=starts, growing=None, **arrays)

    def __len__(self) -> int:
        return len(self.row_counts)

    @property
    def arrays(self) -> dict[str, Any]:
        """The columns of shape (n,), by name."""
        return {name: getattr(self, name) for name in _DTYPES}

    @property
    def bucket_keys(self) -> NDArray[np.int64]:
        """A number for each bucket of each partition, shape (n,)."""
        return self.partition_codes.astype(np.int64) << 32 | self.buckets.astype(np.int64) & 0xFFFF_FFFF

    @property
    def nbytes(self) -> int:
        """Bytes of memory that is not mapped."""
        arrays = (self.starts, *self.arrays.values(), *(rows for rows in self.rows if rows is not None))
        return sum(map(own_bytes, arrays)) + sum(map(len, self.partitions))

    def additional_bytes(self, previous: Self | None) -> int:
        """Return bytes of memory that is neither mapped nor shared with the columns of an earlier version."""
        if previous is None or self.row_counts.ctypes.data != previous.row_counts.ctypes.data:
            return self.nbytes
        # Versions share buffers: if each were weighed with all of them, caches would count a table's files
        # once per commit.
        more = max(0, len(self) - len(previous))
        return self.nbytes * more // max(1, len(self))


# Dtypes of the columns of shape (n,), from their annotations.
_DTYPES: Final[Mapping[str, type[np.integer]]] = {
    name: get_args(get_args(hint)[1])[0]
    for name, hint in get_type_hints(FileColumns).items()
    if get_origin(hint) is np.ndarray and name != "starts"
}


def _starts(counts: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


@dataclass(frozen=True, slots=True, eq=False)
class Files:
    """The files of a version, with the manifests that describe them."""

    columns: FileColumns
    manifests: Sequence[Manifest]

    def __len__(self) -> int:
        return len(self.columns)

    def all(self) -> NDArray[np.int64]:
        """Return every file's number."""
        return np.arange(len(self), dtype=np.int64)

    def by_manifest(self, files: NDArray[np.int64]) -> Iterator[tuple[int, slice, NDArray[np.int64]]]:
        """Split ascending ``files`` by manifest: its number, the part of ``files`` in it, and their rows."""
        parts = self._parts(files)
        for number, part in parts.items():
            rows, places = self.columns.rows[number], files[part] - self.columns.starts[number]
            yield number, part, places if rows is None else rows[places]

    def manifests_of(self, files: NDArray[np.int64]) -> list[int]:
        """Return numbers of the manifests that ascending ``files`` are in."""
        return [*self._parts(files)]

    def cut(self, files: NDArray[np.int64], most: int) -> Iterator[NDArray[np.int64]]:
        """Split ascending ``files`` into parts of at most ``most``, between manifests if possible."""
        ends = [part.stop for part in self._parts(files).values()]
        start = 0
        while start < len(files):
            at = bisect_right(ends, start + most)
            end = ends[at - 1] if at and ends[at - 1] > start else start + most
            yield files[start:end]
            start = end

    def _parts(self, files: NDArray[np.int64]) -> dict[int, slice]:
        if not len(files):
            return {}
        starts = self.columns.starts
        first, last = np.searchsorted(starts, files[[0, -1]], side="right").tolist()
        cuts = np.searchsorted(files, starts[first - 1 : last + 1]).tolist()
        parts = enumerate(pairwise(cuts), first - 1)
        return {number: slice(start, end) for number, (start, end) in parts if start < end}

    def place(self, file: int) -> tuple[int, int]:
        """Return the number of a file's manifest, and its row there."""
        number = int(np.searchsorted(self.columns.starts, file, side="right")) - 1
        rows, place = self.columns.rows[number], file - int(self.columns.starts[number])
        return number, place if rows is None else int(rows[place])

    def entry(self, file: int) -> ManifestEntry:
        """Return a file as an object."""
        return next(self.entries(np.array([file])))

    def entries(self, files: NDArray[np.int64]) -> Iterator[ManifestEntry]:
        """Yield ascending ``files`` as objects."""
        for number, _, rows in self.by_manifest(files):
            yield from self.manifests[number].entries(rows)

    def name(self, file: int) -> str:
        """Return a file's name."""
        number, row = self.place(file)
        return self.manifests[number].file_name(row)

    def names(self, files: NDArray[np.int64]) -> pa.LargeBinaryArray:
        """Return the names of ascending ``files``, in UTF-8."""
        return self.gather(files, {"name": ("file_names", pa.large_binary())})["name"]

    def named(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Return the files with these names, ascending."""
        encoded = pa.array([name.encode(errors="surrogatepass") for name in names], pa.large_binary())
        return np.flatnonzero(pc.is_in(self.names(self.all()), value_set=encoded))

    def gather(
        self, files: NDArray[np.int64], columns: Mapping[str, tuple[str, pa.DataType]]
    ) -> dict[str, pa.Array]:
        """Gather columns of ascending ``files``. ``columns``: source and Arrow type of each, by name."""
        arrays = self.columns.arrays
        in_manifests = {name: column for name, (column, _) in columns.items() if column not in arrays}
        pieces: dict[str, list[pa.Array]] = {name: [] for name in in_manifests}
        for number, _, rows in self.by_manifest(files):
            for name, column in in_manifests.items():
                pieces[name].append(_arrow(getattr(self.manifests[number], column), rows))
        return {
            name: pa.array(arrays[column][files], data_type)
            if column in arrays
            else _joined(pieces[name], data_type)
            for name, (column, data_type) in columns.items()
        }

    def path(self, file: int) -> tuple[bytes, int]:
        """Return the partition row and bucket of a file."""
        columns = self.columns
        return columns.partitions[columns.partition_codes[file]], int(columns.buckets[file])


def _arrow(column: BytesColumn | OptionalIntegers | NDArray[Any], rows: NDArray[np.int64]) -> pa.Array:
    match column:
        case BytesColumn():
            return (column if len(rows) == len(column) else column.take(rows)).to_arrow()
        case OptionalIntegers():
            return pa.array(column.values[rows], mask=~column.known[rows])
        case _:
            return pa.array(column[rows])


def _joined(pieces: Sequence[pa.Array], data_type: pa.DataType) -> pa.Array:
    return pa.concat_arrays(pieces) if pieces else pa.array([], data_type)
