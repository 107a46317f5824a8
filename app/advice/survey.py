"""What manifests and the heads of index files tell of the file indexes of a table.

Heads are read of the indexes of some data files that lie evenly over the table, and stand for all of them;
what manifests tell is counted over all files. Bitmaps are asked for the number of their values, a few of each
column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.errors import CorruptIndexError
from app.file_index import indexed_type
from app.file_index.bitmap import BITMAP, StoredHeads
from app.file_index.payloads import Cursors
from app.options import DeclaredIndex
from app.planning import FileIndexes, Files, Version
from app.types import BytesColumn, DataType

Advance: TypeAlias = Callable[[int], None]
"""Told how many index heads were read since it was told before."""

_BITMAPS: Final = 16
"""Bitmaps of a column that are asked for the number of their values."""


@dataclass(frozen=True, slots=True, eq=False)
class SampledIndexes:
    """The indexes of one kind on one column in the examined files.

    Attributes:
        at: int64, shape (k,): positions of their files in the sample, ascending.
        lengths: int64, shape (k,): bytes of each.
    """

    at: NDArray[np.int64]
    lengths: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """What manifests and index heads tell of a version.

    Attributes:
        sample: int64, shape (n,): the files that were examined, ascending.
        sampled: by column, as the version's schema calls it, and kind.
        embedded: bool, shape (n,): the file's index is in its manifest.
        index_sizes: int64, shape (n,): bytes of each file's indexes without heads; -1 where it has none.
    """

    version: Version
    sample: NDArray[np.int64]
    sampled: Mapping[tuple[str, str], SampledIndexes]
    embedded: NDArray[np.bool_]
    index_sizes: NDArray[np.int64]
    without_index: int
    warnings: Sequence[str]
    declared: Mapping[tuple[str, str], DeclaredIndex]

    @classmethod
    def of(cls, version: Version, most_files: int, advance: Advance) -> Survey:
        """Reads the heads of the indexes of at most ``most_files`` files."""
        files, indexes = version.files(), FileIndexes(version)
        every = files.all()
        sample = every
        if len(every) > most_files:
            sample = np.unique(np.linspace(0, len(every) - 1, most_files).astype(np.int64))
        has_index = indexes.has_index(every)
        embedded = np.zeros(len(sample), np.bool_)
        for number, part, rows in files.by_manifest(sample):
            embedded[part] = files.manifests[number].embedded_indexes.lengths[rows] >= 0
        sizes = np.full(len(sample), -1, np.int64)
        pieces: dict[tuple[str, str], list[tuple[NDArray[np.int64], NDArray[np.int64]]]] = {}
        indexed = np.flatnonzero(has_index[sample])
        for stacked in indexes.stacks(sample[indexed], frozenset()):
            at, heads = indexed[stacked.at], stacked.index.heads
            sizes[at] = 0
            for column, kind in heads.listed:
                extents = heads.extents(column, kind)
                present = extents.present[stacked.places]
                lengths = extents.lengths[stacked.places][present]
                sizes[at[present]] += lengths
                for name, of_name in _current_names(version, files, sample[at[present]], column):
                    pieces.setdefault((name, kind), []).append((at[present][of_name], lengths[of_name]))
            advance(len(at))
        failures = [str(error) for _, error in indexes.failures(sample[indexed])]
        warnings = [f"indexes of {len(failures)} files could not be read: {failures[0]}"] if failures else []
        declared = {(index.column, index.kind): index for index in version.schema.options.file_indexes}
        sampled = {key: _joined(parts) for key, parts in pieces.items()}
        without = int(np.count_nonzero(~has_index))
        return cls(version, sample, sampled, embedded, sizes, without, warnings, declared)

    @property
    def files(self) -> Files:
        """Every file of the version."""
        return self.version.files()

    @property
    def keys(self) -> list[tuple[str, str]]:
        """Every column and kind of which there is an index, or should be."""
        return sorted(self.sampled.keys() | self.declared.keys())

    def scaled(self, number: float) -> int:
        """What a number over the examined files is over all of them."""
        return round(number * len(self.files) / len(self.sample)) if len(self.sample) else 0

    def has_column(self, column: str) -> NDArray[np.bool_]:
        """Which of the examined files were written when the table had a column, shape (n,)."""
        version, name = self.version, column.partition("[")[0]
        current = version.schema.by_name.get(name)
        schema_ids = self.files.columns.schema_ids[self.sample]
        known = {
            number: current is not None and current.id in version.file_schema(number).by_id
            for number in np.unique(schema_ids).tolist()
        }
        return np.array([known[number] for number in schema_ids.tolist()], np.bool_)

    def data_type(self, column: str) -> DataType:
        """The type of a column's values, or of those under a key of a map."""
        types = {name: field.type for name, field in self.version.schema.by_name.items()}
        return indexed_type(column, types)

    def cardinalities(self, column: str) -> list[float]:
        """Of some bitmaps of a column: their values for each row of the file."""
        at = self.sampled[column, BITMAP].at
        chosen = self.sample[at[np.unique(np.linspace(0, len(at) - 1, _BITMAPS).astype(np.int64))]]
        payloads = [
            index.payload(entry)
            for _, index in FileIndexes(self.version).open(chosen, frozenset([(column, BITMAP)]))
            if not isinstance(index, CorruptIndexError)
            for entry in index.entries.get(column, ())
            if entry.kind == BITMAP and not entry.is_empty
        ]
        cursors = Cursors.of(BytesColumn.of(payloads))
        heads = StoredHeads.read(cursors)
        shares: list[float] = (heads.cardinalities / np.maximum(1, heads.row_counts))[cursors.sound].tolist()
        return shares


def _current_names(
    version: Version, files: Files, written: NDArray[np.int64], column: str
) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """What the version's schema calls a column that index files of some schemas name."""
    name, bracket, key = column.partition("[")
    schema_ids = files.columns.schema_ids[written]
    for number in np.unique(schema_ids).tolist():
        field_of_file = version.file_schema(number).by_name.get(name)
        current = None if field_of_file is None else version.schema.by_id.get(field_of_file.id)
        if current is not None:
            yield current.name + bracket + key, schema_ids == number


def _joined(parts: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]]) -> SampledIndexes:
    at, lengths = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    order = np.argsort(at)
    return SampledIndexes(at[order], lengths[order])


NO_INDEX: Final = SampledIndexes(np.zeros(0, np.int64), np.zeros(0, np.int64))
"""No file has such an index."""
