"""Estimates of the effect of new indexes, by building them for some data files of a table.

For each filter, today's plan is made. Of the files that it keeps, a random sample is read, the proposed
indexes are built in memory as the engine does, and evaluated together with the files' own indexes. Nothing
is written. Files that merge with others are not tried, since plans skip them only together.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from typing import Annotated, ClassVar, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from app.building import values_under
from app.described import DESCRIBED
from app.errors import (
    CorruptFileError,
    CorruptIndexError,
    FilterError,
    IndexWriteError,
    LimitExceededError,
    UnsupportedFormatError,
)
from app.file_index import (
    KINDS,
    FileIndex,
    FileIndexOptions,
    IndexDefinition,
    IndexKind,
    KeyColumn,
    evaluate,
    wanted_indexes,
)
from app.file_index.answers import SKIP
from app.file_index.container import write, write_index
from app.options import split_map_key
from app.planning import FileIndexes, Version, decide, in_file_schema
from app.planning.request import PlanRequest, SelectionForm, VersionedRequest
from app.planning.request.limits import Limits
from app.planning.request.members import Count, Filter, Listed, Name, Request
from app.predicates.model import ALWAYS_TRUE, BoundPredicate
from app.table import DECODER, PROCESS_BYTES, TableSchema
from app.types import DataField
from app.work import LEDGER, Claim, check_deadline, remaining_seconds

DEFAULT_FILES: Final = 20
MOST_FILES: Final = 1_000
DEFAULT_BYTES: Final = 64 << 20
_MOST_INDEXES: Final = 20
_MOST_FILTERS: Final = 64
_MOST_READ_BYTES: Final = 1 << 30

_FORMATS: Final = {"parquet": "Parquet", "orc": "ORC"}
_DECODING_BYTES: Final = 64 << 20
_DECODING_EXPANSION: Final = 16
_SHARE_OF_ROOM: Final = 1 / 4
_MOST_BYTES: Final = 1 << 30
# A file is tried only if its columns may take at least its bytes divided by this number.
_LEAST_SHARE: Final = 4
_BUILDING_EXPANSION: Final = 12
# Bitmaps take most: 11 times a column of distinct texts, and 60 bytes a row for numbers.
_BUILDING_ROW_BYTES: Final = 16
# Seconds of the deadline reserved for the answer.
_TIME_LEFT: Final = 5.0
# Payloads of indexes, by column and kind; None for an empty entry.
_Payloads: TypeAlias = "dict[tuple[str, IndexKind | str], bytes | None]"
# Names and texts, in which a question mark is not a placeholder.
_QUOTED: Final = re.compile(r"""`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)


class IndexRequest(Request):
    """An index to try."""

    column: Name
    index: Name = Field(examples=["range-bitmap"])
    options: dict[str, str] = Field(
        default={}, description="Options of the index, by the last part of their names."
    )


class WhatIfRequest(VersionedRequest):
    """Asks how many files some indexes would skip."""

    example: ClassVar = {
        "indexes": [{"column": "user_id", "index": "bloom-filter", "options": {"items": "10000"}}],
        "filters": ["user_id = 17", "dt = '2025-08-01' AND user_id IN (17, 23)"],
    }

    indexes: Annotated[Listed[IndexRequest], Field(min_length=1, max_length=_MOST_INDEXES)]
    filters: Annotated[Listed[Filter], Field(min_length=1, max_length=_MOST_FILTERS)]
    files: Annotated[int, Field(ge=1, le=MOST_FILES)] = Field(
        default=DEFAULT_FILES, description="Most data files to try for each filter."
    )
    bytes: Annotated[int, Field(ge=1, le=_MOST_READ_BYTES)] = Field(
        default=DEFAULT_BYTES, description="Most bytes of data files to read; the first file may exceed it."
    )
    seed: Count = Field(default=0, description="Seed of the random choice of files.")


@dataclass(frozen=True, slots=True)
class ProposedIndex:
    """A proposed index."""

    column: str
    index: Annotated[str, Field(examples=["bitmap"])]
    options: Mapping[str, str]
    files: int
    """Data files for which it was built, in memory."""
    index_bytes: int
    """Estimated bytes of such indexes on all files, in proportion to rows."""


@dataclass(frozen=True, slots=True)
class Effect:
    """Tried files that an index would skip."""

    column: str | None
    """Null: all proposed indexes together."""
    index: str | None
    files: int
    bytes: int
    """Bytes of these files."""


@dataclass(frozen=True, slots=True)
class FilterEffect:
    """Effects of the indexes on one filter."""

    filter: str
    files_kept: int
    """Data files that today's plan keeps."""
    bytes_kept: int
    files_tried: int
    """Files tried of those kept; files that merge with others are not tried."""
    effects: Sequence[Effect]


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Effects of indexes that have not been built."""

    __pydantic_config__ = DESCRIBED

    snapshot_id: int | None
    files_read: int
    bytes_read: int
    indexes: Sequence[ProposedIndex]
    filters: Sequence[FilterEffect]
    warnings: Sequence[str]


def try_indexes(version: Version, request: WhatIfRequest, limits: Limits) -> WhatIf:
    """Try indexes on some files of a version.

    Raises RequestError if an index cannot be on its column, or an option is wrong. Raises FilterError if a
    filter cannot be read, or has ``?`` in place of a literal. Raises UnsupportedFormatError if the data files
    are neither Parquet nor ORC. Raises CorruptFileError if a data file is damaged.
    """
    definitions = _definitions(version, request.indexes)
    trial = _Trial(version, request, definitions, limits)
    trials = [trial.plan(written) for written in request.filters]
    for file in dict.fromkeys(chain.from_iterable(filter_trial.chosen for filter_trial in trials)):
        trial.try_file(file, [filter_trial for filter_trial in trials if file in filter_trial.chosen])
    proposed = [trial.proposed(number, index) for number, index in enumerate(request.indexes)]
    data_bytes = int(version.files().columns.file_sizes.sum())
    trial.warnings += [
        f"the {index.index} of {index.column!r} would be larger than the {data_bytes:,} bytes of data"
        for index in proposed
        if index.index_bytes > data_bytes
    ]
    return WhatIf(
        version.snapshot_id,
        trial.files_read,
        trial.bytes_read,
        proposed,
        [trial.effect(filter_trial) for filter_trial in trials],
        list(dict.fromkeys(trial.warnings)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _FilterTrial:
    """A filter, and the result of today's plan for it.

    ``chosen``: files to try, with the filter inside their partition. ``skipped``: files by number of the
    definition that skips them; None for all definitions together.
    """

    filter: str
    files_kept: int
    bytes_kept: int
    chosen: Mapping[int, BoundPredicate]
    tried: list[int] = field(default_factory=list)
    skipped: dict[int | None, list[int]] = field(default_factory=lambda: defaultdict(list))


@dataclass(slots=True, eq=False)
class _Trial:
    version: Version
    request: WhatIfRequest
    definitions: Sequence[IndexDefinition]
    limits: Limits
    files_read: int = 0
    bytes_read: int = 0
    # Bytes of built indexes, by number of the definition, then by file.
    built_bytes: dict[int, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    warnings: list[str] = field(default_factory=list)

    def plan(self, written: Filter) -> _FilterTrial:
        if isinstance(written, str) and "?" in _QUOTED.sub("", written):
            raise FilterError(f"{written}: put values of your data in place of each ?")
        version = self.version
        request = PlanRequest(filter=written, selection=SelectionForm.NONE, totals=True)
        with LEDGER.claim("plans", path=version.table.name, line=version.source.warehouse.name) as claim:
            decisions = decide(version, request, self.limits, claim=claim.grow_to)
            self.warnings += decisions.warnings.all
            state = decisions.state
            kept = state.left()
            chosen = self._sample(kept[state.merge_groups[kept] < 0])
            # A plan takes a few bytes for each file of the table, for as long as its state is referenced.
            predicates = {file: state.predicates[state.predicate_codes[file]] for file in chosen}
            bytes_kept = int(version.files().columns.file_sizes[kept].sum())
        text = written if isinstance(written, str) else json.dumps(written, default=str, ensure_ascii=False)
        return _FilterTrial(text, len(kept), bytes_kept, predicates)

    def effect(self, filter_trial: _FilterTrial) -> FilterEffect:
        sizes = self.version.files().columns.file_sizes
        effects = []
        for number in (*range(len(self.definitions)), None):
            skipped = filter_trial.skipped[number]
            declared = None if number is None else self.request.indexes[number]
            effects.append(
                Effect(
                    None if declared is None else declared.column,
                    None if declared is None else declared.index,
                    len(skipped),
                    int(sizes[skipped].sum()),
                )
            )
        return FilterEffect(
            filter_trial.filter,
            filter_trial.files_kept,
            filter_trial.bytes_kept,
            len(filter_trial.tried),
            effects,
        )

    def proposed(self, number: int, declared: IndexRequest) -> ProposedIndex:
        row_counts = self.version.files().columns.row_counts
        sizes = self.built_bytes[number]
        rows = int(row_counts[list(sizes)].sum()) if sizes else 0
        total = sum(sizes.values()) * int(row_counts.sum()) // rows if rows else 0
        return ProposedIndex(declared.column, declared.index, declared.options, len(sizes), total)

    def _sample(self, files: NDArray[np.int64]) -> list[int]:
        """Choose files at random, in one order for all filters."""
        ranks = np.random.default_rng(self.request.seed).permutation(len(self.version.files()))
        chosen: list[int] = files[np.argsort(ranks[files])][: self.request.files].tolist()
        return chosen

    def try_file(self, file: int, trials: Sequence[_FilterTrial]) -> None:
        """Build the indexes of a file, if there is time and memory, and evaluate filters on them."""
        written = self._file_schema(file)
        questions = [
            (filter_trial, *self._existing(file, written, filter_trial.chosen[file]))
            for filter_trial in trials
        ]
        names = {definition.column for definition in self.definitions}
        for claim, columns in self._read(file, written, names):
            built: dict[int, tuple[str, bytes]] = {}
            built_bytes = 0
            for number, definition in enumerate(self.definitions):
                column = self._field_in_file(written, definition.column)
                payload = self._build(claim, columns, column, definition, built_bytes)
                if payload is not None and column is not None:
                    built[number] = column.name, payload
                    self.built_bytes[number][file] = len(payload)
                    built_bytes += len(payload)
            for filter_trial, predicate, existing in questions:
                # Evaluation copies the built indexes into a container.
                claim.grow_to(_bytes_of(columns) + 2 * built_bytes)
                filter_trial.tried.append(file)
                for number in (*range(len(self.definitions)), None):
                    indexes = dict(existing)
                    for at in built if number is None else built.keys() & {number}:
                        name, payload = built[at]
                        indexes[name, self.definitions[at].kind] = payload
                    if self._skips(file, predicate, indexes):
                        filter_trial.skipped[number].append(file)

    def _read(
        self, file: int, written: TableSchema, names: set[str]
    ) -> Iterator[tuple[Claim, Mapping[str, pa.ChunkedArray]]]:
        """Yield the claim and columns of a file, by name in its schema.

        Yield nothing without time or memory.
        """
        check_deadline()
        version = self.version
        path = version.source.data.data_file(version.files().entry(file))
        data_format = _FORMATS.get(path.rpartition(".")[2])
        if data_format is None:
            raise UnsupportedFormatError(f"{path}: Parquet and ORC files can be tried, and this is neither")
        size, seconds = int(version.files().columns.file_sizes[file]), remaining_seconds()
        if self.files_read and self.bytes_read + size > self.request.bytes:
            self.warnings.append(
                f"reading stopped at {self.request.bytes} bytes: raise bytes to try more files"
            )
            return
        if seconds is not None and seconds < _TIME_LEFT:
            self.warnings.append("the time of the request was used up before all of the files were read")
            return
        readers = version.source.warehouse.readers
        # Both this process and the decoder hold the file, and up to half of the decoding's bytes.
        room = int(min(LEDGER.room * _SHARE_OF_ROOM, _MOST_BYTES))
        most = min(max(_DECODING_BYTES, _DECODING_EXPANSION * size), (room - 2 * size) * 2 // 3)
        if most < size // _LEAST_SHARE:
            self.warnings.append(
                f"{path} is not tried: {size} bytes are too many for the memory that files are decoded in, "
                f"{room} bytes, unless the operator raises PAIMON_INDEX_MEMORY_BYTES"
            )
            return
        self.files_read += 1
        self.bytes_read += size
        # A line of its own, so that the warehouse's plans do not wait for it.
        line = f"{readers.warehouse} what-if"
        with ExitStack() as stack:
            with DECODER.turn(line) as turn:
                needed = 2 * size + most + most // 2 + PROCESS_BYTES
                claim = stack.enter_context(LEDGER.claim("decoding", needed, path=path, line=line))
                data = version.source.warehouse.read(path, size)
                answer = turn.decode(data_format, data, self._names_in_file(written, names), most)
                del data
            stack.enter_context(readers.core())
            if answer.fault:
                self.warnings.append(f"{path} is not tried, since it cannot be decoded: {answer.fault}")
                return
            table = pa.ipc.open_stream(answer.stream).read_all()
            row_count = int(version.files().columns.row_counts[file])
            if table.num_rows != row_count:
                raise CorruptFileError(f"expected {row_count} rows, found {table.num_rows}").at(path)
            # Under this claim nothing may be loaded into a cache: loading could wait for memory.
            yield claim, {name: table[name] for name in table.column_names}

    def _names_in_file(self, written: TableSchema, names: set[str]) -> list[str]:
        by_name = self.version.schema.by_name
        ids = {by_name[split_map_key(name)[0]].id for name in names}
        return [field.name for field in written.fields if field.id in ids]

    def _build(
        self,
        claim: Claim,
        columns: Mapping[str, pa.ChunkedArray],
        column: DataField | None,
        definition: IndexDefinition,
        built_bytes: int,
    ) -> bytes | None:
        """Build an index. Return None if the file lacks the column, or an error prevents it."""
        if column is None:
            return None
        name, key = split_map_key(column.name)
        values = columns[name]
        building = _BUILDING_EXPANSION * values.nbytes + _BUILDING_ROW_BYTES * len(values)
        try:
            claim.grow_to(_bytes_of(columns) + built_bytes + building)
            if key is not None:
                under = values_under(values.combine_chunks(), key, column=name, first_row=0)
                values = pa.chunked_array([under])
            keys = KeyColumn.of(values, column.type, column.name)
            return write_index(definition.kind, keys, definition.options)
        except (IndexWriteError, LimitExceededError) as error:
            self.warnings.append(f"{definition.kind} of {definition.column!r}: {error}")
            return None

    def _file_schema(self, file: int) -> TableSchema:
        return self.version.file_schema(int(self.version.files().columns.schema_ids[file]))

    def _field_in_file(self, written: TableSchema, column: str) -> DataField | None:
        """Return a column, or one key of it, in the file.

        Return None if the file lacks it or has another type.
        """
        name, key = split_map_key(column)
        current = self.version.schema.by_name[name]
        field = written.by_id.get(current.id)
        if field is None or not field.type.same_kind(current.type):
            return None
        if key is None:
            return field
        return DataField(field.id, f"{field.name}[{key}]", field.type.children[1])

    def _skips(self, file: int, predicate: BoundPredicate, payloads: _Payloads) -> bool:
        if predicate == ALWAYS_TRUE:
            return False
        listed: dict[str, list[tuple[str, bytes | None]]] = {}
        for (column, kind), content in payloads.items():
            listed.setdefault(column, []).append((kind, content))
        row_count = int(self.version.files().columns.row_counts[file])
        try:
            return evaluate(predicate, FileIndex.read(write(listed)), row_count=row_count) is SKIP
        except CorruptIndexError:
            # The file's own index is damaged. The plan warns about it.
            return False

    def _existing(
        self, file: int, written: TableSchema, predicate: BoundPredicate
    ) -> tuple[BoundPredicate, _Payloads]:
        """Return a filter in the file's columns, and the file's own indexes for it."""
        existing: _Payloads = {}
        if predicate == ALWAYS_TRUE:
            return predicate, existing
        predicate = in_file_schema(predicate, self.version.schema, written)
        indexes, at = FileIndexes(self.version), np.array([file])
        if not self.version.schema.options.file_index_read or not indexes.has_index(at)[0]:
            return predicate, existing
        requested = wanted_indexes(predicate)
        for _, index in indexes.open(at, requested):
            if isinstance(index, CorruptIndexError):
                continue
            for entry in chain.from_iterable(index.entries.values()):
                if (entry.column, entry.kind) in requested and entry.kind in KINDS:
                    payload = None if entry.is_empty else bytes(index.payload(entry))
                    existing[entry.column, entry.kind] = payload
        return predicate, existing


def _bytes_of(columns: Mapping[str, pa.ChunkedArray]) -> int:
    return sum(column.nbytes for column in columns.values())


def _definitions(version: Version, declared: Sequence[IndexRequest]) -> list[IndexDefinition]:
    options: dict[str, str] = {}
    for index in declared:
        names = f"file-index.{index.index}.columns"
        options[names] = f"{options[names]},{index.column}" if names in options else index.column
        options |= {
            f"file-index.{index.index}.{index.column}.{name}": value for name, value in index.options.items()
        }
    types = {name: field.type for name, field in version.schema.by_name.items()}
    by_name = {(index.column, index.kind): index for index in FileIndexOptions.parse(options, types).indexes}
    return [by_name[index.column, KINDS[index.index]] for index in declared]
