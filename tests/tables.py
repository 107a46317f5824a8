"""Tables that a test makes up file by file, and the services that plan them.

They have metadata and indexes alone, since nobody reads data files.
"""

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Self

import fastavro
from pyroaring import BitMap

from app.deletion_vectors import EncodedVector, write_file
from app.file_index import container
from app.file_index.bitmap import bitmap
from app.file_index.bloom_filter import bloom_filter
from app.file_index.bsi import bsi
from app.file_index.index_kinds import IndexKind
from app.file_index.range_bitmap import range_bitmap
from app.planning.plan.answers import Plan, PlanWarnings, answer_plan
from app.planning.plan.file_plan import FilePlan, KeepReason
from app.planning.request.budget import UNBOUNDED, Budget
from app.planning.request.limits import CacheBytes, Limits
from app.planning.request.requests import PlanRequest, SnapshotSelector, TableRef
from app.planning.scan.planner import Planner
from app.planning.service import IndexService
from app.planning.version.version import Version
from app.predicates.model import BoundPredicate
from app.storage import Warehouse
from app.storage.disk.disk_tier import DiskTier
from app.storage.shared_tier import SharedTier
from app.table.manifests.index_manifest import IndexEntry, IndexManifest
from app.table.manifests.manifest import Manifest
from app.table.manifests.manifest_entry import DataFileMeta, FileKind, ManifestEntry, RowStatistics
from app.types import DataField, Value, parse_type
from app.types.binary_row.row import read_row, serialize_row
from benchmarks.avro_schemas import MANIFEST, MANIFEST_LIST
from benchmarks.synthetic import make_table, schema_json, table_directory, write_snapshot
from tests.golden_cases import DATABASE
from tests.key_columns import key_column

EMPTY_ROW = serialize_row([], [])
NO_STATISTICS = RowStatistics(EMPTY_ROW, EMPTY_ROW, ())

_FILE = DataFileMeta(
    file_name="data-1.parquet",
    file_size=100,
    row_count=10,
    min_key=EMPTY_ROW,
    max_key=EMPTY_ROW,
    key_statistics=NO_STATISTICS,
    value_statistics=NO_STATISTICS,
    min_sequence_number=0,
    max_sequence_number=9,
    schema_id=0,
    level=0,
)


def data_file(**changes: Any) -> DataFileMeta:
    return replace(_FILE, **changes)


def entry(
    kind: FileKind = FileKind.ADD, *, partition: bytes = EMPTY_ROW, bucket: int = 0, **changes: Any
) -> ManifestEntry:
    return ManifestEntry(kind, partition, bucket, -1, data_file(**changes))


def manifest(entries: Iterable[ManifestEntry]) -> Manifest:
    return Manifest.read(avro(map(record, entries)))


def avro(records: Iterable[dict[str, Any]], schema: dict[str, Any] = MANIFEST) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, list(records), codec="zstandard")
    return out.getvalue()


def record(entry: ManifestEntry) -> dict[str, Any]:
    file = entry.file
    return {
        "_VERSION": 2,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_TOTAL_BUCKETS": entry.total_buckets,
        "_FILE": {
            "_FILE_NAME": file.file_name,
            "_FILE_SIZE": file.file_size,
            "_ROW_COUNT": file.row_count,
            "_MIN_KEY": file.min_key,
            "_MAX_KEY": file.max_key,
            "_KEY_STATS": _statistics(file.key_statistics),
            "_VALUE_STATS": _statistics(file.value_statistics),
            "_MIN_SEQUENCE_NUMBER": file.min_sequence_number,
            "_MAX_SEQUENCE_NUMBER": file.max_sequence_number,
            "_SCHEMA_ID": file.schema_id,
            "_LEVEL": file.level,
            "_EXTRA_FILES": list(file.extra_files),
            "_CREATION_TIME": file.creation_time_millis,
            "_DELETE_ROW_COUNT": file.delete_row_count,
            "_EMBEDDED_FILE_INDEX": file.embedded_index,
            "_FILE_SOURCE": file.file_source,
            "_VALUE_STATS_COLS": _listed(file.value_statistics_columns),
            "_EXTERNAL_PATH": file.external_path,
            "_FIRST_ROW_ID": file.first_row_id,
            "_WRITE_COLS": _listed(file.write_columns),
        },
    }


def _listed(names: tuple[str, ...] | None) -> list[str] | None:
    return None if names is None else list(names)


def _statistics(stored: RowStatistics) -> dict[str, Any]:
    return {
        "_MIN_VALUES": stored.min_values,
        "_MAX_VALUES": stored.max_values,
        "_NULL_COUNTS": list(stored.null_counts),
    }


def columns_of(written: str, first: int = 0) -> tuple[DataField, ...]:
    """Columns in the form ``name: TYPE; name: TYPE``, whose ids count from ``first``."""
    named = (each.split(": ") for each in written.split(";"))
    return tuple(
        DataField(number, name.strip(), parse_type(text.strip()))
        for number, (name, text) in enumerate(named, first)
    )


def open_service(
    root: Path,
    allow_external: Sequence[str] = (),
    *,
    disk: DiskTier | None = None,
    shared: SharedTier | None = None,
    cache_bytes: CacheBytes | None = None,
    engine_writes_only: bool = False,
    url: str | None = None,
) -> IndexService:
    """Return a service of one warehouse, named ``golden``, in a directory or at another URL."""
    warehouse = Warehouse(
        "golden",
        url or root.as_uri(),
        allow_external=allow_external,
        disk=disk,
        engine_writes_only=engine_writes_only,
    )
    return IndexService(
        {"golden": warehouse},
        cache_bytes=cache_bytes or CacheBytes(),
        limits=Limits(),
        disk=disk,
        shared=shared,
    )


def golden_ref(table: str) -> TableRef:
    return TableRef("golden", DATABASE, table)


def equals(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "kind": "COMPOUND",
        "function": "AND",
        "children": [
            {
                "kind": "LEAF",
                "transform": {"name": "FIELD_REF", "fieldRef": {"name": column, "type": "INT"}},
                "function": "EQUAL",
                "literals": [value],
            }
            for column, value in values.items()
        ],
    }


def either(*filters: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "COMPOUND", "function": "OR", "children": list(filters)}


def all_files(plan: Plan) -> tuple[FilePlan, ...]:
    return (*plan.files, *plan.skipped_files)


def plan_bound(
    version: Version, predicate: BoundPredicate, request: PlanRequest, budget: Budget = UNBOUNDED
) -> Plan:
    """Plan a version by a filter that is bound already."""
    warnings = PlanWarnings()
    state = Planner(version, request, predicate, warnings, budget).run()
    return answer_plan(
        version, request, predicate, state, PlanWarnings(warnings.lasting, warnings.passing), {}
    )


@dataclass(frozen=True, slots=True)
class MadeTable:
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
        """Return a table without any file; caches know tables of one warehouse by their names."""
        directory = table_directory(warehouse, name)
        make_table(directory, schema_json(columns, partitioned_by, primary_key, options))
        return cls(directory, golden_ref(name), partitioned_by)

    def commit(
        self, *manifests: Sequence[ManifestEntry] | bytes, index_entries: Sequence[IndexEntry] = ()
    ) -> None:
        """Make the files of some manifests, and the index files beside them, the newest version."""
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

    def beside(self, file: ManifestEntry) -> ManifestEntry:
        """Put the index of a file beside it, in place of into its manifest."""
        name, content = file.file.file_name, file.file.embedded_index
        assert content is not None
        self.side_file(name).write_bytes(content)
        return replace(file, file=replace(file.file, embedded_index=None, extra_files=(f"{name}.index",)))

    def vectors(self, deleted: Mapping[str, Iterable[int]]) -> IndexEntry:
        encoded = [EncodedVector.encode(name, BitMap(at), is64=False) for name, at in deleted.items()]
        written = write_file(encoded, "index-0")
        (self.directory / "index" / "index-0").write_bytes(written.content)
        return IndexEntry(FileKind.ADD, EMPTY_ROW, 0, written.meta)

    def side_file(self, data_file: str) -> Path:
        """Where the index beside a data file lies, in a table without partitions."""
        bucket = self.directory / "bucket-0"
        bucket.mkdir(exist_ok=True)
        return bucket / f"{data_file}.index"

    def version(self, service: IndexService) -> Version:
        return service.resolve(self.ref, SnapshotSelector())

    def plan(self, service: IndexService, written: str | None = None, **asked: Any) -> Plan:
        return service.plan(self.ref, PlanRequest(filter=written, **asked))

    def plan_bound(
        self, service: IndexService, predicate: BoundPredicate, budget: Budget = UNBOUNDED, **asked: Any
    ) -> Plan:
        """Plans by a filter that is bound already, which nothing simplifies, with less time perhaps."""
        return plan_bound(self.version(service), predicate, PlanRequest(**asked), budget)

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
    return {"value_statistics": NO_STATISTICS, "value_statistics_columns": ()}


def payload(kind: IndexKind, rows: Sequence[Value | None], column: DataField) -> bytes:
    """Return an index of a column, as the engine writes it by default, but for a small bloom filter."""
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


def index_of(columns: Mapping[DataField, Sequence[Value | None]], *kinds: IndexKind) -> bytes:
    """Return the indexes of a file: those kinds on each column."""
    return container.write(
        {each.name: [(kind, payload(kind, rows, each)) for kind in kinds] for each, rows in columns.items()}
    )


def file_of(
    name: str,
    columns: Mapping[DataField, Sequence[Value | None]],
    *kinds: IndexKind,
    bounded: bool = True,
    **members: Any,
) -> ManifestEntry:
    """Make a file of these rows: embedded indexes of these kinds on each column, statistics on request."""
    known = statistics(columns) if bounded else no_statistics()
    (count,) = set(map(len, columns.values()))
    index = index_of(columns, *kinds) if kinds else None
    return entry(**{"file_name": name, "row_count": count, "embedded_index": index, **known, **members})


def names_of(files: Sequence[FilePlan]) -> list[str]:
    return [file.file_name for file in files]


def unreadable(plan: Plan) -> list[str]:
    """Return the files that are kept although their index could not be used."""
    return [file.file_name for file in plan.files if file.reason is KeepReason.INDEX_UNREADABLE]
