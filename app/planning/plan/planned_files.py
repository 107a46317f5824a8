"""The files of a plan: a table from which answers are written, and a sequence of objects for Python programs.

Directories, partitions and objects are made on access.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final, NamedTuple, Self, TypeAlias, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.planning.deletions import load_vectors
from app.planning.plan.explanation import FileSteps
from app.planning.plan.file_plan import (
    DeletionFile,
    FileFacts,
    FilePlan,
    Recorded,
    arrow_types,
    marks,
)
from app.planning.plan.state import PlanState, decision
from app.planning.version.version import Version
from app.table import Partitions, TablePaths
from app.types import Json
from app.types.roaring import Positions
from app.work import check_deadline

_BUCKET_BITS: Final = 32
_BUCKET_MASK: Final = (1 << _BUCKET_BITS) - 1
FILE_BYTES: Final = 250
"""Estimated bytes of a file in a plan."""
_MEMORY_PER_DELETION: Final = 200
_VECTORS_AT_ONCE: Final = 1024
_OBJECTS_AT_ONCE: Final = 1024
# Root of the URIs of paths that have no scheme in metadata.
_FILE_ROOT: Final = "file:///"

_TYPES: Final = arrow_types(FileFacts)
_BYTES: Final = pa.large_binary()
# The columns that are taken out of manifests; strings stay UTF-8 until they are written.
_RECORDED: Final = {
    name: (mark.column, _BYTES if _TYPES[name] == pa.string() else _TYPES[name])
    for name, mark in marks(FileFacts, Recorded).items()
} | {"external_path": ("external_paths", _BYTES)}


class Coded(NamedTuple):
    """A column with few distinct values, and the position of each file's value."""

    values: Sequence[Any]
    codes: NDArray[np.intp]

    @classmethod
    def of(cls, codes: NDArray[np.integer], value: Callable[[int], Any]) -> Self:
        """Encode a column of numbers, each of which stands for a value."""
        distinct, places = np.unique(codes, return_inverse=True)
        return cls([value(code) for code in distinct.tolist()], places)


ColumnValues: TypeAlias = pa.Array | Coded | list[Any]
"""Values of one member for several files: an Arrow array, coded values, or objects."""


@dataclass(frozen=True, slots=True, eq=False)
class PlannedFiles(Sequence[FilePlan]):
    """Files of a plan. Files that are read together are adjacent.

    ``table`` has the members of :class:`FileFacts` that are not objects, and the sources of the others:
    ``external_path``, ``partition_code``, ``decision``, ``selected_rows``, ``number`` of the file in its
    version, and ``unit``, the first number of the files read together. Rows ascend by unit and number.
    """

    table: pa.RecordBatch
    partitions: tuple[bytes, ...]
    places: Places
    # Remaining rows by position of the file, where they are not all rows and were requested.
    selections: Mapping[int, Positions]
    # Rows that can match, by position of one file of each group that holds columns of the same rows.
    joined_rows: Mapping[int, Positions]
    deletions: Mapping[int, DeletionFile]  # Places of deletion vectors, by position of the file.
    deleted: Mapping[int, Positions]  # Rows that the vectors delete, if requested.
    steps: FileSteps | None
    warnings: Sequence[str] = ()

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
        """Collect files into an answer.

        ``hidden``: batch reads never see the files, so places of deletion vectors are left out.
        Raises CorruptIndexError if a vector is damaged. Raises SnapshotExpiredError if its file is gone.
        Raises StorageError if its file cannot be read.
        """
        root = version.source.warehouse.public_url if uris else ""
        merge_groups, columns = state.merge_groups[files], state.files.columns
        added = {
            "raw_convertible": state.raw_convertible[files],
            "merge_group": pa.array(merge_groups.astype(np.int64), mask=merge_groups < 0),
            "residual": ~state.is_exact(files),
            "number": files,
            "unit": _units(files, merge_groups),
            "partition_code": columns.partition_codes[files],
            "decision": state.decisions(files),
            "selected_rows": np.where(state.is_left(files), state.rows_left[files], 0),
        }
        # A copy, since a plan that is cached for its further pages must not keep the whole table's metadata
        # alive.
        table = pa.RecordBatch.from_pydict(state.files.gather(files, _RECORDED) | added)
        units = np.asarray(table.column("unit"))
        if not (np.diff(units) >= 0).all():
            order = np.argsort(units, kind="stable")
            table, files = table.take(pa.array(order)), files[order]
        table, warnings = _with_moved_paths(version, table, root)
        selections = {}
        if with_selections and state.positions:
            selections = {
                at: state.positions[file]
                for at, file in enumerate(files.tolist())
                if file in state.positions and state.raw_convertible[file]
            }
        joined = {}
        if with_selections and state.joined_rows:
            listed = enumerate(files.tolist())
            joined = {at: state.joined_rows[file] for at, file in listed if file in state.joined_rows}
        return cls(
            table,
            columns.partitions,
            Places(version.source.paths, version.partitions, root),
            selections,
            joined,
            deletions={} if hidden else _deletions(version, files, root),
            deleted=_deleted(version, files, columns.row_counts[files]) if with_deleted else {},
            steps=None if state.explanation is None else FileSteps(((state.explanation, files),)),
            warnings=warnings,
        )

    def followed_by(self, following: PlannedFiles, first: int) -> PlannedFiles:
        """Append other skipped files of the version, whose numbers continue from ``first``."""
        table = following.table
        for name in ("number", "unit"):
            at = table.schema.get_field_index(name)
            table = table.set_column(at, name, pc.add(table.column(name), first))
        steps = self.steps
        if steps is not None and following.steps is not None:
            steps = FileSteps((*steps.parts, *following.steps.parts))
        return replace(self, table=pa.concat_batches([self.table, table]), steps=steps)

    def without_files(self) -> PlannedFiles:
        """Return an empty sequence of the same form."""
        return replace(
            self,
            table=self.table.slice(0, 0),
            selections={},
            joined_rows={},
            deletions={},
            deleted={},
            steps=None,
        )

    def take(self, places: NDArray[np.int64]) -> PlannedFiles:
        """Select the files at ascending places. Requires files without steps."""
        at = {place: number for number, place in enumerate(places.tolist())}
        return replace(
            self,
            table=self.table.take(pa.array(places)),
            selections={at[place]: rows for place, rows in self.selections.items() if place in at},
            joined_rows={at[place]: rows for place, rows in self.joined_rows.items() if place in at},
            deletions={at[place]: vector for place, vector in self.deletions.items() if place in at},
            deleted={at[place]: rows for place, rows in self.deleted.items() if place in at},
        )

    def __len__(self) -> int:
        return len(self.table)

    def array(self, name: str) -> NDArray[Any]:
        """Return a column without nulls, shape (n,)."""
        return np.asarray(self.table.column(name))

    def columns(self, start: int, stop: int) -> dict[str, ColumnValues]:
        """Return the members of the files in [start, stop) by name, in the answer's order."""
        part = self.table.slice(start, stop - start)
        deletions: ColumnValues = pa.nulls(stop - start)
        if self.deletions:
            deletions = [self.deletions.get(at) for at in range(start, stop)]
        paths, names, formats = self.texts(start, stop)
        derived = {
            "path": paths,
            "file_name": names,
            "format": formats,
            "partition": Coded.of(np.asarray(part.column("partition_code")), self.partition),
            "deletion": deletions,
            "decision_reason": Coded.of(np.asarray(part.column("decision")), decision),
        }
        members = (*_TYPES, "decision_reason", "selected_rows")
        return {name: derived[name] if name in derived else part.column(name) for name in members}

    def texts(self, start: int, stop: int) -> tuple[pa.StringArray, pa.StringArray, pa.StringArray]:
        """Return paths, names and formats of the files in [start, stop)."""
        part = self.table.slice(start, stop - start)
        names, external = _text(part.column("file_name")), part.column("external_path")
        places = np.asarray(part.column("partition_code")).astype(np.int64) << _BUCKET_BITS
        places |= np.asarray(part.column("bucket")).astype(np.int64) & _BUCKET_MASK
        directories = Coded.of(places, self._directory)
        paths = pc.binary_join_element_wise(_strings(directories.values).take(directories.codes), names, "/")
        if external.null_count < len(external):
            outside = _text(external)
            if self.places.root:
                outside = pc.replace_substring_regex(outside, "^/", _FILE_ROOT)
            paths = pc.coalesce(outside, paths)
        return paths, names, pc.replace_substring_regex(names, r"(?s)^.*\.", "")

    def partition(self, code: int) -> Mapping[str, Json]:
        """Return the partition of a code, as typed JSON by column name."""
        return self.places.partitions.json(self.partitions[code])

    def _directory(self, place: int) -> str:
        bucket = int(np.int64(place).astype(np.int32))
        return self.places.directory(self.partitions[place >> _BUCKET_BITS], bucket)

    @overload
    def __getitem__(self, at: int) -> FilePlan: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[FilePlan]: ...
    def __getitem__(self, at: int | slice) -> FilePlan | Sequence[FilePlan]:
        positions = range(len(self))[at]
        if isinstance(positions, int):
            return self._objects(positions, positions + 1)[0]
        if positions.step == 1:
            return self._objects(positions.start, positions.start + len(positions))
        return [self[position] for position in positions]

    def __iter__(self) -> Iterator[FilePlan]:
        for start in range(0, len(self), _OBJECTS_AT_ONCE):
            yield from self[start : start + _OBJECTS_AT_ONCE]

    def _objects(self, start: int, stop: int) -> list[FilePlan]:
        columns = self.columns(start, stop)
        columns["reason"] = columns.pop("decision_reason")
        columns["selection"] = [self.selections.get(at) for at in range(start, stop)]
        if self.steps is not None:
            columns["explain"] = self.steps[start:stop]
        rows = zip(*map(_listed, columns.values()), strict=True)
        return [FilePlan(**dict(zip(columns, row, strict=True))) for row in rows]

    @property
    def nbytes(self) -> int:
        """Estimated bytes of memory."""
        # A roaring bitmap takes at most about two bytes a position.
        row_sets = (*self.selections.values(), *self.joined_rows.values(), *self.deleted.values())
        positions = sum(2 * len(rows) for rows in row_sets)
        explained = 0 if self.steps is None else self.steps.nbytes
        return FILE_BYTES * len(self) + _MEMORY_PER_DELETION * len(self.deletions) + positions + explained


@dataclass(frozen=True, slots=True)
class Places:
    """Directories and partitions of files, each formatted once."""

    paths: TablePaths
    partitions: Partitions
    root: str
    _directories: dict[tuple[bytes, int], str] = field(default_factory=dict)

    def directory(self, partition: bytes, bucket: int) -> str:
        """Return the directory of a bucket."""
        place = (partition, bucket)
        if place not in self._directories:
            self._directories[place] = self.root + self.paths.bucket_directory(partition, bucket)
        return self._directories[place]


def _units(files: NDArray[np.int64], merge_groups: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return for each of ascending files the first file that it is read together with."""
    units, grouped = files.copy(), merge_groups >= 0
    _, first, codes = np.unique(merge_groups[grouped], return_index=True, return_inverse=True)
    units[grouped] = files[grouped][first][codes]
    return units


def _with_moved_paths(
    version: Version, table: pa.RecordBatch, root: str
) -> tuple[pa.RecordBatch, Sequence[str]]:
    """Fill in, as external paths, the paths of files that may be outside the engine's directories.

    Also return a warning if partitions have no directory.
    """
    codes, external = np.asarray(table.column("partition_code")), table.column("external_path")
    inside = codes if external.null_count == len(external) else codes[external.is_null()]
    moved = version.moved_partitions(inside)
    if not moved:
        return table, ()
    partitions, source = version.contents().columns.partitions, version.source
    locate = cache(lambda code, bucket: source.data.locate(partitions[code], bucket))
    members = ["external_path", "partition_code", "bucket", "file_name"]
    paths = [
        path or f"{root}{locate(code, bucket)(name.decode())}/{name.decode()}".encode(errors="replace")
        for path, code, bucket, name in zip(*table.select(members).to_pydict().values(), strict=True)
    ]
    at = table.schema.get_field_index("external_path")
    missing = [partitions[code] for code, existing in moved.items() if not existing]
    warnings = [
        f"no directory exists for {len(missing)} of the partitions, such as "
        f"{source.paths.partition_directory(row)}: restore it, or give the directory of its files this name"
        for row in missing[:1]
    ]
    return table.set_column(at, "external_path", pa.array(paths, _BYTES)), warnings


def _deletions(version: Version, files: NDArray[np.int64], root: str) -> dict[int, DeletionFile]:
    numbers = version.vector_numbers(files)
    deletions = {}
    for at in np.flatnonzero(numbers >= 0).tolist():
        entry, place = version.contents().vectors.places[numbers[at]]
        path = version.source.paths.index_file(entry)
        if entry.file.external_path is None:
            path = root + path
        elif root and path.startswith("/"):
            path = path.replace("/", _FILE_ROOT, 1)
        deletions[at] = DeletionFile(path, place.offset, place.length, place.cardinality)
    return deletions


def _deleted(
    version: Version, files: NDArray[np.int64], row_counts: NDArray[np.int64]
) -> dict[int, Positions]:
    numbers, places = version.vector_numbers(files), version.contents().vectors.places
    with_vector = np.flatnonzero(numbers >= 0)
    deleted: dict[int, Positions] = {}
    for start in range(0, len(with_vector), _VECTORS_AT_ONCE):
        check_deadline()
        batch = with_vector[start : start + _VECTORS_AT_ONCE].tolist()
        vectors = load_vectors(version.source, [(*places[numbers[at]], int(row_counts[at])) for at in batch])
        deleted |= {at: vector.positions for at, vector in zip(batch, vectors, strict=True)}
    return deleted


def _listed(column: ColumnValues) -> list[Any]:
    match column:
        case Coded(values, codes):
            return [values[code] for code in codes.tolist()]
        case list():
            return column
        case _:
            listed: list[Any] = column.to_pylist()
            return listed


def to_arrow(column: ColumnValues, data_type: pa.DataType) -> pa.Array:
    """Convert a member to Arrow. Its objects must be of a kind that Arrow accepts for the type."""
    if isinstance(column, Coded):
        return pa.array(column.values, data_type).take(pa.array(column.codes))
    return pa.array(column, data_type) if isinstance(column, list) else column.cast(data_type)


def _text(column: pa.LargeBinaryArray) -> pa.StringArray:
    return column.cast(pa.large_string()).cast(pa.string())


def _strings(texts: Sequence[str]) -> pa.StringArray:
    # A path that is not UTF-8 has lone surrogates, which Arrow refuses: they become question marks.
    return pa.array([text.encode(errors="replace").decode() for text in texts], pa.string())
