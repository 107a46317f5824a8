"""What versions consist of, read once: held to what the engine says, also of files gone or damaged."""

import contextlib
import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from app.errors import CorruptMetadataError, PaimonIndexError, SnapshotExpiredError, UnsupportedFormatError
from app.planning.request.limits import CacheBytes
from app.table import Catalog, ResolvedSnapshot, Table, TableReader, TableSchema
from app.table.manifests.index_manifest import IndexEntry
from app.table.manifests.live_files import live_rows
from app.table.manifests.manifest import Manifest
from app.table.manifests.manifest_entry import ManifestEntry
from app.table.manifests.manifest_list import ManifestList
from app.table.schema.partition import partition_path, partition_values
from app.table.statistics.statistics import partition_bounds, value_bounds
from app.table.storage import Storage
from app.types import DataField, DataType, TypeRoot, Value, parse_json, to_json
from app.types.binary_row.row import read_row
from app.types.civil_time import NANOS_PER_MILLI
from app.types.data_types import FLOATING_ROOTS, TIMESTAMP_ROOTS
from app.types.index_files import DELETION_VECTORS
from app.work import LEDGER, MappedBytes
from benchmarks.synthetic import write_snapshot
from tests import golden_cases
from tests.examples import examples, share
from tests.file_bounds import FileBounds, by_file
from tests.golden_cases import DATABASE, GoldenWarehouse
from tests.golden_checks import for_each, together
from tests.golden_filters import as_instant
from tests.memory_storage import MemoryStorage
from tests.table.conftest import DIRECTORY, NAME, metadata_reads
from tests.tables import MadeTable, avro, columns_of, entry, manifest, open_service, record


def test_what_is_written_once_is_read_once(table: Table, storage: MemoryStorage) -> None:
    for _ in range(3):
        resolved = table.resolve()
        assert table.metadata.manifests(resolved)
        assert table.metadata.index_entries(resolved)
    assert len(metadata_reads(storage)) == len(set(metadata_reads(storage)))


class RoundTrip(MemoryStorage):
    """A far store that answers calls for metadata once all that one round trip expects have come."""

    is_local = False

    def __init__(self, files: dict[str, bytes], expected: int) -> None:
        super().__init__(files)
        self._round_trip = Barrier(expected, timeout=10)

    def read(self, path: str) -> bytes:
        if "/manifest/" in path:
            self._round_trip.wait()
        return super().read(path)


def test_a_far_index_manifest_is_read_side_by_side_with_manifest_lists(
    storage: MemoryStorage, reader_of: Callable[[Storage], TableReader]
) -> None:
    far = RoundTrip(storage.files, expected=3)
    table = Catalog(reader_of(far)).table(DATABASE, NAME)
    resolved = table.resolve()

    table.metadata.begin_index_entries(resolved)
    files = table.metadata.manifest_files(resolved)
    entries = table.metadata.index_entries(resolved)

    assert files
    assert entries
    assert len(metadata_reads(far)) == 3


def test_a_new_version_decodes_only_what_it_added(table: Table, storage: MemoryStorage) -> None:
    older, newer = (table.resolve(snapshot_id=number) for number in (7, 8))
    table.metadata.manifests(older)
    seen = {name for name, _ in table.metadata.manifest_files(older)}
    added = [name for name, _ in table.metadata.manifest_files(newer) if name not in seen]
    storage.reads.clear()
    manifests = table.metadata.manifests(newer)
    assert len(manifests) == len(table.metadata.manifest_files(newer)) > len(added) > 0
    assert [path.rpartition("/")[2] for path in metadata_reads(storage)] == added


def test_manifests_that_do_not_fit_side_by_side_are_read_in_turn(
    tmp_path: Path, limit_memory: Callable[[int], None]
) -> None:
    """As part of a plan, which claims memory for its files once it has decided about them."""
    made = MadeTable.make(tmp_path, columns_of("id: INT"))
    index = np.random.default_rng(7).bytes(1 << 20)
    manifests = [
        made._write_manifest(f"manifest-{at}", [entry(file_name=str(at), row_count=1, embedded_index=index)])  # noqa: SLF001
        for at in range(24)
    ]
    write_snapshot(made.directory, 1, manifests, [], rows=24)

    with closing(open_service(tmp_path, cache_bytes=CacheBytes(manifests=1 << 20, plans=0))) as service:
        limit_memory(40 << 20)
        assert len(made.plan(service).files) == 24


def test_memory_is_held_until_what_was_decoded_is_stored(
    tmp_path: Path, limit_memory: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = MadeTable.make(tmp_path, columns_of("id: INT"))
    index = np.random.default_rng(7).bytes(1 << 20)
    written = made._write_manifest("manifest-0", [entry(row_count=1, embedded_index=index)])  # noqa: SLF001
    write_snapshot(made.directory, 1, [written], [], rows=1)
    claimed: list[int] = []
    map_file = MappedBytes.map

    def noting(descriptor: int) -> MappedBytes:
        claimed.append(LEDGER.claimed["decoding"])
        return map_file(descriptor)

    monkeypatch.setattr(MappedBytes, "map", noting)
    with closing(open_service(tmp_path, cache_bytes=CacheBytes(manifests=1, plans=0))) as service:
        limit_memory(40 << 20)
        made.plan(service)

    assert claimed
    assert min(claimed) >= len(index)
    assert not LEDGER.claimed["decoding"]


@pytest.mark.parametrize("kind", ["manifest-list-", "manifest-", "index-manifest-"])
def test_files_that_expire_while_they_are_read(table: Table, storage: MemoryStorage, kind: str) -> None:
    resolved = table.resolve()
    for path in list(storage.files):
        if path.startswith(f"{DIRECTORY}/manifest/{kind}"):
            del storage.files[path]
    with pytest.raises(SnapshotExpiredError, match=kind):
        _ = table.metadata.manifests(resolved), table.metadata.index_entries(resolved)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"garbage", CorruptMetadataError),
        (b"ORC...", CorruptMetadataError),
        (b"PAR1" + bytes(20), CorruptMetadataError),
        (avro([{**record(entry()), "_VERSION": 3}]), UnsupportedFormatError),
    ],
    ids=["garbage", "orc", "parquet", "later_version"],
)
def test_errors_name_the_file(
    table: Table, storage: MemoryStorage, content: bytes, error: type[PaimonIndexError]
) -> None:
    ((name, _), *_) = table.metadata.manifest_files(table.resolve())
    path = f"{DIRECTORY}/manifest/{name}"
    storage.files[path] = content
    with pytest.raises(error, match=path):
        table.metadata.manifests(table.resolve())


@examples(300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_manifests_raise_nothing_but_our_errors(golden: GoldenWarehouse, data: st.DataObject) -> None:
    # Not compressed, so that damage reaches the records.
    files = sorted((golden.table("codec_null") / "manifest").glob("manifest-*"))
    path = data.draw(st.sampled_from(files))
    damaged = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(PaimonIndexError):
        (ManifestList if "manifest-list" in path.name else Manifest).read(bytes(damaged))


DELETION = ("path", "offset", "length", "cardinality")
VERSIONS = {name: golden_cases.expected(name)["versions"] for name in golden_cases.tables()}


def row_form(values: Sequence[Value | None], fields: Sequence[DataField]) -> dict[str, Any]:
    return {field.name: to_json(value, field.type) for value, field in zip(values, fields, strict=True)}


def _written(value: Any, data_type: DataType) -> Any:
    return as_instant(value) if data_type.root is TypeRoot.TIMESTAMP_LTZ else value


def answer_form(recorded: dict[str, Any], fields: Mapping[str, DataField]) -> dict[str, Any]:
    """Return recorded values as answers write them: the documents have other text for some types."""
    return {
        name: to_json(parse_json(_written(value, fields[name].type), fields[name].type), fields[name].type)
        for name, value in recorded.items()
    }


class Version:
    """One version of one table, decoded into the form of its expected document."""

    def __init__(self, catalog: Catalog, name: str, at: dict[str, Any]) -> None:
        self.table: Table = catalog.table(golden_cases.DATABASE, name)
        self.resolved: ResolvedSnapshot = self.table.resolve(**at)
        self._prefix = f"{self.table.directory}/"

    def partition(self, partition: bytes) -> dict[str, Any]:
        schema = self.resolved.schema
        return row_form(partition_values(partition, schema), schema.partition_fields)

    def path(self, path: str) -> str:
        return path.removeprefix(self._prefix)

    def files(self) -> list[dict[str, Any]]:
        deletions = self.deletions() if self.resolved.schema.options.deletion_vectors else {}
        manifests = self.table.metadata.manifests(self.resolved)
        return [
            self.file(manifest.entry(row), deletions)
            for manifest, rows in zip(manifests, live_rows(manifests), strict=True)
            for row in rows.tolist()
        ]

    def file(self, entry: ManifestEntry, deletions: dict[Any, Any]) -> dict[str, Any]:
        file, schema = entry.file, self.table.schema(self.resolved, entry.file.schema_id)
        directory = partition_path(entry.partition, self.resolved.schema)
        described = {
            "file": file.file_name,
            "path": self.path(self.table.data_paths(self.resolved).data_file(entry)),
            "partition": self.partition(entry.partition),
            "partition_path": f"{directory}/" if directory else "",
            "bucket": entry.bucket,
            "total_buckets": entry.total_buckets,
            "level": file.level,
            "row_count": file.row_count,
            "delete_row_count": file.delete_row_count,
            "file_size": file.file_size,
            "schema_id": file.schema_id,
            "min_sequence": file.min_sequence_number,
            "max_sequence": file.max_sequence_number,
            "file_source": None if file.file_source is None else file.file_source.name,
            "extra_files": list(file.extra_files),
            "external_path": file.external_path,
            "first_row_id": file.first_row_id,
            "write_cols": _listed(file.write_columns),
            "embedded_index": _embedded(file.embedded_index),
            "value_stats_cols": _listed(file.value_statistics_columns),
            "value_stats": _told(_statistics(entry, schema)),
            "deletion": deletions.get((entry.partition, entry.bucket, file.file_name)),
        }
        if schema.primary_keys:
            keys = schema.trimmed_primary_keys
            types = [column.type for column in keys]
            described["min_key"] = row_form(read_row(file.min_key, types), keys)
            described["max_key"] = row_form(read_row(file.max_key, types), keys)
        return described

    def index(self, entry: IndexEntry) -> dict[str, Any]:
        deletion_vectors = entry.file.index_type == DELETION_VECTORS
        return {
            "kind": entry.kind.name,
            "partition": self.partition(entry.partition),
            "bucket": entry.bucket,
            "index_type": entry.file.index_type,
            "file_name": entry.file.file_name,
            "path": self.path(self.table.data_paths(self.resolved).paths.index_file(entry)),
            "file_size": entry.file.file_size,
            "row_count": entry.file.row_count,
            "external_path": entry.file.external_path,
            "dv_ranges": [
                {
                    "data_file": each.data_file,
                    "offset": each.offset,
                    "length": each.length,
                    "cardinality": each.cardinality,
                }
                for each in entry.file.ranges
            ]
            if deletion_vectors
            else None,
        }

    def recorded_file(self, recorded: dict[str, Any]) -> dict[str, Any]:
        fields = self.table.schema(self.resolved, recorded["schema_id"]).by_name
        # A bound that is NaN is not relied on, and neither is the other one.
        trusted = {
            name: dict.fromkeys(column) if "NaN" in (column["min"], column["max"]) else column
            for name, column in recorded["value_stats"].items()
        }
        bounds = {
            bound: answer_form({name: column[bound] for name, column in trusted.items()}, fields)
            for bound in ("min", "max")
        }
        if recorded["file"].endswith(".orc"):
            bounds["max"] = {
                name: _whole_millisecond(each, fields[name]) for name, each in bounds["max"].items()
            }
        described = {key: value for key, value in recorded.items() if key != "visible"}
        described["value_stats"] = {
            name: {"min": bounds["min"][name], "max": bounds["max"][name], "nulls": column["nulls"]}
            for name, column in recorded["value_stats"].items()
        }
        for row in {"partition", "min_key", "max_key"} & set(recorded):
            described[row] = answer_form(recorded[row], fields)
        if recorded["deletion"] is not None:
            described["deletion"] = {key: recorded["deletion"][key] for key in DELETION}
        return described

    def recorded_index(self, recorded: dict[str, Any]) -> dict[str, Any]:
        return {**recorded, "partition": answer_form(recorded["partition"], self.resolved.schema.by_name)}

    def deletions(self) -> dict[Any, Any]:
        paths = self.table.data_paths(self.resolved).paths
        return {
            (entry.partition, entry.bucket, each.data_file): dict(
                zip(
                    DELETION,
                    (self.path(paths.index_file(entry)), each.offset, each.length, each.cardinality),
                    strict=True,
                )
            )
            for entry in self.table.metadata.index_entries(self.resolved)
            for each in entry.file.ranges
        }


def _whole_millisecond(maximum: Any, column: DataField) -> Any:
    """Return the last time that an ORC file's maximum may stand for: old writers cut it to milliseconds."""
    known = parse_json(maximum, column.type)
    is_cut = column.type.root in TIMESTAMP_ROOTS and column.type.precision > 3
    if known is None or not is_cut or int(known) % NANOS_PER_MILLI:
        return maximum
    return to_json(int(known) + NANOS_PER_MILLI - 1, column.type)


def _listed(names: Sequence[str] | None) -> list[str] | None:
    return None if names is None else list(names)


def _embedded(index: bytes | None) -> dict[str, Any] | None:
    return None if index is None else {"length": len(index), "sha256": hashlib.sha256(index).hexdigest()}


def _statistics(entry: ManifestEntry, schema: TableSchema) -> dict[str, Any]:
    files = manifest([entry])

    def described(column: DataField) -> dict[str, Any]:
        (known,) = by_file(value_bounds(files, np.array([0]), column, lambda _: schema))
        return {
            "min": to_json(known.low, column.type),
            "max": to_json(known.high, column.type),
            "nulls": known.null_count,
        }

    return {column.name: described(column) for column in schema.fields}


def _unknown(column: dict[str, Any]) -> bool:
    return all(column[fact] is None for fact in ("min", "max", "nulls"))


def _told(statistics: dict[str, Any]) -> dict[str, Any]:
    """Without columns that nothing is known of, which the documents leave out."""
    return {name: column for name, column in statistics.items() if not _unknown(column)}


@together("name", "version", {name: share(versions, 3) for name, versions in VERSIONS.items()})
def test_files(golden_catalog: Catalog, name: str, version: dict[str, Any]) -> None:
    decoded = Version(golden_catalog, name, version["at"])

    def key(described: dict[str, Any]) -> tuple[str, int]:
        return described["path"], described["level"]

    expected = [decoded.recorded_file(each) for each in version["files"]]
    assert sorted(decoded.files(), key=key) == sorted(expected, key=key)


@together("name", "version", VERSIONS)
def test_index_entries(golden_catalog: Catalog, name: str, version: dict[str, Any]) -> None:
    decoded = Version(golden_catalog, name, version["at"])
    found = [decoded.index(entry) for entry in decoded.table.metadata.index_entries(decoded.resolved)]

    def key(described: dict[str, Any]) -> str:
        return str(described["path"])

    expected = [decoded.recorded_index(each) for each in version["index_entries"]]
    assert sorted(found, key=key) == sorted(expected, key=key)


@together("name", "version", VERSIONS)
def test_snapshot_and_schema(golden_catalog: Catalog, name: str, version: dict[str, Any]) -> None:
    resolved = golden_catalog.table(golden_cases.DATABASE, name).resolve(**version["at"])
    assert resolved.schema.id == version["schema_id_used"]
    if version["snapshot"] is None:
        assert resolved.snapshot is None
        return
    assert resolved.snapshot is not None
    assert resolved.snapshot.id == version["snapshot"]["id"]
    assert resolved.snapshot.time_millis == version["snapshot"]["timeMillis"]
    assert resolved.snapshot.total_record_count == version["snapshot"]["totalRecordCount"]


@for_each("name", golden_cases.tables())
def test_schema_of_the_table(golden_catalog: Catalog, name: str) -> None:
    expected = golden_cases.expected(name)
    schema = golden_catalog.table(golden_cases.DATABASE, name).resolve().schema
    assert schema.id == expected["schema"]["id"]
    assert [field.name for field in schema.fields] == [
        field["name"] for field in expected["schema"]["fields"]
    ]
    assert list(schema.partition_keys) == expected["partition_keys"]
    assert list(schema.primary_keys) == expected["primary_keys"]
    assert [key.name for key in schema.trimmed_primary_keys] == expected["trimmed_primary_keys"]
    assert schema.bucket_mode == expected["bucket_mode"]
    assert schema.merge_engine == expected["merge_engine"]
    assert schema.options.deletion_vectors == expected["deletion_vectors"]


@together("name", "version", {name: share(versions, 3) for name, versions in VERSIONS.items()})
def test_manifest_lists_count_files_and_bound_partitions(
    golden_catalog: Catalog, name: str, version: dict[str, Any]
) -> None:
    """What plans rely on that leave manifests of other partitions unread."""
    decoded = Version(golden_catalog, name, version["at"])
    lists = decoded.table.metadata.manifest_lists(decoded.resolved)
    manifests = decoded.table.metadata.manifests(decoded.resolved)

    counted = sum(int(each.added.sum() - each.deleted.sum()) for each in lists)
    assert counted == sum(map(len, live_rows(manifests)))
    found = iter(manifests)
    for listed in lists:
        for row in range(len(listed.manifests)):
            rows = next(found).partitions
            for slot, column in enumerate(decoded.resolved.schema.partition_fields):
                values = [partition_values(each, decoded.resolved.schema)[slot] for each in rows]
                assert _enclose(_partition_bounds(decoded, listed, row, slot), values, column)


def _partition_bounds(decoded: Version, listed: ManifestList, row: int, slot: int) -> FileBounds:
    fields = decoded.resolved.schema.partition_fields
    (known,) = by_file(partition_bounds(listed, np.array([row]), fields[slot].type, slot, len(fields)))
    return known


def _enclose(known: FileBounds, values: Sequence[Value | None], column: DataField) -> bool:
    present = [value for value in values if value is not None]
    if len(present) < len(values) and known.null_count == 0:
        return False
    if column.type.root in FLOATING_ROOTS:
        # These bounds are not relied on.
        return True
    low_enough = all(known.low is None or known.low <= value for value in present)  # type: ignore[operator]
    return low_enough and all(known.high is None or value <= known.high for value in present)  # type: ignore[operator]
