"""The data files of one version as columns: what planning works on instead of one object per file.

A *file* is a number from 0 to n - 1, counted over the manifests of the version in their order. Its columns
are gathered once per version; what is asked of few files only (names, paths, statistics) stays in the
manifests, which :class:`Files` brings together with the columns for the time of a request.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from itertools import compress
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.planning.version.growing_arrays import GrowingArrays
from app.types.array_memory import own_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from app.table.manifests.manifest import Manifest
    from app.table.manifests.manifest_entry import ManifestEntry
    from app.types.bytes_column import BytesColumn

Integer = TypeVar("Integer", bound=np.integer)


@dataclass(frozen=True, slots=True, eq=False)
class FileColumns:
    """Columns of shape (n,), in the order of the manifests.

    Attributes:
        rows: int64, for each manifest the entries in it that are files of the version, ascending; None where
            all of them are.
        starts: int64, shape (manifests + 1,): number of each manifest's first file.
        partitions: the distinct partition rows.
        partition_codes: int32, position in ``partitions``.
        buckets: int32.
        total_buckets: int32.
        levels: int32.
        schema_ids: int64.
        row_counts: int64.
        file_sizes: int64.
        delete_row_counts: int64, 0 where an old writer did not tell.
        growing: where those of shape (n,) lie, if others can follow them there.
    """

    rows: tuple[NDArray[np.int64] | None, ...]
    starts: NDArray[np.int64]
    partitions: tuple[bytes, ...]
    partition_codes: NDArray[np.int32]
    buckets: NDArray[np.int32]
    total_buckets: NDArray[np.int32]
    levels: NDArray[np.int32]
    schema_ids: NDArray[np.int64]
    row_counts: NDArray[np.int64]
    file_sizes: NDArray[np.int64]
    delete_row_counts: NDArray[np.int64]
    growing: GrowingArrays | None = None

    @classmethod
    def of(cls, manifests: Sequence[Manifest], rows: Sequence[NDArray[np.int64]]) -> Self:
        """The columns of some rows of each manifest."""
        whole = [len(chosen) == len(each) for each, chosen in zip(manifests, rows, strict=True)]

        def joined(dtype: type[Integer], column: Callable[[Manifest], NDArray[Integer]]) -> NDArray[Integer]:
            pieces = [
                column(each) if every else column(each)[chosen]
                for each, chosen, every in zip(manifests, rows, whole, strict=True)
            ]
            return np.concatenate([np.zeros(0, dtype), *pieces])

        partitions: dict[bytes, int] = {}
        numbers = [
            partitions.setdefault(row, len(partitions)) for each in manifests for row in each.partitions
        ]
        # Codes of a manifest count from its own first partition, among those of all manifests.
        firsts = np.cumsum([0, *(len(each.partitions) for each in manifests)])[:-1]
        codes = joined(np.int32, lambda each: each.partition_codes)
        codes = codes + np.repeat(firsts, [len(chosen) for chosen in rows])
        return cls(
            rows=tuple(None if every else chosen for chosen, every in zip(rows, whole, strict=True)),
            starts=_starts(list(map(len, rows))),
            partitions=tuple(partitions),
            partition_codes=np.array(numbers, np.int32)[codes],
            buckets=joined(np.int32, lambda each: each.buckets),
            total_buckets=joined(np.int32, lambda each: each.total_buckets),
            levels=joined(np.int32, lambda each: each.levels),
            schema_ids=joined(np.int64, lambda each: each.schema_ids),
            row_counts=joined(np.int64, lambda each: each.row_counts),
            file_sizes=joined(np.int64, lambda each: each.file_sizes),
            delete_row_counts=joined(np.int64, lambda each: each.delete_row_counts.values),
        )

    def first(self, manifests: int) -> Self:
        """The columns of the files in so many manifests."""
        if manifests == len(self.rows):
            return self
        count = int(self.starts[manifests])
        arrays = {name: array[:count] for name, array in self.arrays.items()}
        return replace(self, rows=self.rows[:manifests], starts=self.starts[: manifests + 1], **arrays)

    def followed_by(self, others: Self) -> Self:
        """The columns of these files, and then of others, which lie in further manifests."""
        partitions = dict(zip(self.partitions, range(len(self.partitions)), strict=True))
        numbers = [partitions.setdefault(row, len(partitions)) for row in others.partitions]
        codes = np.array(numbers, np.int32)[others.partition_codes]
        added = others.arrays | {"partition_codes": codes}
        growing = self.growing
        if growing is None or not growing.append(len(self), added):
            growing = GrowingArrays(self.arrays, added)
        return replace(
            self,
            rows=(*self.rows, *others.rows),
            starts=np.concatenate([self.starts, self.starts[-1] + others.starts[1:]]),
            partitions=tuple(partitions),
            growing=growing,
            **growing.first(len(self) + len(others)),
        )

    def of_manifests(self, manifests: NDArray[np.int64]) -> Self:
        """The columns of the files in some manifests, given by their ascending numbers."""
        # Manifests that follow each other are one piece.
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
        """The columns of some of the files."""
        arrays = {name: array[chosen] for name, array in self.arrays.items()}
        of_manifests = np.split(chosen, self.starts[1:-1]) if self.rows else []
        rows = tuple(
            before if some.all() else np.flatnonzero(some) if before is None else before[some]
            for before, some in zip(self.rows, of_manifests, strict=True)
        )
        starts = _starts([int(np.count_nonzero(some)) for some in of_manifests])
        return replace(self, rows=rows, starts=starts, growing=None, **arrays)

    def __len__(self) -> int:
        return len(self.row_counts)

    @property
    def arrays(self) -> dict[str, Any]:
        """The columns of shape (n,), by name."""
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "starts"}
        return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}

    @property
    def bucket_keys(self) -> NDArray[np.int64]:
        """One number for each bucket of each partition, shape (n,)."""
        return self.partition_codes.astype(np.int64) << 32 | self.buckets.astype(np.int64) & 0xFFFF_FFFF

    @property
    def nbytes(self) -> int:
        """Bytes of memory that is not mapped."""
        arrays = (self.starts, *self.arrays.values(), *(rows for rows in self.rows if rows is not None))
        return sum(map(own_bytes, arrays)) + sum(map(len, self.partitions))


def _starts(counts: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


@dataclass(frozen=True, slots=True, eq=False)
class Files:
    """The files of a version, with the manifests that describe them."""

    columns: FileColumns
    manifests: tuple[Manifest, ...]

    def __len__(self) -> int:
        return len(self.columns)

    def all(self) -> NDArray[np.int64]:
        """Every file's number."""
        return np.arange(len(self), dtype=np.int64)

    def by_manifest(self, files: NDArray[np.int64]) -> Iterator[tuple[int, slice, NDArray[np.int64]]]:
        """Ascending ``files`` cut up by manifest.

        Yields:
            The manifest's number, the part of ``files`` that lies in it, and these files' rows in it.
        """
        cuts = np.searchsorted(files, self.columns.starts)
        for number in np.flatnonzero(np.diff(cuts)).tolist():
            part = slice(int(cuts[number]), int(cuts[number + 1]))
            rows, places = self.columns.rows[number], files[part] - self.columns.starts[number]
            yield number, part, places if rows is None else rows[places]

    def place(self, file: int) -> tuple[int, int]:
        """The number of a file's manifest, and its row there."""
        number = int(np.searchsorted(self.columns.starts, file, side="right")) - 1
        rows, place = self.columns.rows[number], file - int(self.columns.starts[number])
        return number, place if rows is None else int(rows[place])

    def entry(self, file: int) -> ManifestEntry:
        """A file in the form of an object."""
        number, row = self.place(file)
        return self.manifests[number].entry(row)

    def name(self, file: int) -> str:
        """A file's name."""
        number, row = self.place(file)
        return self.manifests[number].file_name(row)

    def names(self, files: NDArray[np.int64]) -> pa.LargeBinaryArray:
        """Names of ascending ``files``, in UTF-8."""
        return self._strings(files, lambda manifest: manifest.file_names)

    def named(self, names: Sequence[str]) -> NDArray[np.int64]:
        """The files of these names, ascending."""
        wanted = pa.array([name.encode(errors="surrogatepass") for name in names], pa.large_binary())
        return np.flatnonzero(pc.is_in(self.names(self.all()), value_set=wanted))

    def external_paths(self, files: NDArray[np.int64]) -> pa.LargeBinaryArray:
        """Where those of ascending ``files`` lie that do not lie in their bucket, in UTF-8."""
        return self._strings(files, lambda manifest: manifest.external_paths)

    def sequence_numbers(self, files: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The smallest and the largest sequence number in each of ascending ``files``."""
        low, high = np.zeros(len(files), np.int64), np.zeros(len(files), np.int64)
        for number, part, rows in self.by_manifest(files):
            manifest = self.manifests[number]
            low[part], high[part] = manifest.min_sequence_numbers[rows], manifest.max_sequence_numbers[rows]
        return low, high

    def first_row_ids(self, files: NDArray[np.int64]) -> NDArray[np.int64]:
        """The id of the first row of each of ascending ``files``, -1 where its rows have no ids."""
        found = np.full(len(files), -1, np.int64)
        for number, part, rows in self.by_manifest(files):
            ids = self.manifests[number].first_row_ids
            found[part] = np.where(ids.known[rows], ids.values[rows], -1)
        return found

    def path(self, file: int) -> tuple[bytes, int]:
        """Partition row and bucket of a file."""
        columns = self.columns
        return columns.partitions[columns.partition_codes[file]], int(columns.buckets[file])

    def _strings(
        self, files: NDArray[np.int64], column: Callable[[Manifest], BytesColumn]
    ) -> pa.LargeBinaryArray:
        pieces = []
        for number, _, rows in self.by_manifest(files):
            whole = column(self.manifests[number])
            pieces.append((whole if len(rows) == len(whole) else whole.take(rows)).to_arrow())
        return pa.concat_arrays(pieces) if pieces else pa.array([], pa.large_binary())
