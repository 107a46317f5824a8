"""Tables whose files hold columns of the same rows: random files, and the rows that readers make of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from pyroaring import BitMap

from app.deletion_vectors import EncodedVector, write_file
from app.file_index import container
from app.file_index.container import FileIndex
from app.file_index.index_kinds import BITMAP, BLOOM_FILTER, BSI, RANGE_BITMAP, IndexKind
from app.planning.service import IndexService
from app.table.manifests.index_manifest import IndexEntry
from app.table.manifests.manifest_entry import FileKind, ManifestEntry
from app.types import DataField, parse_type
from tests.planning.made_tables import MadeTable, no_statistics, payload, statistics
from tests.planning.strategies import pool
from tests.table.entries import EMPTY_ROW, entry

A, B, C = COLUMNS = tuple(DataField(at, name, parse_type("INT")) for at, name in enumerate("abc"))
EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}

_KINDS = (BITMAP, RANGE_BITMAP, BSI, BLOOM_FILTER)


@dataclass(frozen=True)
class JoinedFile:
    """A data file: its first row id, the values of the columns that it holds, and what is known of them."""

    first: int
    columns: dict[DataField, list[int | None]]
    indexes: Mapping[DataField, tuple[IndexKind, ...]] = field(default_factory=dict)
    has_statistics: bool = True

    @property
    def row_ids(self) -> range:
        return range(self.first, self.first + len(next(iter(self.columns.values()))))

    @property
    def index(self) -> bytes | None:
        if not self.indexes:
            return None
        return container.write(
            {
                column.name: [(kind, payload(kind, self.columns[column], column)) for kind in kinds]
                for column, kinds in self.indexes.items()
            }
        )

    def file_index(self) -> FileIndex | None:
        return None if self.index is None else FileIndex.read(self.index)

    def entry(self, name: str, sequence: int) -> ManifestEntry:
        """The newer of two files has the larger sequence number."""
        return entry(
            file_name=name,
            row_count=len(self.row_ids),
            first_row_id=self.first,
            write_columns=tuple(column.name for column in self.columns),
            max_sequence_number=sequence,
            embedded_index=self.index,
            **(statistics(self.columns) if self.has_statistics else no_statistics()),
        )


@dataclass
class Warehouse:
    """Where each example of a test gets a table of its own."""

    root: Path
    service: IndexService
    tables: int = 0

    def table(
        self, entries: Iterable[ManifestEntry], deleted: Mapping[str, Iterable[int]] | None = None
    ) -> MadeTable:
        """A table of some files, with the positions that the deletion vectors of some of them delete."""
        self.tables += 1
        options = EVOLVING | {"deletion-vectors.enabled": str(bool(deleted)).lower()}
        made = MadeTable.make(self.root, COLUMNS, options=options, name=f"made_{self.tables}")
        index = []
        if deleted:
            vectors = [EncodedVector.encode(name, BitMap(at), is64=False) for name, at in deleted.items()]
            written = write_file(vectors, "index-0")
            (made.directory / "index" / "index-0").write_bytes(written.content)
            index = [IndexEntry(FileKind.ADD, EMPTY_ROW, 0, written.meta)]
        made.commit(list(entries), index_entries=index)
        return made

    def table_of(self, files: Sequence[JoinedFile], order: Sequence[int]) -> MadeTable:
        """A table of files that are named by their numbers; a larger number is newer."""
        return self.table(files[number].entry(str(number), number) for number in order)


@st.composite
def joined_files(
    draw: st.DrawFn,
    first: st.SearchStrategy[int],
    rows: st.SearchStrategy[int],
    has_statistics: st.SearchStrategy[bool],
) -> JoinedFile:
    columns = draw(st.sampled_from([COLUMNS, COLUMNS, (A,), (B,), (C,), (A, B), (B, C)]))
    values = st.none() | st.sampled_from(pool(A.type))
    count = draw(rows)
    kinds = st.lists(st.sampled_from(_KINDS), max_size=2, unique=True).map(tuple)
    listed = {column: draw(kinds) for column in columns}
    return JoinedFile(
        draw(first),
        {column: draw(st.lists(values, min_size=count, max_size=count)) for column in columns},
        {column: each for column, each in listed.items() if each},
        draw(has_statistics),
    )


def groups_of(files: Sequence[JoinedFile]) -> list[list[int]]:
    """Numbers of the files that are read together, by hand: those whose rows overlap, and so on."""
    groups: list[list[int]] = []
    for number, file in enumerate(files):
        met = [
            group for group in groups if any(set(file.row_ids) & set(files[other].row_ids) for other in group)
        ]
        groups = [group for group in groups if group not in met]
        groups.append(sorted([number, *(other for group in met for other in group)]))
    return groups


def rows_of(files: Sequence[JoinedFile]) -> dict[int, dict[int, Any]]:
    """The rows by their ids; of the files that hold a column the newest has its value."""
    found: dict[int, dict[int, Any]] = {}
    for file in files:
        for column, values in file.columns.items():
            for row_id, value in zip(file.row_ids, values, strict=True):
                found.setdefault(row_id, {each.id: None for each in COLUMNS})[column.id] = value
    return found
