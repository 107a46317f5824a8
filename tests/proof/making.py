"""Writes a random table as an engine would: metadata, statistics, indexes, deletion vectors; no data files.

What writers do differently is drawn: which statistics there are and how they are cut, where an index lies and
whether it is whole, whether vectors are counted, in which manifest a file comes and goes.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Final

from pyroaring import BitMap

from app.bucket_index import hash_index
from app.deletion_vectors import EncodedVector, write_file
from app.errors import IndexWriteError
from app.file_index import container
from app.file_index.index_kinds import KINDS
from app.planning.service import IndexService
from app.table.manifests.index_manifest import IndexEntry
from app.table.manifests.manifest_entry import FileKind, ManifestEntry, RowStatistics
from app.table.statistics.statistics import may_be_in_other_zones
from app.types import DataField, DataType, TypeRoot, Value, sql_key
from app.types.binary_row.row import serialize_row
from app.types.civil_time import NANOS_PER_MICRO, NANOS_PER_MILLI
from app.types.data_types import FLOATING_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS
from app.types.index_files import HASH, IndexFileMeta
from benchmarks.synthetic import schema_json
from tests.bucket_index.plain_buckets import key_hash
from tests.proof.global_indexes import global_indexes
from tests.proof.tables import File, RandomTable
from tests.tables import EMPTY_ROW, NO_STATISTICS, MadeTable, data_file, payload

_STATED_CHARACTERS: Final = 16
"""Bounds of strings are cut after so many, unless a table says otherwise."""
_NANOS_PER_HOUR: Final = 3_600_000_000_000


@dataclass(frozen=True)
class Writer:
    """Writes one table.

    Attributes:
        rng: the source of chance.
        table: what is written.
        truncates: whether bounds of strings are cut.
    """

    rng: Random
    table: RandomTable
    truncates: bool

    @classmethod
    def of(cls, rng: Random, table: RandomTable) -> Writer:
        return cls(rng, table, rng.random() < 0.6)

    def write(self, warehouse: Path, name: str, service: IndexService) -> MadeTable:
        table = self.table
        fields = [column.field for column in table.present]
        first = [column.fields[0] for column in table.columns]
        partitioned = [fields[at] for at in table.partitioned_by]
        key = [fields[at] for at in (*table.partitioned_by, *table.key)] if table.key else []
        made = MadeTable.make(
            warehouse, [each for each in first if each], partitioned, key, self._options(0), name=name
        )
        for schema in range(1, table.schemas):
            there = [field for column in table.columns if (field := column.fields[schema]) is not None]
            document = schema_json(there, partitioned, key, self._options(schema)) | {"id": schema}
            (made.directory / "schema" / f"schema-{schema}").write_text(json.dumps(document))
        indexes = [self._index(file) for file in table.files]
        embedded = [index is not None and self.rng.random() < 0.5 for index in indexes]
        entries = [
            self._entry(number, file, index, is_embedded=is_embedded)
            for number, (file, index, is_embedded) in enumerate(
                zip(table.files, indexes, embedded, strict=True)
            )
        ]
        made.commit(*self._manifests(entries), index_entries=self._index_entries(made))
        paths = made.version(service).source.paths
        for entry, index, is_embedded in zip(entries, indexes, embedded, strict=True):
            if index is not None and not is_embedded:
                directory = warehouse / paths.bucket_directory(entry.partition, entry.bucket)
                directory.mkdir(parents=True, exist_ok=True)
                (directory / f"{entry.file.file_name}.index").write_bytes(index)
        return made

    def _options(self, schema: int) -> dict[str, str]:
        is_latest = schema == self.table.schemas - 1
        return self.table.options if is_latest else {**self.table.options, **self.table.former}

    def _entry(self, number: int, file: File, index: bytes | None, *, is_embedded: bool) -> ManifestEntry:
        name = name_of(number, file)
        partition = self.partition_row(file.partition)
        hours_ahead = self._hours_ahead()
        # pypaimon numbers all rows of a file alike, as does whoever tracks rows.
        is_one_number = file.first_row_id is not None or (hours_ahead != 0 and not self.table.key)
        meta = data_file(
            file_name=name,
            row_count=len(file),
            schema_id=file.schema,
            level=file.level,
            min_sequence_number=file.sequence,
            max_sequence_number=file.sequence + (0 if is_one_number else len(file) - 1),
            delete_row_count=len(file.removes) if self.table.key else self.rng.choice([None, 0]),
            embedded_index=index if is_embedded else None,
            extra_files=(f"{name}.index",) if index is not None and not is_embedded else (),
            first_row_id=file.first_row_id,
            **self._value_statistics(file, hours_ahead),
            **self._keys(file, hours_ahead),
        )
        return ManifestEntry(FileKind.ADD, partition, file.bucket, file.total_buckets, meta)

    def partition_row(self, codes: Sequence[int]) -> bytes:
        columns = [self.table.columns[at] for at in self.table.partitioned_by]
        values = [column.stored[0][code] for column, code in zip(columns, codes, strict=True)]
        return serialize_row(values, [column.field.type for column in columns]) if columns else EMPTY_ROW

    def _in_file(self, file: File) -> list[tuple[DataField, list[Value | None]]]:
        """Return the columns of a file with its rows, in their own order."""
        found = []
        for at, column in enumerate(self.table.columns):
            written = column.fields[file.schema]
            if written is not None and (file.holds is None or at in file.holds):
                stored = column.stored[file.schema]
                found.append((written, [stored[code] for code in file.codes[:, at].tolist()]))
        return found

    def _hours_ahead(self) -> int:
        """Hours that the clocks of a file's bounds are wrong by, as pypaimon up to 1.4.2 writes them."""
        return 0 if self.table.engine or self.rng.random() < 0.6 else self.rng.randint(-12, 14)

    def _value_statistics(self, file: File, hours_ahead: int) -> dict[str, Any]:
        columns = self._in_file(file)
        names = None if file.holds is None else tuple(field.name for field, _ in columns)
        if self.rng.random() < 0.08:
            statistics = RowStatistics(EMPTY_ROW, EMPTY_ROW, ())
            return {
                "value_statistics": statistics,
                "value_statistics_columns": (),
                "write_columns": names,
            }
        listed = names
        if self.rng.random() < 0.3:
            columns = [each for each in columns if self.rng.random() < 0.7]
            listed = tuple(field.name for field, _ in columns)
        types = [field.type for field, _ in columns]
        stated = [self._bounds(file, field.type, rows, hours_ahead) for field, rows in columns]
        if not self.table.engine and self.rng.random() < 0.2:
            stated, types = _in_slots(stated, types)
        counts = tuple(None if self.rng.random() < 0.05 else rows.count(None) for _, rows in columns)
        return {
            "value_statistics": RowStatistics(
                serialize_row([low for low, _ in stated], types),
                serialize_row([high for _, high in stated], types),
                counts,
            ),
            "value_statistics_columns": listed,
            "write_columns": names,
        }

    def _keys(self, file: File, hours_ahead: int) -> dict[str, Any]:
        if not self.table.key:
            return {"key_statistics": NO_STATISTICS}
        types = [self.table.columns[at].field.type for at in self.table.key]
        ends = [
            [self.table.columns[at].stored[file.schema][file.codes[row, at]] for at in self.table.key]
            for row in (0, -1)
        ]
        columns = [
            [self.table.columns[at].stored[file.schema][code] for code in file.codes[:, at].tolist()]
            for at in self.table.key
        ]
        stated = [
            self._bounds(file, data_type, rows, hours_ahead)
            for data_type, rows in zip(types, columns, strict=True)
        ]
        return {
            "min_key": serialize_row(ends[0], types),
            "max_key": serialize_row(ends[1], types),
            "key_statistics": RowStatistics(
                serialize_row([low for low, _ in stated], types),
                serialize_row([high for _, high in stated], types),
                (0,) * len(types),
            ),
        }

    def _bounds(
        self, file: File, data_type: DataType, rows: Sequence[Value | None], hours_ahead: int
    ) -> tuple[Value | None, Value | None]:
        """Return what a writer states of a column."""
        nothing = None, None
        present = [value for value in rows if value is not None]
        if not present or self.rng.random() < 0.1:
            return nothing
        if data_type.root in FLOATING_ROOTS:
            return self._floating_bounds(file, [float(each) for each in present])
        low, high = min(present), max(present)
        if data_type.root in STRING_ROOTS and self.truncates:
            return _cut(low, high)
        if may_be_in_other_zones(data_type) and hours_ahead:
            ahead = hours_ahead * _NANOS_PER_HOUR
            return int(low) - ahead, int(high) - ahead
        if data_type.root in TIMESTAMP_ROOTS and not data_type.is_compact_timestamp:
            unit = NANOS_PER_MILLI if file.format == "orc" else NANOS_PER_MICRO
            if self.rng.random() < 0.5 and (file.format == "orc" or not self.table.engine):
                return int(low) // unit * unit, int(high) // unit * unit
        return low, high

    def _floating_bounds(self, file: File, present: Sequence[float]) -> tuple[float | None, float | None]:
        numbers = [each for each in present if not math.isnan(each)]
        if len(numbers) < len(present):
            if file.format == "parquet" and self.table.engine:
                return None, None
            if file.format == "orc" and math.isnan(present[0]):
                return math.nan, math.nan
        if not numbers:
            return None, None
        key = sql_key(DataType(TypeRoot.DOUBLE))
        return min(numbers, key=key), max(numbers, key=key)

    def _index(self, file: File) -> bytes | None:
        """Return the file index of a data file; perhaps none, perhaps a damaged one."""
        if self.rng.random() < 0.15:
            return None
        listed: dict[str, list[tuple[str, bytes | None]]] = {}
        for field, rows in self._in_file(file):
            found = [each for kind in KINDS.values() for each in self._payload(kind, field, rows)]
            if found:
                listed[field.name] = found
        if not listed:
            return None
        content = container.write(listed)
        if self.table.damaged and self.rng.random() < 0.1:
            return content[: self.rng.randrange(len(content))]
        return content

    def _payload(
        self, kind: Any, field: DataField, rows: Sequence[Value | None]
    ) -> list[tuple[str, bytes | None]]:
        if not kind.takes(field.type) or self.rng.random() < 0.75:
            return []
        if all(value is None for value in rows) and self.rng.random() < 0.5:
            return [(kind, None)]
        try:
            return [(kind, payload(kind, rows, field))]
        except IndexWriteError:
            return []

    def _manifests(self, entries: Sequence[ManifestEntry]) -> list[list[ManifestEntry]]:
        """Return entries by manifest; files that have gone are added by one, and removed by a later one."""
        listed = [[entries[number] for number in numbers] for numbers in self.table.manifests]
        if entries and self.rng.random() < 0.3:
            gone = [
                replace(each, file=replace(each.file, file_name=f"gone-{at}"))
                for at, each in enumerate(self.rng.sample(list(entries), min(5, len(entries))))
            ]
            listed[self.rng.randrange(len(listed))] += gone
            listed.append([replace(each, kind=FileKind.DELETE) for each in gone])
        return listed

    def _index_entries(self, made: MadeTable) -> list[IndexEntry]:
        partitions = {file.partition: self.partition_row(file.partition) for file in self.table.files}
        rng = Random(self.rng.getrandbits(64))
        of_rows = global_indexes(rng, self.table, made.directory / "index", partitions)
        return [*self._vectors(made), *self._hashes(made), *of_rows]

    def _vectors(self, made: MadeTable) -> list[IndexEntry]:
        by_place: dict[object, list[tuple[int, File]]] = defaultdict(list)
        for number, file in enumerate(self.table.files):
            if file.deleted:
                by_place[file.place].append((number, file))
        found = []
        for at, some in enumerate(by_place.values()):
            vectors = [
                EncodedVector.encode(
                    name_of(number, file),
                    BitMap(file.deleted),
                    is64=self.rng.random() < 0.3,
                )
                for number, file in some
            ]
            written = write_file(vectors, f"index-vectors-{at}")
            (made.directory / "index" / written.meta.file_name).write_bytes(written.content)
            ranges = tuple(
                replace(each, cardinality=None) if self.rng.random() < 0.2 else each
                for each in written.meta.ranges
            )
            file = some[0][1]
            meta = replace(written.meta, ranges=ranges)
            found.append(IndexEntry(FileKind.ADD, self.partition_row(file.partition), file.bucket, meta))
        return found

    def _hashes(self, made: MadeTable) -> list[IndexEntry]:
        if not self.table.key or self.table.options["bucket"] != "-1":
            return []
        by_place: dict[Any, set[int]] = defaultdict(set)
        columns = [self.table.columns[at] for at in self.table.key]
        types = [column.field.type for column in columns]
        for file in self.table.files:
            for row in file.codes[:, list(self.table.key)].tolist():
                key = [column.stored[file.schema][code] for column, code in zip(columns, row, strict=True)]
                by_place[file.place].add(key_hash(key, types))
        found = []
        for at, ((partition, bucket), hashes) in enumerate(by_place.items()):
            if self.rng.random() < 0.1:
                continue
            content = hash_index.write(sorted(hashes))
            name = f"index-hash-{at}"
            (made.directory / "index" / name).write_bytes(content)
            meta = IndexFileMeta(HASH, name, len(content), len(hashes))
            found.append(IndexEntry(FileKind.ADD, self.partition_row(partition), bucket, meta))
        return found


def name_of(number: int, file: File) -> str:
    return f"data-{number}.{file.format}"


def _cut(low: Value, high: Value) -> tuple[Value, Value | None]:
    """Bounds of strings as the engine cuts them: the upper one is the next text of as many characters."""
    texts = [bytes(each).decode() for each in (low, high)]  # type: ignore[arg-type] # strings
    first, last = (text[:_STATED_CHARACTERS] for text in texts)
    if len(texts[1]) <= _STATED_CHARACTERS:
        return first.encode(), high
    for at in reversed(range(len(last))):
        following = ord(last[at]) + 1
        if following <= 0x10FFFF and not 0xD800 <= following <= 0xDFFF:
            return first.encode(), (last[:at] + chr(following)).encode()
    return first.encode(), None


def _in_slots(
    stated: Sequence[tuple[Value | None, Value | None]], types: Sequence[DataType]
) -> tuple[list[tuple[Value | None, Value | None]], list[DataType]]:
    """Bounds as pypaimon up to 1.4.2 writes them: wide decimals and timestamps as numbers in their slots."""
    number = DataType(TypeRoot.BIGINT)
    found: list[tuple[Value | None, Value | None]] = []
    written = []
    for bounds, data_type in zip(stated, types, strict=True):
        is_wide = data_type.root is TypeRoot.DECIMAL and not data_type.is_compact_decimal
        is_long = data_type.root in TIMESTAMP_ROOTS and not data_type.is_compact_timestamp
        unit = NANOS_PER_MILLI if is_long else 1
        slots = [None if each is None else int(each) // unit for each in bounds] if is_wide or is_long else []
        fits = all(each is None or -(1 << 63) <= each < 1 << 63 for each in slots)
        if slots:
            found.append((slots[0], slots[1]) if fits else (None, None))
            written.append(number)
        else:
            found.append(bounds)
            written.append(data_type)
    return found, written
