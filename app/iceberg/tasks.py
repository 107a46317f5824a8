"""Scan tasks of a plan: the data files that it keeps, with their deletion vectors, as Iceberg writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import orjson

from app.iceberg.field_ids import have_field_ids
from app.iceberg.name_mapping import NameMapping
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
from app.iceberg.statistics import column_statistics
from app.planning.deletions import load_vectors
from app.planning.plan.answers import Plan
from app.planning.plan.planned_files import PlannedFiles
from app.planning.version.version import Version
from app.table.manifests.index_manifest import IndexEntry
from app.table.schema.schema import TableSchema
from app.types import DataField, Json, to_json
from app.types.index_files import DeletionRange

_AT_ONCE: Final = 256


@dataclass(frozen=True, slots=True)
class ScanTasks:
    """Some tasks of a plan.

    Attributes:
        tasks: a JSON object each.
        delete_files: what these refer to.
        stop: the position in the plan of the file behind the last one.
    """

    tasks: Sequence[orjson.Fragment]
    delete_files: Sequence[Json]
    stop: int


@dataclass(frozen=True, slots=True)
class TaskWriter:
    """Writes the tasks of one plan.

    Attributes:
        version: what was planned.
        plan: with URIs for paths.
        residual: the filter that clients have to apply, in JSON.
        proven: whether a file whose rows all meet the plan's filter needs it no more.
        schemas: those that clients read the files in.
        newest_schema: its number, where that is known: names in its files are those of the mapping.
        vectors: whether the client reads deletion vectors as the engine stores them.
        mapping: gives the names of the table's columns, for files of older schemas that have no ids.
        statistics: columns to tell bounds and counts of.
    """

    version: Version
    plan: Plan
    residual: bytes
    proven: bool
    schemas: Sequence[TableSchema]
    newest_schema: int | None
    vectors: bool
    mapping: Callable[[], NameMapping]
    statistics: Sequence[DataField] = ()
    _partitions: dict[int, tuple[int, Sequence[Json]]] = field(default_factory=dict)

    def check(self) -> None:
        """Refuses a plan with a file that clients would not read right, as far as its columns tell.

        Raises:
            UnsupportedFormatError: with the reason.
        """
        files = self.plan.files
        if merged := int(np.count_nonzero(~files.raw_convertible)):
            raise merging(f"{merged} of its files", self.version.resolved.level, vectors=self.vectors)
        if files.deletions and not self.vectors:
            raise whole_puffin_files(len(files.deletions))
        for schema_id in np.unique(files.integers["schema_id"]).tolist():
            file = self.version.file_schema(schema_id)
            for schema in self.schemas:
                check_file_schema(file, schema)

    def write(self, start: int, stop: int, max_bytes: int) -> ScanTasks:
        """The tasks of the files from ``start`` to ``stop``, as many as have about so many bytes.

        Raises:
            UnsupportedFormatError: clients would not read one of the files right.
            CorruptIndexError: a deletion vector is damaged.
            SnapshotExpiredError: a file of vectors is gone.
        """
        tasks: list[orjson.Fragment] = []
        delete_files: list[Json] = []
        size, at = 0, start
        while at < stop and (not tasks or size < max_bytes):
            behind = min(stop, at + _AT_ONCE)
            vectors = self._delete_files(at, behind)
            for members in self._data_files(at, behind):
                is_proven = self.proven and not self.plan.files.residual[at]
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
        self._check_ids(files, start, stop)
        told = column_statistics(self.version, files, start, stop, self.statistics)
        for at, path, statistics in zip(range(start, stop), paths.to_pylist(), told, strict=True):
            spec, partition = self._partition(int(files.partition_codes[at]))
            yield {
                "content": "data",
                "file-path": path,
                "file-format": FORMAT,
                "spec-id": spec,
                "partition": partition,
                "file-size-in-bytes": int(files.integers["file_size"][at]),
                "record-count": int(files.integers["row_count"][at]),
                **statistics,
            }

    def _check_ids(self, files: PlannedFiles, start: int, stop: int) -> None:
        """Refuses files that need field ids, since a name is another column's by now, and have none."""
        numbers = files.integers["schema_id"][start:stop]
        older = [each for each in np.unique(numbers).tolist() if each != self.newest_schema]
        if not older:
            return
        mapping, schema_of = self.mapping(), self.version.file_schema
        unfit = [each for each in older if not mapping.fits(schema_of(each).fields)]
        suspects = [start + at for at in np.flatnonzero(np.isin(numbers, unfit)).tolist()]
        for at, found in zip(suspects, have_field_ids(self.version, files, suspects), strict=True):
            if not found:
                raise without_ids(files[at].file_name)

    def _partition(self, code: int) -> tuple[int, Sequence[Json]]:
        """The partition spec of a file, and its values."""
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
            if not fields or any(values[each.name] is None for each in fields):
                self._partitions[code] = UNPARTITIONED, []
            else:
                self._partitions[code] = (
                    PARTITIONED,
                    [to_json(values[each.name], each.type) for each in fields],
                )
        return self._partitions[code]

    def _delete_files(self, start: int, stop: int) -> Mapping[int, Mapping[str, Json]]:
        """The deletion vectors of some files, by their positions."""
        files = self.plan.files
        wanted = [at for at in range(start, stop) if at in files.deletions]
        if not wanted:
            return {}
        ranges = _ranges(self.version.table.metadata.index_entries(self.version.resolved))
        places = []
        for at in wanted:
            lies = files.deletions[at]
            entry, place = ranges[lies.path.rpartition("/")[2], lies.offset, files[at].file_name]
            places.append((entry, place, int(files.integers["row_count"][at])))
        vectors = load_vectors(self.version.source, places)
        if narrow := sum(not vector.is64 for vector in vectors):
            raise narrow_vectors(f"{narrow} of its files")
        found: dict[int, Mapping[str, Json]] = {}
        for at, (entry, place, _), vector in zip(wanted, places, vectors, strict=True):
            spec, partition = self._partition(int(files.partition_codes[at]))
            found[at] = {
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
        return found


def _ranges(entries: Iterable[IndexEntry]) -> Mapping[tuple[str, int, str], tuple[IndexEntry, DeletionRange]]:
    """Vectors by the name of their file, offset, and the name of the data file."""
    return {
        (entry.file.file_name, place.offset, place.data_file): (entry, place)
        for entry in entries
        for place in entry.file.ranges
    }
