"""Manifests: files with one record per data file that a commit added or removed.

:mod:`app.table.manifests.manifest_entry` describes the fields. A manifest is decoded into columns, since
plans look at all of its files. Single entries are available as objects.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator
from dataclasses import fields, is_dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.errors import CorruptMetadataError
from app.table.manifests.manifest_entry import (
    EMBEDDED,
    FILE_INDEX_SUFFIX,
    INDEX_START,
    RECORD,
    VERSION,
    DataFileMeta,
    FileKind,
    FileSource,
    ManifestEntry,
    StatisticsColumns,
)
from app.table.manifests.record_files import check_version, is_orc, read_apart
from app.table.records.columns import NameLists, OptionalIntegers, RecordColumns
from app.table.records.expansion import claim
from app.types import NULL_LENGTH, BytesColumn, own_bytes
from app.types.binary_row import ARITY_BYTES
from app.types.roaring import Buffer

_Made = TypeVar("_Made")


class Derived:
    """Cache of derived values by key. If threads make one value at once, all get the first that is stored."""

    __slots__ = ("_growing", "_made", "_weighed")

    def __init__(self) -> None:
        self._made: dict[Hashable, tuple[Any, int]] = {}
        # Functions that weigh values that grow while they are used.
        self._growing: dict[Hashable, Callable[[], int]] = {}
        self._weighed = 0

    def get_or_make(
        self, key: Hashable, make: Callable[[], _Made], weigh: Callable[[_Made], int], *, grows: bool = False
    ) -> _Made:
        """Return the value of ``key``, made at first use. ``grows``: its weight, in bytes, changes later."""
        entry = self._made.get(key)
        if entry is None:
            made = make()
            entry = self._made.setdefault(key, (made, 0 if grows else weigh(made)))
            if grows:
                self._growing[key] = partial(weigh, entry[0])
        item: _Made = entry[0]
        return item

    def __contains__(self, key: Hashable) -> bool:
        return key in self._made

    @property
    def nbytes(self) -> int:
        """Memory of all values in bytes."""
        return sum(weight for _, weight in list(self._made.values())) + self._grown

    def has_grown(self) -> bool:
        """Return True if values were added, or grew, since the last call."""
        before, self._weighed = self._weighed, len(self._made) + self._grown
        return self._weighed > before

    @property
    def _grown(self) -> int:
        return sum(weigh() for weigh in list(self._growing.values()))


_UNKNOWN_SOURCE = -1
# Objects around the columns, measured; nearly all of a small manifest.
_MEMORY_PER_MANIFEST = 18_000


class Manifest:
    """Entries of one manifest, in order: a view over columns of shape (n,), named after the fields."""

    # Values of `FileKind`.
    kinds: NDArray[np.int8]
    partitions: tuple[bytes, ...]
    # Positions in `partitions`.
    partition_codes: NDArray[np.int32]
    buckets: NDArray[np.int32]
    total_buckets: NDArray[np.int32]
    file_names: BytesColumn
    file_sizes: NDArray[np.int64]
    row_counts: NDArray[np.int64]
    min_keys: BytesColumn
    max_keys: BytesColumn
    key_statistics: StatisticsColumns
    value_statistics: StatisticsColumns
    min_sequence_numbers: NDArray[np.int64]
    max_sequence_numbers: NDArray[np.int64]
    schema_ids: NDArray[np.int64]
    levels: NDArray[np.int32]
    # Shape (n + 1,): start of each file's names in `extra_files`, which has those of all files.
    extra_file_starts: NDArray[np.int64]
    extra_files: BytesColumn
    # Milliseconds.
    creation_times: OptionalIntegers
    delete_row_counts: OptionalIntegers
    # Null where there is none.
    embedded_indexes: BytesColumn
    # Values of `FileSource`, -1 where unknown.
    file_sources: NDArray[np.int8]
    # Names of columns with value statistics; no list means all columns.
    value_statistics_columns: NameLists
    # Null where the file is in its bucket directory.
    external_paths: BytesColumn
    first_row_ids: OptionalIntegers
    # Names of columns in the file; no list means all columns.
    write_columns: NameLists

    def __init__(self, column: Callable[[str], Any], length: int, memory_bytes: int) -> None:
        self._column = column
        self._length = length
        self._memory_bytes = memory_bytes
        self.derived = Derived()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name not in COLUMNS:
                raise AttributeError(name)
            # A column is loaded at first use: unused columns of a mapped manifest take no memory.
            self.__dict__[name] = column = self._column(name)
            return column

    @classmethod
    def read(cls, data: Buffer) -> Self:
        """Read a manifest."""
        entries, embedded_indexes = read_apart(data, RECORD, EMBEDDED, INDEX_START)
        claim(embedded_indexes.nbytes + entries.nbytes_with_copies)
        files = entries.records("_FILE")
        _check(entries, files)
        partition_codes, partitions = entries.coded_bytes("_PARTITION")
        extra_files = files.lists("_EXTRA_FILES", pa.string())
        delete_row_counts = files.optional_integers("_DELETE_ROW_COUNT")
        # ORC writers until 0.5 mixed up statistics when they merged manifests, and later ones copied them:
        # without a delete row count (_DELETE_ROW_COUNT) they may be another file's, so they are ignored.
        may_be_false = ~delete_row_counts.known & is_orc(data)
        columns: dict[str, Any] = {
            "kinds": entries.integers("_KIND", np.int8),
            "partitions": partitions,
            "partition_codes": partition_codes,
            "buckets": entries.integers("_BUCKET", np.int32),
            "total_buckets": entries.integers("_TOTAL_BUCKETS", np.int32),
            "file_names": files.strings("_FILE_NAME"),
            "file_sizes": files.integers("_FILE_SIZE", np.int64),
            "row_counts": files.integers("_ROW_COUNT", np.int64),
            "min_keys": files.strings("_MIN_KEY"),
            "max_keys": files.strings("_MAX_KEY"),
            "key_statistics": StatisticsColumns.of(files.records("_KEY_STATS")).without(may_be_false),
            "value_statistics": StatisticsColumns.of(files.records("_VALUE_STATS")).without(may_be_false),
            "min_sequence_numbers": files.integers("_MIN_SEQUENCE_NUMBER", np.int64),
            "max_sequence_numbers": files.integers("_MAX_SEQUENCE_NUMBER", np.int64),
            "schema_ids": files.integers("_SCHEMA_ID", np.int64),
            "levels": files.integers("_LEVEL", np.int32),
            "extra_file_starts": np.asarray(extra_files.offsets).astype(np.int64),
            "extra_files": BytesColumn.from_arrow(extra_files.values),
            "creation_times": files.optional_integers("_CREATION_TIME"),
            "delete_row_counts": delete_row_counts,
            "embedded_indexes": embedded_indexes,
            "file_sources": _sources(files.optional_integers("_FILE_SOURCE")),
            "value_statistics_columns": NameLists.of(files.lists("_VALUE_STATS_COLS", pa.string())),
            "external_paths": files.strings("_EXTERNAL_PATH"),
            "first_row_ids": files.optional_integers("_FIRST_ROW_ID"),
            "write_columns": NameLists.of(files.lists("_WRITE_COLS", pa.string())),
        }
        decoded_bytes = entries.nbytes + embedded_indexes.data.nbytes
        memory_bytes = _MEMORY_PER_MANIFEST + decoded_bytes + sum(map(_own_bytes, columns.values()))
        return cls(columns.__getitem__, len(entries), memory_bytes)

    def __len__(self) -> int:
        return self._length

    @property
    def nbytes(self) -> int:
        """Upper bound of the memory that columns and derived values keep alive, in bytes."""
        return self._memory_bytes + self.derived.nbytes

    def without_derived(self) -> Self | None:
        """Return the manifest without derived values. Return None if it has none."""
        if not self.derived.nbytes:
            return None
        plain = type(self)(self._column, self._length, self._memory_bytes)
        plain.__dict__ |= {name: column for name, column in self.__dict__.items() if name in COLUMNS}
        return plain

    def side_indexes(self) -> BytesColumn:
        """Name the index side files, null where a file has none.

        Raises CorruptMetadataError if a file has several.
        """
        rows = np.flatnonzero(self.extra_files.ends_with(FILE_INDEX_SUFFIX.encode()))
        if not len(rows):
            return BytesColumn.nulls(len(self))
        owners = np.searchsorted(self.extra_file_starts, rows, side="right") - 1
        for row in owners[1:][owners[1:] == owners[:-1]][:1]:
            raise CorruptMetadataError(f"{self.file_name(row)} has more than one index file")
        starts, lengths = np.zeros(len(self), np.int64), np.full(len(self), NULL_LENGTH, np.int64)
        starts[owners], lengths[owners] = self.extra_files.starts[rows], self.extra_files.lengths[rows]
        return BytesColumn(self.extra_files.data, starts, lengths)

    @property
    def has_keys(self) -> bool:
        """True if some file has keys with columns, which files of append tables lack."""
        keys = self.min_keys.take(np.flatnonzero(self.min_keys.lengths >= ARITY_BYTES))
        return bool(keys.gather(0, ARITY_BYTES).any())

    def file_name(self, row: int) -> str:
        """Return the name of a file."""
        return _text(self.file_names, row)

    def entries(self, rows: NDArray[np.int64]) -> Iterator[ManifestEntry]:
        """Yield entries at ``rows`` as objects, in that order."""

        def integers(column: NDArray[Any]) -> list[int]:
            numbers: list[int] = column[rows].tolist()
            return numbers

        extra_files = self.extra_files
        parts = map(slice, integers(self.extra_file_starts[:-1]), integers(self.extra_file_starts[1:]))
        paths = self.external_paths.take(rows)
        files = map(
            DataFileMeta,
            _texts(self.file_names.take(rows)),
            integers(self.file_sizes),
            integers(self.row_counts),
            (key or b"" for key in self.min_keys.take(rows)),
            (key or b"" for key in self.max_keys.take(rows)),
            self.key_statistics.of_files(rows),
            self.value_statistics.of_files(rows),
            integers(self.min_sequence_numbers),
            integers(self.max_sequence_numbers),
            integers(self.schema_ids),
            integers(self.levels),
            (tuple(_texts(extra_files.take(part))) for part in parts),
            self.creation_times.take(rows).tolist(),
            self.delete_row_counts.take(rows).tolist(),
            self.embedded_indexes.take(rows),
            (
                None if source == _UNKNOWN_SOURCE else FileSource(source)
                for source in integers(self.file_sources)
            ),
            map(self.value_statistics_columns.__getitem__, rows.tolist()),
            (None if path is None else path.decode() for path in paths),
            self.first_row_ids.take(rows).tolist(),
            map(self.write_columns.__getitem__, rows.tolist()),
        )
        return map(
            ManifestEntry,
            map(FileKind, integers(self.kinds)),
            map(self.partitions.__getitem__, integers(self.partition_codes)),
            integers(self.buckets),
            integers(self.total_buckets),
            files,
        )

    def entry(self, row: int) -> ManifestEntry:
        """Return one entry as an object."""
        return next(self.entries(np.array([row])))


COLUMNS: Final = tuple(Manifest.__annotations__)


def _check(entries: RecordColumns, files: RecordColumns) -> None:
    check_version(entries, VERSION, "manifests")
    kinds = entries.integers("_KIND", np.int32)
    for row in np.flatnonzero((kinds != FileKind.ADD) & (kinds != FileKind.DELETE))[:1]:
        raise CorruptMetadataError(f"expected a manifest entry of kind 0 or 1, found {kinds[row]}")
    sizes, rows = files.integers("_FILE_SIZE", np.int64), files.integers("_ROW_COUNT", np.int64)
    for row in np.flatnonzero((sizes < 0) | (rows < 0))[:1]:
        name = _text(files.strings("_FILE_NAME"), row)
        raise CorruptMetadataError(f"data file {name!r} claims {sizes[row]} bytes and {rows[row]} rows")


def _sources(stored: OptionalIntegers) -> NDArray[np.int8]:
    is_known = stored.known & ((stored.values == FileSource.APPEND) | (stored.values == FileSource.COMPACT))
    return np.where(is_known, stored.values, _UNKNOWN_SOURCE).astype(np.int8)


def _text(names: BytesColumn, row: int) -> str:
    # Decoding has checked that it is valid UTF-8, and not null.
    return (names[row] or b"").decode()


def _texts(names: BytesColumn) -> Iterator[str]:
    return ((name or b"").decode() for name in names)


def _own_bytes(part: object) -> int:
    # Byte strings are in the decoded records, which are counted elsewhere.
    match part:
        case np.ndarray():
            return own_bytes(part)
        case BytesColumn():
            return own_bytes(part.starts) + own_bytes(part.lengths)
        case tuple():
            return sys.getsizeof(part) + sum(map(_own_bytes, part))
        case _ if is_dataclass(part):
            return sum(_own_bytes(getattr(part, member.name)) for member in fields(part))
        case _:
            return sys.getsizeof(part)
