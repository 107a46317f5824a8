"""What indexes would leave out of a table's plans that nobody has built yet: tried on some of its data files.

For each filter the plan of today is made. Of the files that it keeps some are chosen at random, their columns
are read, the proposed indexes are built in memory as the engine would write them, and asked the filter
together with the indexes that the files have. Nothing is written. Where every kept file was tried the answer
is exact; else it is an estimate with the interval in which it lies in 95 of 100 cases (Wilson's, corrected
for the share that was tried). Files that merge with others when they are read are never left out here, as
plans leave them out only together.

Filters with ``?`` in place of literals (:mod:`app.predicates.shapes`) are tried several times, with literals
of rows that are drawn at random from the table.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from app.building.columns import values_under
from app.described import DESCRIBED
from app.errors import (
    CorruptFileError,
    CorruptIndexError,
    FilterError,
    IndexWriteError,
    RequestError,
    UnsupportedFormatError,
)
from app.file_index.answers.result import SKIP
from app.file_index.container import FileIndex, write, write_index
from app.file_index.evaluation import evaluate
from app.file_index.index_kinds import KINDS, IndexKind, wanted_indexes
from app.file_index.keys.key_column import KeyColumn
from app.file_index.keys.keys import key_space
from app.file_index.table_options import FileIndexOptions, IndexDefinition
from app.options.file_indexes import DeclaredIndex
from app.options.map_keys import split_map_key
from app.planning.plan.state import PlanState
from app.planning.request.limits import Limits
from app.planning.request.requests import PlanRequest, SelectionForm
from app.planning.scan.index_filter import in_file_schema
from app.planning.scan.planner import decide
from app.planning.side_files.file_indexes import FileIndexes
from app.planning.version.version import Version
from app.predicates.model import ALWAYS_TRUE, BoundPredicate, Operator
from app.predicates.sql.reader import read_sql
from app.predicates.unbound import And, Leaf, Or, Predicate
from app.storage import check_deadline, remaining_seconds
from app.table.columnar.decoder import DECODER
from app.types import DataField, Json, to_json
from app.types.session_zone import SessionZone

DEFAULT_FILES: Final = 20
MOST_FILES: Final = 1_000
DEFAULT_BYTES: Final = 64 << 20

_FORMATS: Final = {"parquet": "Parquet", "orc": "ORC"}
_DECODING_BYTES: Final = 64 << 20
_DECODING_EXPANSION: Final = 16
_LEAST_SHARE: Final = 4
"""A file is not worth trying with less memory for its columns than this part of its bytes."""
_DRAWS: Final = 3
"""Rows of each file that give the literals of a shape."""
_DRAWN_FROM: Final = 3
"""Files that literals are drawn from."""
_PREFIX: Final = 3
"""Characters of a drawn text that a test of its beginning, end or middle asks for."""
_Z: Final = 1.96
_TIME_LEFT: Final = 5.0
"""Seconds of the deadline that are left for the answer."""
_PLACEHOLDER: Final = re.compile(r"""`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\?""", re.DOTALL)
"""A name or a text, in which a question mark is none, or a question mark."""


@dataclass(frozen=True, slots=True)
class WhatIfRequest:
    """What to try.

    Attributes:
        indexes: which nobody has built yet, or not with these options.
        filters: Spark SQL, or a Paimon predicate's JSON; SQL may have ``?`` for literals.
        files: data files tried for each filter.
        bytes: of data files that are read at most.
        seed: chooses files and rows.
    """

    indexes: Sequence[DeclaredIndex]
    filters: Sequence[str | Mapping[str, Json]]
    files: int = DEFAULT_FILES
    bytes: int = DEFAULT_BYTES
    seed: int = 0


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
    """What an index would leave out of the files that a plan keeps today."""

    column: str | None
    """Null: all proposed indexes together."""
    index: str | None
    files: float
    files_low: float
    files_high: float
    """The interval in which the number lies in 95 of 100 cases."""
    bytes: int


@dataclass(frozen=True, slots=True)
class FilterEffect:
    """What the indexes would do for one filter."""

    filter: str
    files_kept: float
    """By the plan of today; of a filter with `?` the mean over its drawn literals, as everything here."""
    bytes_kept: int
    files_tried: float
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
    """Tries indexes on some files of a version.

    Args:
        version: of the table.
        request: what to try.
        limits: how large filters may be.
        zone: the time zone of the caller's session; None if it is not known.

    Raises:
        RequestError: an index cannot be on its column, or an option is wrong.
        FilterError: a filter cannot be read.
        UnsupportedFormatError: the data files are neither Parquet nor ORC.
        CorruptFileError: a data file is damaged.
    """
    definitions = _definitions(version, request.indexes)
    trial = _Trial(version, request, definitions, limits, zone)
    filters = [trial.effect(written) for written in request.filters]
    return WhatIf(
        version.snapshot_id,
        trial.files_read,
        trial.bytes_read,
        [trial.proposed(number, each) for number, each in enumerate(request.indexes)],
        filters,
        list(dict.fromkeys(trial.warnings)),
    )


@dataclass(slots=True, eq=False)
class _Trial:
    version: Version
    request: WhatIfRequest
    definitions: Sequence[IndexDefinition]
    limits: Limits
    zone: SessionZone | None
    files_read: int = 0
    payloads: dict[int, list[bytes | None]] = field(default_factory=dict)
    """By file: that of each definition, None where it cannot be built."""
    bytes_read: int = 0
    warnings: list[str] = field(default_factory=list)

    def effect(self, written: str | Mapping[str, Json]) -> FilterEffect:
        """What the indexes do for one filter."""
        if not isinstance(written, str) or "?" not in _PLACEHOLDER.sub(_only_placeholder, written):
            text = written if isinstance(written, str) else orjson.dumps(written).decode()
            return self._effect_of(text, written)
        drawn = [self._effect_of(written, each) for each in self._filled(written)]
        if not drawn:
            raise FilterError("no literals can be drawn for this filter: the table has no rows to draw from")
        count = len(drawn)
        return FilterEffect(
            written,
            sum(each.files_kept for each in drawn) / count,
            sum(each.bytes_kept for each in drawn) // count,
            sum(each.files_tried for each in drawn) / count,
            [_mean(list(of_index)) for of_index in zip(*(each.effects for each in drawn), strict=True)],
        )

    def proposed(self, number: int, declared: DeclaredIndex) -> ProposedIndex:
        """What was built of one definition."""
        row_counts = self.version.files().columns.row_counts
        built = {file: payloads[number] for file, payloads in self.payloads.items()}
        sizes = {file: len(payload) for file, payload in built.items() if payload is not None}
        rows = int(row_counts[list(sizes)].sum()) if sizes else 0
        total = sum(sizes.values()) * int(row_counts.sum()) // rows if rows else 0
        return ProposedIndex(declared.column, declared.kind, declared.parameters, len(sizes), total)

    def _effect_of(self, text: str, written: str | Mapping[str, Json]) -> FilterEffect:
        version = self.version
        request = PlanRequest(filter=written, selection=SelectionForm.NONE, totals=True)
        decisions = decide(version, request, self.limits, self.zone)
        self.warnings += decisions.warnings.all
        state = decisions.state
        kept = state.left()
        sizes = version.files().columns.file_sizes
        alone = kept[state.merge_groups[kept] < 0]
        tried = [file for file in self._chosen(alone) if self._is_built(file)]
        sets = [*((number,) for number in range(len(self.definitions))), tuple(range(len(self.definitions)))]
        skipped = np.array([[self._skips(state, file, each) for file in tried] for each in sets], np.bool_)
        effects = []
        for each, of_set in zip(sets, skipped.reshape(len(sets), len(tried)), strict=True):
            declared = self.request.indexes[each[0]] if len(each) == 1 and each is not sets[-1] else None
            low, share, high = wilson(int(of_set.sum()), len(tried), len(alone))
            skipped_bytes, tried_bytes = int(sizes[tried][of_set].sum()), int(sizes[tried].sum())
            effects.append(
                Effect(
                    None if declared is None else declared.column,
                    None if declared is None else declared.kind,
                    share * len(alone),
                    low * len(alone),
                    high * len(alone),
                    skipped_bytes * int(sizes[alone].sum()) // tried_bytes if tried_bytes else 0,
                )
            )
        return FilterEffect(text, len(kept), int(sizes[kept].sum()), len(tried), effects)

    def _chosen(self, files: NDArray[np.int64]) -> list[int]:
        """Some files, the same ones for other filters as far as these keep them."""
        ranks = np.random.default_rng(self.request.seed).permutation(len(self.version.files()))
        found: list[int] = files[np.argsort(ranks[files])][: self.request.files].tolist()
        return found

    def _is_built(self, file: int) -> bool:
        """Whether the indexes of a file are there, built now if there is time and room."""
        if file in self.payloads:
            return True
        for columns in self._read(file, {each.column for each in self.definitions}):
            self.payloads[file] = [self._build(file, columns, each) for each in self.definitions]
        return file in self.payloads

    def _read(self, file: int, names: set[str]) -> Iterator[Mapping[str, pa.ChunkedArray]]:
        """Columns of a file by their names in its schema; nothing if there is no time or room for it."""
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
        readers = version.source.readers
        # The file, and at most half as many bytes as its decoding takes, are both here and in the decoder.
        most = min(
            max(_DECODING_BYTES, _DECODING_EXPANSION * size), (readers.most_decoding - 2 * size) * 2 // 3
        )
        if most < size // _LEAST_SHARE:
            self.warnings.append(
                f"{path} is not tried: {size} bytes are too many for the memory that files are decoded in, "
                f"{readers.most_decoding} bytes, unless the operator raises PAIMON_INDEX_MEMORY_BYTES"
            )
            return
        self.files_read += 1
        self.bytes_read += size
        with readers.decoding() as claim:
            claim.grow_to(2 * size + most + most // 2)
            data = version.source.warehouse.read(path, size)
            answer = DECODER.decode(data_format, data, self._names_in_file(file, names), most)
            del data
            if answer.fault:
                self.warnings.append(f"{path} is not tried, since it cannot be decoded: {answer.fault}")
                return
            table = pa.ipc.open_stream(answer.stream).read_all()
            row_count = int(version.files().columns.row_counts[file])
            if table.num_rows != row_count:
                raise CorruptFileError(f"expected {row_count} rows, found {table.num_rows}").at(path)
            yield {name: table[name] for name in table.column_names}

    def _names_in_file(self, file: int, names: set[str]) -> list[str]:
        version = self.version
        written = version.file_schema(int(version.files().columns.schema_ids[file]))
        ids = {version.schema.by_name[split_map_key(name)[0]].id for name in names}
        return [each.name for each in written.fields if each.id in ids]

    def _build(
        self, file: int, columns: Mapping[str, pa.ChunkedArray], definition: IndexDefinition
    ) -> bytes | None:
        found = self._keys(file, columns, definition.column)
        try:
            return None if found is None else write_index(definition.kind, found, definition.options)
        except IndexWriteError as error:
            self.warnings.append(f"{definition.kind} of {definition.column!r}: {error}")
            return None

    def _keys(self, file: int, columns: Mapping[str, pa.ChunkedArray], column: str) -> KeyColumn | None:
        """A column's keys in a file; None where the file was written without it, or with another type."""
        written = self._field_in_file(file, column)
        if written is None:
            return None
        name, key = split_map_key(written.name)
        values = columns[name]
        if key is not None:
            values = pa.chunked_array([values_under(values.combine_chunks(), key, column=name, first_row=0)])
        return KeyColumn.of(values, written.type, written.name)

    def _field_in_file(self, file: int, column: str) -> DataField | None:
        version = self.version
        name, key = split_map_key(column)
        current = version.schema.by_name[name]
        file_schema = version.file_schema(int(version.files().columns.schema_ids[file]))
        written = file_schema.by_id.get(current.id)
        if written is None or not written.type.same_kind(current.type):
            return None
        if key is None:
            return written
        return DataField(written.id, f"{written.name}[{key}]", written.type.children[1])

    def _skips(self, state: PlanState, file: int, numbers: tuple[int, ...]) -> bool:
        """Whether some of the indexes, and those that the file has, leave it out."""
        predicate = state.predicates[state.predicate_codes[file]]
        if predicate == ALWAYS_TRUE:
            return False
        version = self.version
        file_schema = version.file_schema(int(version.files().columns.schema_ids[file]))
        rebound = in_file_schema(predicate, version.schema, file_schema)
        payloads = dict(self._existing(file, rebound))
        for number in numbers:
            payload, definition = self.payloads[file][number], self.definitions[number]
            written = self._field_in_file(file, definition.column)
            if payload is not None and written is not None:
                payloads[written.name, definition.kind] = payload
        listed: dict[str, list[tuple[str, bytes | None]]] = {}
        for (column, kind), content in payloads.items():
            listed.setdefault(column, []).append((kind, content))
        row_count = int(version.files().columns.row_counts[file])
        try:
            return evaluate(rebound, FileIndex.read(write(listed)), row_count=row_count) is SKIP
        except CorruptIndexError:
            # An index of the file, which the plan tells of.
            return False

    def _existing(
        self, file: int, predicate: BoundPredicate
    ) -> Iterator[tuple[tuple[str, IndexKind | str], bytes | None]]:
        """The indexes that a file has and the filter asks."""
        indexes, at = FileIndexes(self.version), np.array([file])
        if not self.version.schema.options.file_index_read or not indexes.has_index(at)[0]:
            return
        wanted = wanted_indexes(predicate)
        for _, index in indexes.open(at, wanted):
            if isinstance(index, CorruptIndexError):
                continue
            for entry in (each for listed in index.entries.values() for each in listed):
                if (entry.column, entry.kind) in wanted and entry.kind in KINDS:
                    payload = None if entry.is_empty else bytes(index.payload(entry))
                    yield (entry.column, entry.kind), payload

    def _filled(self, shape: str) -> Iterator[Mapping[str, Json]]:
        """A shape with literals of rows of the table."""
        predicate = read_sql(_PLACEHOLDER.sub(_quoted_placeholder, shape))
        generator, keys = np.random.default_rng(self.request.seed), dict[str, KeyColumn | None]()
        names = set(_columns(predicate))
        unknown = names - self.version.schema.by_name.keys()
        if unknown:
            raise FilterError(f"the table has no column {min(unknown)!r}")
        for file in self._chosen(self.version.files().all())[:_DRAWN_FROM]:
            for columns in self._read(file, names):
                keys = {name: self._keys(file, columns, name) for name in names}
            for _ in range(_DRAWS if keys else 0):
                values = {name: _drawn(found, generator) for name, found in keys.items()}
                if all(values.values()):
                    yield _fill(predicate, self.version, values)
            keys = {}


def _definitions(version: Version, declared: Sequence[DeclaredIndex]) -> list[IndexDefinition]:
    """The indexes as table options would ask for them, in the given order."""
    options: dict[str, str] = {}
    for each in declared:
        names = f"file-index.{each.kind}.columns"
        options[names] = f"{options[names]},{each.column}" if names in options else each.column
        options |= {
            f"file-index.{each.kind}.{each.column}.{name}": value for name, value in each.parameters.items()
        }
    types = {name: each.type for name, each in version.schema.by_name.items()}
    found = {(each.column, each.kind): each for each in FileIndexOptions.parse(options, types).indexes}
    return [found[each.column, KINDS[each.kind]] for each in declared]


def wilson(hits: int, tried: int, total: int) -> tuple[float, float, float]:
    """A share as it was found, between the ends of the interval in which it lies in 95 of 100 cases.

    Args:
        hits: of those that were tried.
        tried: how many were, at random and each once.
        total: of how many.
    """
    if not tried:
        return 0.0, 0.0, 1.0 if total else 0.0
    share = hits / tried
    if tried >= total:
        return share, share, share
    # What was tried is no part of what is guessed.
    z = _Z * math.sqrt((total - tried) / max(1, total - 1))
    middle = (share + z * z / (2 * tried)) / (1 + z * z / tried)
    width = z / (1 + z * z / tried) * math.sqrt(share * (1 - share) / tried + z * z / (4 * tried * tried))
    # As far as rounding allows.
    return max(0.0, min(middle - width, share)), share, min(1.0, max(middle + width, share))


def _mean(effects: Sequence[Effect]) -> Effect:
    count = len(effects)
    return Effect(
        effects[0].column,
        effects[0].index,
        sum(each.files for each in effects) / count,
        sum(each.files_low for each in effects) / count,
        sum(each.files_high for each in effects) / count,
        sum(each.bytes for each in effects) // count,
    )


def _only_placeholder(found: re.Match[str]) -> str:
    return "?" if found[0] == "?" else ""


def _quoted_placeholder(found: re.Match[str]) -> str:
    return "'?'" if found[0] == "?" else found[0]


def _columns(predicate: Predicate) -> Iterator[str]:
    match predicate:
        case Leaf(function=None):
            yield predicate.column.name
        case And(children) | Or(children):
            for child in children:
                yield from _columns(child)
        case _:
            raise RequestError("a filter with ? joins tests of columns by AND and OR, and has nothing else")


def _drawn(keys: KeyColumn | None, generator: np.random.Generator) -> list[Json]:
    """Two values of a column in ascending order; none if it has none."""
    if keys is None or not len(keys.keys):
        return []
    space = key_space(keys.data_type)
    if space is None:
        return []
    distinct = keys.distinct()
    codes = sorted(distinct.codes[generator.integers(len(distinct.codes), size=2)].tolist())
    return [to_json(space.value(distinct.key(code)), keys.data_type) for code in codes]


def _fill(predicate: Predicate, version: Version, values: Mapping[str, Sequence[Json]]) -> dict[str, Any]:
    """A predicate of :func:`read_sql` in JSON, with drawn values as literals."""
    match predicate:
        case Leaf(operator=operator, column=column):
            of_column = version.schema.by_name[column.name]
            reference = {"name": column.name, "type": str(of_column.type)}
            return {
                "kind": "LEAF",
                "transform": {"name": "FIELD_REF", "fieldRef": reference},
                "function": operator.value,
                "literals": _literals(operator, values[column.name]),
            }
        case And(children) | Or(children):
            function = "AND" if isinstance(predicate, And) else "OR"
            filled = [_fill(child, version, values) for child in children]
            return {"kind": "COMPOUND", "function": function, "children": filled}
        case _:
            raise AssertionError("checked when its columns were listed")


def _literals(operator: Operator, values: Sequence[Json]) -> list[Json]:
    low, high = values
    match operator:
        case Operator.IS_NULL | Operator.IS_NOT_NULL:
            return []
        case Operator.BETWEEN | Operator.IN | Operator.NOT_IN:
            return [low, high]
        case Operator.STARTS_WITH | Operator.CONTAINS:
            return [str(low)[:_PREFIX]]
        case Operator.ENDS_WITH:
            return [str(low)[-_PREFIX:]]
        case Operator.LIKE:
            return [str(low)[:_PREFIX] + "%"]
        case _:
            return [low]
