"""What indexes would leave out of a table's plans that nobody has built yet: tried on some of its data files.

For each filter the plan of today is made. Of the files that it keeps some are chosen at random, their columns
are read, the proposed indexes are built in memory as the engine would write them, and asked the filter
together with the indexes that the files have. Nothing is written. Files that merge with others when they are
read are not tried, as plans leave them out only together.
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
from app.planning.plan import PlanState
from app.planning.request import PlanRequest, SelectionForm, VersionedRequest
from app.planning.request.limits import Limits
from app.planning.request.members import Count, Filter, Listed, Name, Request, TimeZone
from app.predicates.model import ALWAYS_TRUE, BoundPredicate
from app.table import DECODER, PROCESS_BYTES, TableSchema
from app.types import DataField
from app.types.session_zone import SessionZone
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
_LEAST_SHARE: Final = 4
"""A file is not worth trying with less memory for its columns than this part of its bytes."""
_BUILDING_EXPANSION: Final = 12
_BUILDING_ROW_BYTES: Final = 16
"""Bitmaps take most: 11 times the column of texts that all differ, of numbers 60 bytes a row."""
_TIME_LEFT: Final = 5.0
"""Seconds of the deadline that are left for the answer."""
_Payloads: TypeAlias = "dict[tuple[str, IndexKind | str], bytes | None]"
"""Of indexes, by column and kind; None for one without rows."""
_QUOTED: Final = re.compile(r"""`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
"""Names and texts, in which a question mark is no placeholder."""


class IndexRequest(Request):
    """An index to try."""

    column: Name
    index: Name = Field(examples=["range-bitmap"])
    options: dict[str, str] = Field(
        default={}, description="Of the index, by the last part of the option's name."
    )


class WhatIfRequest(VersionedRequest):
    """How many files would these indexes leave out?"""

    example: ClassVar = {
        "indexes": [{"column": "user_id", "index": "bloom-filter", "options": {"items": "10000"}}],
        "filters": ["user_id = 17", "dt = '2025-08-01' AND user_id IN (17, 23)"],
    }

    indexes: Annotated[Listed[IndexRequest], Field(min_length=1, max_length=_MOST_INDEXES)]
    filters: Annotated[Listed[Filter], Field(min_length=1, max_length=_MOST_FILTERS)]
    files: Annotated[int, Field(ge=1, le=MOST_FILES)] = Field(
        default=DEFAULT_FILES, description="Data files that are tried for each filter."
    )
    bytes: Annotated[int, Field(ge=1, le=_MOST_READ_BYTES)] = Field(
        default=DEFAULT_BYTES, description="Of data files that are read at most, but for the first."
    )
    seed: Count = Field(default=0, description="Chooses files; the same seed chooses the same.")
    time_zone: TimeZone | None = None


@dataclass(frozen=True, slots=True)
class ProposedIndex:
    """An index that was tried."""

    column: str
    index: Annotated[str, Field(examples=["bitmap"])]
    options: Mapping[str, str]
    files: int
    """Data files that it was built for, in memory."""
    index_bytes: int
    """Of the indexes of all files of the table; an estimate by their rows."""


@dataclass(frozen=True, slots=True)
class Effect:
    """How many of the files that were tried an index would leave out."""

    column: str | None
    """Null: all proposed indexes together."""
    index: str | None
    files: int
    bytes: int
    """Of these files."""


@dataclass(frozen=True, slots=True)
class FilterEffect:
    """What the indexes would do for one filter."""

    filter: str
    files_kept: int
    """By the plan of today."""
    bytes_kept: int
    files_tried: int
    """Of the files kept; those that merge with others are not tried."""
    effects: Sequence[Effect]


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What indexes would do that nobody has built yet."""

    __pydantic_config__ = DESCRIBED

    snapshot_id: int | None
    files_read: int
    bytes_read: int
    indexes: Sequence[ProposedIndex]
    filters: Sequence[FilterEffect]
    warnings: Sequence[str]


def try_indexes(version: Version, request: WhatIfRequest, limits: Limits, zone: SessionZone | None) -> WhatIf:
    """Tries indexes on some files of a version; ``zone`` is None if it is not known.

    Raises:
        RequestError: an index cannot be on its column, or an option is wrong.
        FilterError: a filter cannot be read, or has ``?`` in place of a literal.
        UnsupportedFormatError: the data files are neither Parquet nor ORC.
        CorruptFileError: a data file is damaged.
    """
    definitions = _definitions(version, request.indexes)
    trial = _Trial(version, request, definitions, limits, zone)
    asked = [trial.plan(written) for written in request.filters]
    for file in dict.fromkeys(chain.from_iterable(question.chosen for question in asked)):
        trial.try_file(file, [question for question in asked if file in question.chosen])
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
        [trial.effect(question) for question in asked],
        list(dict.fromkeys(trial.warnings)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """A filter, and today's plan for it; ``skipped`` are by number of a definition, or all of them (None)."""

    filter: str
    state: PlanState
    kept: NDArray[np.int64]
    chosen: Sequence[int]
    tried: list[int] = field(default_factory=list)
    skipped: dict[int | None, list[int]] = field(default_factory=lambda: defaultdict(list))


@dataclass(slots=True, eq=False)
class _Trial:
    version: Version
    request: WhatIfRequest
    definitions: Sequence[IndexDefinition]
    limits: Limits
    zone: SessionZone | None
    files_read: int = 0
    bytes_read: int = 0
    built_bytes: dict[int, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    """Of an index, by the number of its definition and then by file."""
    warnings: list[str] = field(default_factory=list)

    def plan(self, written: Filter) -> _Asked:
        if isinstance(written, str) and "?" in _QUOTED.sub("", written):
            raise FilterError(f"{written}: what-if takes values of your data in place of each ?")
        request = PlanRequest(filter=written, selection=SelectionForm.NONE, totals=True)
        decisions = decide(self.version, request, self.limits, self.zone)
        self.warnings += decisions.warnings.all
        state = decisions.state
        kept = state.left()
        text = written if isinstance(written, str) else json.dumps(written, default=str, ensure_ascii=False)
        return _Asked(text, state, kept, self._chosen(kept[state.merge_groups[kept] < 0]))

    def effect(self, asked: _Asked) -> FilterEffect:
        sizes = self.version.files().columns.file_sizes
        effects = []
        for number in (*range(len(self.definitions)), None):
            skipped = asked.skipped[number]
            declared = None if number is None else self.request.indexes[number]
            effects.append(
                Effect(
                    None if declared is None else declared.column,
                    None if declared is None else declared.index,
                    len(skipped),
                    int(sizes[skipped].sum()),
                )
            )
        kept = asked.kept
        return FilterEffect(asked.filter, len(kept), int(sizes[kept].sum()), len(asked.tried), effects)

    def proposed(self, number: int, declared: IndexRequest) -> ProposedIndex:
        row_counts = self.version.files().columns.row_counts
        sizes = self.built_bytes[number]
        rows = int(row_counts[list(sizes)].sum()) if sizes else 0
        total = sum(sizes.values()) * int(row_counts.sum()) // rows if rows else 0
        return ProposedIndex(declared.column, declared.index, declared.options, len(sizes), total)

    def _chosen(self, files: NDArray[np.int64]) -> list[int]:
        """Some files, the same ones for other filters as far as these keep them."""
        ranks = np.random.default_rng(self.request.seed).permutation(len(self.version.files()))
        chosen: list[int] = files[np.argsort(ranks[files])][: self.request.files].tolist()
        return chosen

    def try_file(self, file: int, asked: Sequence[_Asked]) -> None:
        """Builds the indexes of a file, if there is time and room for it, and asks them filters."""
        written = self._file_schema(file)
        questions = [(question, *self._existing(file, written, question.state)) for question in asked]
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
            for question, predicate, existing in questions:
                # Asked, they stand in a file of their own.
                claim.grow_to(_bytes_of(columns) + 2 * built_bytes)
                question.tried.append(file)
                for number in (*range(len(self.definitions)), None):
                    indexes = dict(existing)
                    for at in built if number is None else built.keys() & {number}:
                        name, payload = built[at]
                        indexes[name, self.definitions[at].kind] = payload
                    if self._skips(file, predicate, indexes):
                        question.skipped[number].append(file)

    def _read(
        self, file: int, written: TableSchema, names: set[str]
    ) -> Iterator[tuple[Claim, Mapping[str, pa.ChunkedArray]]]:
        """Columns of a file by their names in its schema; nothing if there is no time or room for it.

        The claim on memory has been granted for them, and may grow. Nothing is asked of a cache under it.
        """
        check_deadline()
        version = self.version
        path = version.source.paths.data_file(version.files().entry(file))
        data_format = _FORMATS.get(path.rpartition(".")[2])
        if data_format is None:
            raise UnsupportedFormatError(f"{path}: Parquet and ORC files can be tried, and this is neither")
        size, left = int(version.files().columns.file_sizes[file]), remaining_seconds()
        if self.files_read and self.bytes_read + size > self.request.bytes:
            self.warnings.append(f"the next file would have been more than {self.request.bytes} bytes")
            return
        if left is not None and left < _TIME_LEFT:
            self.warnings.append("the time of the request was used up before all of the files were read")
            return
        readers = version.source.warehouse.readers
        # The file, and at most half as many bytes as its decoding takes, are both here and in the decoder.
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
        # Plans of the warehouse do not wait for it.
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
        """An index beside others; None where a file has no such column, or it cannot be."""
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
        """A column, or one key of it; None where a file was written without it, or with another type."""
        name, key = split_map_key(column)
        current = self.version.schema.by_name[name]
        field = written.by_id.get(current.id)
        if field is None or not field.type.same_kind(current.type):
            return None
        if key is None:
            return field
        return DataField(field.id, f"{field.name}[{key}]", field.type.children[1])

    def _skips(self, file: int, predicate: BoundPredicate, payloads: _Payloads) -> bool:
        """Whether some indexes leave a file out."""
        if predicate == ALWAYS_TRUE:
            return False
        listed: dict[str, list[tuple[str, bytes | None]]] = {}
        for (column, kind), content in payloads.items():
            listed.setdefault(column, []).append((kind, content))
        row_count = int(self.version.files().columns.row_counts[file])
        try:
            return evaluate(predicate, FileIndex.read(write(listed)), row_count=row_count) is SKIP
        except CorruptIndexError:
            # An index of the file, which the plan tells of.
            return False

    def _existing(
        self, file: int, written: TableSchema, state: PlanState
    ) -> tuple[BoundPredicate, _Payloads]:
        """What a filter asks of a file, and the indexes that the file has for it."""
        predicate: BoundPredicate = state.predicates[state.predicate_codes[file]]
        existing: _Payloads = {}
        if predicate == ALWAYS_TRUE:
            return predicate, existing
        predicate = in_file_schema(predicate, self.version.schema, written)
        indexes, at = FileIndexes(self.version), np.array([file])
        if not self.version.schema.options.file_index_read or not indexes.has_index(at)[0]:
            return predicate, existing
        wanted = wanted_indexes(predicate)
        for _, index in indexes.open(at, wanted):
            if isinstance(index, CorruptIndexError):
                continue
            for entry in chain.from_iterable(index.entries.values()):
                if (entry.column, entry.kind) in wanted and entry.kind in KINDS:
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
