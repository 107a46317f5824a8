"""Tables that a test makes up file by file: metadata and indexes alone, since nobody reads data files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Self

from app.file_index.bitmap import bitmap
from app.file_index.bloom_filter import bloom_filter
from app.file_index.bsi import bsi
from app.file_index.index_kinds import IndexKind
from app.file_index.range_bitmap import range_bitmap
from app.planning.plan.answers import Plan, PlanWarnings, answer_plan
from app.planning.plan.file_plan import FilePlan, KeepReason
from app.planning.request.budget import UNBOUNDED, Budget
from app.planning.request.requests import PlanRequest, SnapshotSelector, TableRef
from app.planning.scan.planner import Planner
from app.planning.service import IndexService
from app.planning.version.version import Version
from app.predicates.model import BoundPredicate
from app.table.manifests.index_manifest import IndexEntry, IndexManifest
from app.table.manifests.manifest_entry import FileKind, ManifestEntry
from app.table.manifests.row_statistics import RowStatistics
from app.types import DataField, Value
from app.types.binary_row.row import read_row, serialize_row
from benchmarks.avro_schemas import MANIFEST_LIST
from benchmarks.synthetic import make_table, schema_json, table_directory, write_snapshot
from tests.key_columns import key_column
from tests.planning.copied_tables import golden_ref
from tests.table.entries import NO_STATISTICS, avro, record


@dataclass(frozen=True, slots=True)
class MadeTable:
    """A table of one version."""

    directory: Path
    ref: TableRef
    partitioned_by: Sequence[DataField] = ()

    @classmethod
    def make(
        cls,
        warehouse: Path,
        columns: Sequence[DataField],
        partitioned_by: Sequence[DataField] = (),
        primary_key: Sequence[DataField] = (),
        options: dict[str, str] | None = None,
        *,
        name: str = "made",
    ) -> Self:
        """A table without any file; caches know tables of one warehouse by their names."""
        directory = table_directory(warehouse, name)
        make_table(directory, schema_json(columns, partitioned_by, primary_key, options))
        return cls(directory, golden_ref(name), partitioned_by)

    def commit(
        self, *manifests: Sequence[ManifestEntry] | bytes, index_entries: Sequence[IndexEntry] = ()
    ) -> None:
        """Makes the files of some manifests, and the index files beside them, the newest version."""
        number = 1 + len(list(self.directory.glob("snapshot/snapshot-*")))
        listed = [
            self._write_manifest(f"manifest-{number}-{at}", entries) for at, entries in enumerate(manifests)
        ]
        index_manifest = None
        if index_entries:
            index_manifest = f"index-manifest-{number}"
            content = IndexManifest(tuple(index_entries)).write()
            (self.directory / "manifest" / index_manifest).write_bytes(content)
        read = [entries for entries in manifests if not isinstance(entries, bytes)]
        rows = sum(entry.file.row_count * (1 if entry.kind is FileKind.ADD else -1) for entry in chain(*read))
        write_snapshot(self.directory, number, [], listed, index_manifest, rows=rows)

    def side_file(self, data_file: str) -> Path:
        """Where the index beside a data file lies, in a table without partitions."""
        bucket = self.directory / "bucket-0"
        bucket.mkdir(exist_ok=True)
        return bucket / f"{data_file}.index"

    def version(self, service: IndexService) -> Version:
        return service.resolve(self.ref, SnapshotSelector())

    def plan(self, service: IndexService, written: str | None = None, **asked: Any) -> Plan:
        """A plan of the newest version."""
        return service.plan(self.ref, PlanRequest(filter=written, **asked))

    def plan_bound(
        self, service: IndexService, predicate: BoundPredicate, budget: Budget = UNBOUNDED, **asked: Any
    ) -> Plan:
        """The same by a filter that is bound already, which nothing simplifies, with less time perhaps."""
        request = PlanRequest(**asked)
        version = self.version(service)
        planner = Planner(version, request, predicate, budget=budget)
        state = planner.run()
        return answer_plan(
            version, request, predicate, state, PlanWarnings(planner.lasting_warnings, planner.warnings), {}
        )

    def _write_manifest(self, name: str, entries: Sequence[ManifestEntry] | bytes) -> dict[str, Any]:
        written, content = (
            ([], entries) if isinstance(entries, bytes) else (entries, avro(map(record, entries)))
        )
        (self.directory / "manifest" / name).write_bytes(content)
        added = sum(entry.kind is FileKind.ADD for entry in written)
        return dict.fromkeys((field["name"] for field in MANIFEST_LIST["fields"]), None) | {
            "_VERSION": 2,
            "_FILE_NAME": name,
            "_FILE_SIZE": len(content),
            "_NUM_ADDED_FILES": added,
            "_NUM_DELETED_FILES": len(written) - added,
            "_PARTITION_STATS": self._partition_bounds([entry.partition for entry in written]),
            "_SCHEMA_ID": 0,
        }

    def _partition_bounds(self, rows: Sequence[bytes]) -> dict[str, Any]:
        types = [field.type for field in self.partitioned_by]
        columns = list(zip(*(read_row(row, types) for row in rows), strict=True)) or [()] * len(types)
        present = [[value for value in values if value is not None] for values in columns]
        return {
            "_MIN_VALUES": serialize_row([min(values, default=None) for values in present], types),
            "_MAX_VALUES": serialize_row([max(values, default=None) for values in present], types),
            "_NULL_COUNTS": [values.count(None) for values in columns],
        }


@dataclass
class MadeTables:
    """A warehouse where each example of a test gets a table of its own."""

    root: Path
    service: IndexService
    count: int = 0

    def make(
        self, columns: Sequence[DataField], partitioned_by: Sequence[DataField] = (), **how: Any
    ) -> MadeTable:
        self.count += 1
        return MadeTable.make(self.root, columns, partitioned_by, **how, name=f"made_{self.count}")


def statistics(columns: Mapping[DataField, Sequence[Value | None]]) -> dict[str, Any]:
    """Statistics of just these columns, of values that compare as Python compares them."""
    present = [[value for value in rows if value is not None] for rows in columns.values()]
    types = [field.type for field in columns]
    return {
        "value_statistics": RowStatistics(
            serialize_row([min(values, default=None) for values in present], types),
            serialize_row([max(values, default=None) for values in present], types),
            tuple(len(rows) - len(values) for rows, values in zip(columns.values(), present, strict=True)),
        ),
        "value_statistics_columns": tuple(field.name for field in columns),
    }


def no_statistics() -> dict[str, Any]:
    """Nothing is known of the values of a file."""
    return {"value_statistics": NO_STATISTICS, "value_statistics_columns": ()}


def payload(kind: IndexKind, rows: Sequence[Value | None], column: DataField) -> bytes:
    """An index of a column, as the engine writes it by default, but for a small bloom filter."""
    keys = key_column(rows, column.type, column.name)
    match kind:
        case "bloom-filter":
            return bloom_filter.write(keys, items=20)
        case "bitmap":
            return bitmap.write(keys)
        case "range-bitmap":
            return range_bitmap.write(keys)
        case _:
            return bsi.write(keys)


def names_of(files: Sequence[FilePlan]) -> list[str]:
    return [file.file_name for file in files]


def unreadable(plan: Plan) -> list[str]:
    """The files that are kept although their index could not be used."""
    return [file.file_name for file in plan.files if file.reason is KeepReason.INDEX_UNREADABLE]
