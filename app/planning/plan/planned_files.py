"""The files of a plan: columns, of which answers are written, and a sequence of objects for Python programs.

The columns are copied out of the manifests, for just these files: a plan that is remembered for its further
pages must not keep the metadata of a whole table alive. Directories, partitions and objects are made when
somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.planning.deletions import load_vectors
from app.planning.plan.file_plan import DeletionFile, ExplainStep, FilePlan
from app.planning.plan.state import PlanState, decision
from app.planning.version.version import Version
from app.storage import check_deadline
from app.table.schema.partition import Partitions
from app.table.table import TablePaths
from app.types import Json
from app.types.roaring import Positions
from app.types.value_arrays import concat

_BUCKET_BITS: Final = 32
_BUCKET_MASK: Final = (1 << _BUCKET_BITS) - 1
_MEMORY_PER_FILE: Final = 250
_MEMORY_PER_DELETION: Final = 200
_VECTORS_AT_ONCE: Final = 1024


@dataclass(frozen=True, slots=True, eq=False)
class PlannedFiles(Sequence[FilePlan]):
    """Files of a plan, those that are read together next to each other; every array has the shape (n,).

    Attributes:
        units: ascending: the number, in their version, of the first of the files that are read together.
        numbers: of the files in their version, ascending within a unit.
        first_row_ids: -1 for none.
        integers: the attributes of :class:`FilePlan` that are integers, by name.
        merge_groups: -1 for none.
        selections: the rows that are left, by position, where these are not all rows and were asked for.
        deletions: the deletion vector, by position.
        deleted: the rows that it deletes, by position, where these were asked for.
    """

    units: NDArray[np.int64]
    numbers: NDArray[np.int64]
    names: pa.LargeBinaryArray
    external_paths: pa.LargeBinaryArray
    partitions: tuple[bytes, ...]
    partition_codes: NDArray[np.int32]
    places: Places
    first_row_ids: NDArray[np.int64]
    integers: Mapping[str, NDArray[np.integer]]
    residual: NDArray[np.bool_]
    raw_convertible: NDArray[np.bool_]
    decisions: NDArray[np.int8]
    merge_groups: NDArray[np.int32]
    selections: Mapping[int, Positions]
    deletions: Mapping[int, DeletionFile]
    deleted: Mapping[int, Positions]
    steps: Sequence[tuple[ExplainStep, ...]] | None

    @classmethod
    def of(
        cls,
        version: Version,
        state: PlanState,
        files: NDArray[np.int64],
        *,
        with_selections: bool,
        with_deleted: bool,
        uris: bool,
        hidden: bool = False,
    ) -> PlannedFiles:
        """The answer about some files.

        Args:
            hidden: the state is of the version's files that no batch read sees, nor their deletion vectors.

        Raises:
            CorruptIndexError: a deletion vector that was asked for is damaged.
            SnapshotExpiredError: a file of such vectors is gone.
            StorageError: it cannot be read.
        """
        root = version.source.warehouse.public_url if uris else ""
        details, units = state.files.details(files), _units(files, state.merge_groups[files])
        if not (np.diff(units) >= 0).all():
            order = np.argsort(units, kind="stable")
            details, units, files = details.take(order), units[order], files[order]
        columns, raw_convertible = state.files.columns, state.raw_convertible[files]
        selections = {}
        if with_selections and state.positions:
            selections = {
                at: state.positions[file]
                for at, file in enumerate(files.tolist())
                if file in state.positions and raw_convertible[at]
            }
        steps = None
        if state.steps is not None:
            steps = [tuple(state.steps[file]) for file in files.tolist()]
        return cls(
            units=units,
            numbers=files,
            names=details.names,
            external_paths=details.external_paths,
            partitions=columns.partitions,
            partition_codes=columns.partition_codes[files],
            places=Places(version.source.paths, version.partitions, root),
            first_row_ids=details.first_row_ids,
            integers={
                "file_size": columns.file_sizes[files],
                "row_count": columns.row_counts[files],
                "schema_id": columns.schema_ids[files],
                "level": columns.levels[files],
                "bucket": columns.buckets[files],
                "total_buckets": columns.total_buckets[files],
                "min_sequence_number": details.min_sequence_numbers,
                "max_sequence_number": details.max_sequence_numbers,
                "selected_rows": np.where(state.is_left(files), state.rows_left[files], 0),
            },
            residual=~state.is_exact(files),
            raw_convertible=raw_convertible,
            decisions=state.decisions(files),
            merge_groups=state.merge_groups[files],
            selections=selections,
            deletions={} if hidden else _deletions(version, files, root),
            deleted=_deleted(version, files, columns.row_counts[files]) if with_deleted else {},
            steps=steps,
        )

    def followed_by(self, others: PlannedFiles, first: int) -> PlannedFiles:
        """These skipped files, and behind them others of the version, whose numbers go on from ``first``."""
        both = (self, others)
        arrays: dict[str, Any] = {
            name: np.concatenate([getattr(each, name) for each in both])
            for name in ("partition_codes", "first_row_ids", "residual", "raw_convertible", "decisions")
        }
        return replace(
            self,
            units=np.concatenate([self.units, first + others.units]),
            numbers=np.concatenate([self.numbers, first + others.numbers]),
            names=concat([each.names for each in both]),
            external_paths=concat([each.external_paths for each in both]),
            integers={
                name: np.concatenate([values, others.integers[name]])
                for name, values in self.integers.items()
            },
            merge_groups=np.concatenate([self.merge_groups, others.merge_groups]),
            steps=None if self.steps is None else [*self.steps, *(others.steps or ())],
            **arrays,
        )

    def __len__(self) -> int:
        return len(self.residual)

    def texts(self, start: int, stop: int) -> tuple[pa.StringArray, pa.StringArray, pa.StringArray]:
        """Paths, names and formats of the files from ``start`` to ``stop``, exclusive."""
        here = slice(start, stop)
        names = self.names[here].cast(pa.large_string()).cast(pa.string())
        places = self.partition_codes[here].astype(np.int64) << _BUCKET_BITS
        places |= self.integers["bucket"][here].astype(np.int64) & _BUCKET_MASK
        _, first, codes = np.unique(places, return_index=True, return_inverse=True)
        directories = [self._directory(start + at) for at in first.tolist()]
        paths = pc.binary_join_element_wise(_strings(directories).take(codes), names, "/")
        external = self.external_paths[here]
        if external.null_count < len(external):
            paths = pc.coalesce(external.cast(pa.large_string()).cast(pa.string()), paths)
        return paths, names, pc.replace_substring_regex(names, r"(?s)^.*\.", "")

    def partition(self, code: int) -> Mapping[str, Json]:
        """The partition of a code, as typed JSON by column name."""
        return self.places.partitions.json(self.partitions[code])

    def _directory(self, at: int) -> str:
        partition = self.partitions[self.partition_codes[at]]
        return self.places.directory(partition, int(self.integers["bucket"][at]))

    @overload
    def __getitem__(self, at: int) -> FilePlan: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[FilePlan]: ...
    def __getitem__(self, at: int | slice) -> FilePlan | Sequence[FilePlan]:
        if isinstance(at, slice):
            return [self[position] for position in range(*at.indices(len(self)))]
        at = range(len(self))[at]
        name = self.names[at].as_py().decode()
        external = self.external_paths[at].as_py()
        group, first_row_id = int(self.merge_groups[at]), int(self.first_row_ids[at])
        return FilePlan(
            path=f"{self._directory(at)}/{name}" if external is None else external.decode(),
            file_name=name,
            format=name.rpartition(".")[2],
            partition=self.partition(int(self.partition_codes[at])),
            first_row_id=None if first_row_id < 0 else first_row_id,
            raw_convertible=bool(self.raw_convertible[at]),
            merge_group=None if group < 0 else group,
            selection=self.selections.get(at),
            residual=bool(self.residual[at]),
            deletion=self.deletions.get(at),
            reason=decision(int(self.decisions[at])),
            explain=None if self.steps is None else self.steps[at],
            **{attribute: int(values[at]) for attribute, values in self.integers.items()},
        )

    @property
    def nbytes(self) -> int:
        """About how much memory the object takes."""
        # A roaring bitmap never takes more than about two bytes a position, and usually far less.
        row_sets = (*self.selections.values(), *self.deleted.values())
        positions = sum(2 * len(rows) for rows in row_sets)
        explained = 0 if self.steps is None else _MEMORY_PER_FILE * sum(map(len, self.steps))
        return (
            _MEMORY_PER_FILE * len(self) + _MEMORY_PER_DELETION * len(self.deletions) + positions + explained
        )


@dataclass(frozen=True, slots=True)
class Places:
    """Directories and partitions of files, each put into words once."""

    paths: TablePaths
    partitions: Partitions
    root: str
    _directories: dict[tuple[bytes, int], str] = field(default_factory=dict)

    def directory(self, partition: bytes, bucket: int) -> str:
        """The directory of a bucket."""
        place = (partition, bucket)
        if place not in self._directories:
            self._directories[place] = self.root + self.paths.bucket_directory(partition, bucket)
        return self._directories[place]


def _units(files: NDArray[np.int64], merge_groups: NDArray[np.int32]) -> NDArray[np.int64]:
    """Of each of ascending files the first one that it is read together with, which may be itself."""
    units, grouped = files.copy(), merge_groups >= 0
    _, first, codes = np.unique(merge_groups[grouped], return_index=True, return_inverse=True)
    units[grouped] = files[grouped][first][codes]
    return units


def _deletions(version: Version, files: NDArray[np.int64], root: str) -> dict[int, DeletionFile]:
    numbers = version.vector_numbers(files)
    deletions = {}
    for at in np.flatnonzero(numbers >= 0).tolist():
        entry, place = version.contents().vectors.places[numbers[at]]
        path = version.source.paths.index_file(entry)
        if entry.file.external_path is None:
            path = root + path
        deletions[at] = DeletionFile(path, place.offset, place.length, place.cardinality)
    return deletions


def _deleted(
    version: Version, files: NDArray[np.int64], row_counts: NDArray[np.int64]
) -> dict[int, Positions]:
    numbers, places = version.vector_numbers(files), version.contents().vectors.places
    having = np.flatnonzero(numbers >= 0)
    deleted: dict[int, Positions] = {}
    for start in range(0, len(having), _VECTORS_AT_ONCE):
        check_deadline()
        some = having[start : start + _VECTORS_AT_ONCE].tolist()
        vectors = load_vectors(version.source, [(*places[numbers[at]], int(row_counts[at])) for at in some])
        deleted |= {at: vector.positions for at, vector in zip(some, vectors, strict=True)}
    return deleted


def _strings(texts: Sequence[str]) -> pa.StringArray:
    """Arrow's strings; what is no UTF-8 on disk, and half a surrogate pair here, becomes a question mark."""
    return pa.array([text.encode(errors="replace").decode() for text in texts], pa.string())
