"""How many rows have each value of a column: of all files that a manifest has of a partition, together.

One file's index takes 20 to 400 µs. What the files of a manifest give never changes, so it is made once and
stays with the manifest; where a version has all of them, and every row of them counts, it is looked up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.aggregates.file_values import COUNTED, FileValues, NotKnownError
from app.errors import CorruptIndexError
from app.file_index.container import FileIndex
from app.file_index.index_kinds import KINDS
from app.planning.plan.state import PlanState
from app.planning.side_files.file_indexes import FileIndexes
from app.planning.version.version import Version
from app.table.manifests.manifest_entry import FileKind
from app.types import DataField, Value
from app.types.value_arrays import group_rows

Facets: TypeAlias = Mapping[Value | None, int]
"""How many rows have each value (None: NULL)."""

_BYTES_OF_VALUE: Final = 150


def facets(
    version: Version, state: PlanState, column: DataField, files: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], Facets]]:
    """The facets of files, as far as these are all that a manifest has of a partition.

    Args:
        version: of the table.
        state: which rows are left of its files.
        column: whose values are counted.
        files: that merge with no other, ascending.

    Yields:
        Positions in ``files`` of some of one partition, and their facets.
    """
    columns = state.files.columns
    is_whole = state.rows_left[files] == columns.row_counts[files]
    for number, part, rows in state.files.by_manifest(files):
        manifest = state.files.manifests[number]
        totals = np.bincount(manifest.partition_codes[manifest.kinds == FileKind.ADD])
        codes, whole = manifest.partition_codes[rows], is_whole[part]
        for members in group_rows(codes):
            code = int(codes[members[0]])
            if len(members) < totals[code] or not whole[members].all():
                continue
            at = part.start + members
            found = manifest.derived.get_or_make(
                ("facets", column.id, column.type, code),
                partial(_facets, version, state, column, files[at]),
                lambda made: _BYTES_OF_VALUE * len(made or ()),
            )
            if found is not None:
                yield at, found


def _facets(version: Version, state: PlanState, column: DataField, files: NDArray[np.int64]) -> Facets | None:
    """The facets of all rows of files; None where an index does not tell them."""
    indexes, columns = FileIndexes(version), state.files.columns
    counts: Counter[Value | None] = Counter()
    for schema_id in np.unique(columns.schema_ids[files]).tolist():
        written = version.file_schema(schema_id).by_id.get(column.id)
        of_schema = files[columns.schema_ids[files] == schema_id]
        if written is None or not indexes.has_index(of_schema).all():
            return None
        left = len(of_schema)
        for file, index in indexes.open(
            of_schema, frozenset((written.name, KINDS[kind]) for kind in COUNTED)
        ):
            if not isinstance(index, FileIndex):
                return None
            opened = FileValues(version, state, file, index)
            try:
                for value, _, size in opened.parts(column, None, int(columns.row_counts[file])):
                    counts[value] += size
            except (NotKnownError, CorruptIndexError):
                return None
            left -= 1
        if left:
            return None
    return counts
