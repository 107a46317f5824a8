"""Scan tasks of a plan in Iceberg's form: the kept data files, with their deletion vectors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from app.iceberg.field_ids import NameMapping, have_field_ids
from app.iceberg.refusals import (
    FORMAT,
    check_file_schema,
    merging,
    narrow_vectors,
    other_format,
    whole_puffin_files,
    without_ids,
)
from app.iceberg.schema import PARTITIONED, UNPARTITIONED, partition_fields
from app.planning import FileBounds, Version, load_vectors
from app.planning.plan import Plan, PlannedFiles
from app.table import TableSchema
from app.table.manifests import IndexEntry
from app.types import INTEGER_BITS, DataField, Json, TypeRoot, to_json
from app.types.index_files import DeletionRange
from app.work import check_deadline

_AT_ONCE: Final = 256
# Width of Iceberg's binary form of a value.
_BYTES: Final = {root: 8 if root is TypeRoot.BIGINT else 4 for root in (*INTEGER_BITS, TypeRoot.DATE)}


@dataclass(frozen=True, slots=True)
class ScanTasks:
    """Tasks, the delete files they refer to, and the plan's position after the last task."""

    tasks: Sequence[orjson.Fragment]
    delete_files: Sequence[Json]
    stop: int


@dataclass(frozen=True, slots=True)
class TaskWriter:
    """Writes the tasks of one plan."""

    version: Version
    # Made with URIs as paths.
    plan: Plan
    # The filter that clients have to apply, in JSON.
    residual: bytes
    # True if the filter can be omitted for files whose rows all match it.
    proven: bool
    schemas: Sequence[TableSchema]
    # Number of the newest schema, if known. Its files need no check of names against ``mapping``.
    newest_schema: int | None
    vectors: bool
    # Returns the names of the table's columns, for files of older schemas without ids.
    mapping: Callable[[], NameMapping]
    statistics: Sequence[DataField] = ()
    _partitions: dict[int, tuple[int, Sequence[Json]]] = field(default_factory=dict)

    def check(self) -> None:
        """Refuse a plan if its columns show that clients would misread a file."""
        files = self.plan.files
        if merged := int(np.count_nonzero(~files.array("raw_convertible"))):
            raise merging(f"{merged} of its files", self.version.resolved.level, vectors=self.vectors)
        if files.deletions and not self.vectors:
            raise whole_puffin_files(len(files.deletions))
        for schema_id in np.unique(files.array("schema_id")).tolist():
            file = self.version.file_schema(schema_id)
            for schema in self.schemas:
                check_file_schema(file, schema)

    def write(self, start: int, stop: int, max_bytes: int) -> ScanTasks:
        """Write tasks of files from ``start`` to ``stop``, until they have about ``max_bytes``.

        Raises UnsupportedFormatError if clients would misread one of the files. Raises CorruptIndexError if a
        deletion vector is damaged. Raises SnapshotExpiredError if a file of vectors is gone.
        """
        residuals = self.plan.files.array("residual")
        tasks: list[orjson.Fragment] = []
        delete_files: list[Json] = []
        size, at = 0, start
        while at < stop and (not tasks or size < max_bytes):
            behind = min(stop, at + _AT_ONCE)
            vectors = self._delete_files(at, behind)
            for members in self._data_files(at, behind):
                is_proven = self.proven and not residuals[at]
                residual = True if is_proven else orjson.Fragment(self.residual)
                task: dict[str, object] = {"data-file": members, "residual-filter": residual}
                if at in vectors:
                    task["delete-file-references"] = [len(delete_files)]
                    delete_files.append({**vectors[at], "referenced-data-file": members["file-path"]})
                written = orjson.dumps(task)
                tasks.append(orjson.Fragment(written))
                size += len(written)
                at += 1
                if size >= max_bytes:
                    break
        return ScanTasks(tasks, delete_files, at)

    def _data_files(self, start: int, stop: int) -> Iterator[dict[str, Json]]:
        files = self.plan.files
        paths, names, formats = files.texts(start, stop)
        for name, format_ in zip(names.to_pylist(), formats.to_pylist(), strict=True):
            if format_ != FORMAT:
                raise other_format(name)
        statistics = column_statistics(self.version, files, start, stop, self.statistics)
        codes, sizes, rows = (
            files.array(name)[start:stop].tolist() for name in ("partition_code", "file_size", "row_count")
        )
        self._check_ids(files.array("schema_id")[start:stop], names, paths, sizes)
        members = zip(paths.to_pylist(), codes, sizes, rows, statistics, strict=True)
        for path, code, size, row_count, bounds in members:
            spec, partition = self._partition(code)
            yield {
                "content": "data",
                "file-path": path,
                "file-format": FORMAT,
                "spec-id": spec,
                "partition": partition,
                "file-size-in-bytes": size,
                "record-count": row_count,
                **bounds,
            }

    def _check_ids(
        self, schema_ids: NDArray[np.int64], names: pa.Array, paths: pa.Array, sizes: Sequence[int]
    ) -> None:
        """Refuse files without field ids in which a name now belongs to another column."""
        older = [number for number in np.unique(schema_ids).tolist() if number != self.newest_schema]
        if not older:
            return
        mapping, schema_of = self.mapping(), self.version.file_schema
        unfit = [number for number in older if not mapping.fits(schema_of(number).fields)]
        suspects = np.flatnonzero(np.isin(schema_ids, unfit)).tolist()
        places = [(paths[at].as_py(), sizes[at]) for at in suspects]
        for at, has_ids in zip(suspects, have_field_ids(self.version, places), strict=True):
            if not has_ids:
                raise without_ids(names[at].as_py())

    def _partition(self, code: int) -> tuple[int, Sequence[Json]]:
        if code not in self._partitions:
            schema = self.version.schema
            values = dict(
                zip(
                    schema.partition_keys,
                    self.version.partitions.values(self.plan.files.partitions[code]),
                    strict=True,
                )
            )
            fields = partition_fields(schema)
            if not fields or any(values[field.name] is None for field in fields):
                self._partitions[code] = UNPARTITIONED, []
            else:
                self._partitions[code] = (
                    PARTITIONED,
                    [to_json(values[field.name], field.type) for field in fields],
                )
        return self._partitions[code]

    def _delete_files(self, start: int, stop: int) -> Mapping[int, Mapping[str, Json]]:
        files = self.plan.files
        positions = [at for at in range(start, stop) if at in files.deletions]
        if not positions:
            return {}
        names, row_counts = files.texts(start, stop)[1].to_pylist(), files.array("row_count")
        codes = files.array("partition_code")
        requested = [
            (files.deletions[at].path.rpartition("/")[2], files.deletions[at].offset, names[at - start])
            for at in positions
        ]
        ranges = _ranges(self.version.table.metadata.index_entries(self.version.resolved), set(requested))
        places = [
            (*ranges[location], int(row_counts[at]))
            for at, location in zip(positions, requested, strict=True)
        ]
        vectors = load_vectors(self.version.source, places)
        if narrow := sum(not vector.is64 for vector in vectors):
            raise narrow_vectors(f"{narrow} of its files")
        by_position: dict[int, Mapping[str, Json]] = {}
        for at, (entry, place, _), vector in zip(positions, places, vectors, strict=True):
            spec, partition = self._partition(int(codes[at]))
            by_position[at] = {
                "content": "position-deletes",
                "file-path": files.deletions[at].path,
                "file-format": "puffin",
                "spec-id": spec,
                "partition": partition,
                "file-size-in-bytes": entry.file.file_size,
                "record-count": vector.cardinality,
                "content-offset": place.offset,
                "content-size-in-bytes": place.length,
            }
        return by_position


def _ranges(
    entries: Iterable[IndexEntry], requested: Collection[tuple[str, int, str]]
) -> Mapping[tuple[str, int, str], tuple[IndexEntry, DeletionRange]]:
    names = {name for name, _, _ in requested}
    return {
        location: (entry, place)
        for entry in entries
        if entry.file.file_name in names
        for place in entry.file.ranges
        if (location := (entry.file.file_name, place.offset, place.data_file)) in requested
    }


def column_statistics(
    version: Version, files: PlannedFiles, start: int, stop: int, columns: Sequence[DataField]
) -> Iterator[Mapping[str, Json]]:
    """Yield statistics of the data files in [start, stop), empty if none are requested.

    Clients answer MIN, MAX and COUNT from them, as if the file contained its bounds. Bounds are Iceberg's
    binary form in hexadecimal digits, which Java reads. The REST specification does not state a form.

    Raises CorruptMetadataError if the statistics of a manifest are damaged. Raises DeadlineExceededError if
    time is used up.
    """
    numbers = files.array("number")[start:stop]
    order = np.argsort(numbers, kind="stable")
    by_column = {}
    file_bounds = FileBounds(version)
    for column in columns:
        check_deadline()
        bounds = file_bounds.values(column, numbers[order])
        if bounds is not None:
            by_column[column] = bounds.take(np.argsort(order, kind="stable"))
    for at in range(stop - start):
        if not by_column:
            yield {}
            continue
        check_deadline()
        values: dict[int, int] = {}
        nulls: dict[int, int] = {}
        low: dict[int, str] = {}
        high: dict[int, str] = {}
        for column, bounds in by_column.items():
            values[column.id] = int(bounds.row_count[at])
            if bounds.null_count[at] >= 0:
                nulls[column.id] = int(bounds.null_count[at])
            # Only bounds of integers and dates are values of the file: bounds of texts are cut, bounds of
            # timestamps are rounded, and bounds of floating point may ignore NaN.
            width = _BYTES.get(column.type.root)
            if width and bounds.has_low[at] and bounds.has_high[at]:
                low[column.id] = int(bounds.low[at]).to_bytes(width, "little", signed=True).hex().upper()
                high[column.id] = int(bounds.high[at]).to_bytes(width, "little", signed=True).hex().upper()
        yield {
            "value-counts": _map(values),
            "null-value-counts": _map(nulls),
            "lower-bounds": _map(low),
            "upper-bounds": _map(high),
        }


def _map(values: Mapping[int, Json]) -> Json:
    return {"keys": list(values), "values": list(values.values())}
