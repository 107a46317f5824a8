"""Survey of the file indexes of a table, by manifests and index heads.

Heads are read for a sample of data files, spread evenly over the table. Counts from manifests cover all
files. A few bitmaps of each column are read for their cardinality.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.building import Advance
from app.errors import CorruptIndexError
from app.file_index import indexed_type
from app.file_index.bitmap import BITMAP, BitmapHeads
from app.file_index.payloads import Cursors
from app.options import IndexDeclaration
from app.planning import FileIndexes, Files, Version
from app.types import BytesColumn, DataType

# Bitmaps of a column whose cardinality is read.
_BITMAPS: Final = 16


@dataclass(frozen=True, slots=True, eq=False)
class SampledIndexes:
    """The indexes of one kind on one column in the sample."""

    at: NDArray[np.int64]  # Shape (k,): positions of their files in the sample, ascending.
    lengths: NDArray[np.int64]  # Shape (k,): bytes of each.


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """Findings about the indexes of a version."""

    version: Version
    sample: NDArray[np.int64]  # Shape (n,): the examined files, ascending.
    # Indexes by column, as the version's schema names it, and kind.
    sampled: Mapping[tuple[str, str], SampledIndexes]
    embedded: NDArray[np.bool_]  # Shape (n,): the file's index is in its manifest.
    index_sizes: NDArray[np.int64]  # Shape (n,): bytes of each file's indexes without heads; -1 for none.
    without_index: int
    warnings: Sequence[str]
    declared: Mapping[tuple[str, str], IndexDeclaration]

    @classmethod
    def of(cls, version: Version, most_files: int, advance: Advance) -> Survey:
        """Read the index heads of at most ``most_files`` files."""
        files, indexes = version.files(), FileIndexes(version)
        all_files = files.all()
        sample = all_files
        if len(all_files) > most_files:
            sample = np.unique(np.linspace(0, len(all_files) - 1, most_files).astype(np.int64))
        has_index = indexes.has_index(all_files)
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
        """Columns and kinds with an index in the sample, or a declared one, sorted."""
        return sorted(self.sampled.keys() | self.declared.keys())

    def scaled(self, number: float) -> int:
        """Extrapolate a number from the sample to all files."""
        return round(number * len(self.files) / len(self.sample)) if len(self.sample) else 0

    def has_column(self, column: str) -> NDArray[np.bool_]:
        """Return True for examined files whose schema has a column, shape (n,)."""
        version, name = self.version, column.partition("[")[0]
        current = version.schema.by_name.get(name)
        schema_ids = self.files.columns.schema_ids[self.sample]
        by_schema = {
            number: current is not None and current.id in version.file_schema(number).by_id
            for number in np.unique(schema_ids).tolist()
        }
        return np.array([by_schema[number] for number in schema_ids.tolist()], np.bool_)

    def data_type(self, column: str) -> DataType:
        """Return the type of a column's values, or of those under a key of a map."""
        types = {name: field.type for name, field in self.version.schema.by_name.items()}
        return indexed_type(column, types)

    def cardinalities(self, column: str) -> list[float]:
        """Return the number of distinct values per row of some bitmaps of a column."""
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
        heads = BitmapHeads.read(cursors)
        shares: list[float] = (heads.cardinalities / np.maximum(1, heads.row_counts))[cursors.sound].tolist()
        return shares


def _current_names(
    version: Version, files: Files, written: NDArray[np.int64], column: str
) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yield the version's names of a column of index files, each with a mask of the files it is for."""
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
"""Sample of an index that no file has."""
