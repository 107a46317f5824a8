"""Global indexes of a random table with data evolution: true ones, and such as nobody may believe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from app.table.manifests.index_manifest import IndexEntry
from app.table.manifests.manifest_entry import FileKind
from app.types import Value
from app.types.index_files import GlobalIndex, IndexFileMeta
from tests.global_index_files import COMPRESSIONS, WRITERS, Habits, is_held
from tests.proof.columns import NULL
from tests.proof.tables import File, RandomTable


def global_indexes(
    rng: Random, table: RandomTable, directory: Path, partition_row: dict[tuple[int, ...], bytes]
) -> Iterator[IndexEntry]:
    """Write index files of some columns below ``directory``, and tell their entries."""
    if not table.joins_rows or rng.random() < 0.2:
        return
    for at, column in enumerate(table.columns):
        if column.fields[-1] is None or rng.random() < 0.3 or not is_held(column.field.type):
            continue
        for kind in rng.choice([("btree",), ("btree",), ("bitmap",), ("btree", "bitmap")]):
            yield from _of_column(rng, table, at, kind, directory, partition_row)


def _of_column(
    rng: Random,
    table: RandomTable,
    at: int,
    kind: str,
    directory: Path,
    partition_row: dict[tuple[int, ...], bytes],
) -> Iterator[IndexEntry]:
    column = table.columns[at]
    # Indexes that were built before the type changed have keys of the old one.
    schema = rng.choice([-1, -1, rng.randrange(table.schemas)])
    written = column.fields[schema]
    if written is None or not is_held(written.type):
        return
    for partition, groups in _runs(rng, table):
        codes = [code for group in groups for code in _codes(rng, at, group)]
        if table.distrusts_global_indexes and rng.random() < 0.7:
            # A compaction has hidden the updates that the index ignored.
            codes = rng.choices([NULL, *codes], k=len(codes))
        if not {*codes} <= {NULL, *column.codes[schema]}:
            # No index that was built then has rows that came later.
            continue
        values = [column.stored[schema][code] for code in codes]
        first = groups[0][0].first_row_id
        assert first is not None
        rows = list(zip(values, range(len(values)), strict=True))
        habits = Habits(
            block_bytes=rng.choice([1, 30, 200, 1 << 16]),
            compression=rng.choice([*COMPRESSIONS][:3]),
            cuts=rng.random() < 0.5,
            flags=rng.random() < 0.7,
            bloom=b"\xff" * rng.choice([0, 0, 9]),
        )
        for some in _cut(rng, rows):
            content, metadata = WRITERS[kind](some, written.type, habits)
            if table.damaged and rng.random() < 0.1:
                content = _damaged(rng, content)
            name = f"{kind}-global-index-{column.id}-{first}-{rng.getrandbits(64)}.index"
            (directory / name).write_bytes(content)
            covered = GlobalIndex(first, first + len(rows) - 1, column.id, None, metadata)
            meta = IndexFileMeta(kind, name, len(content), len(some), global_index=covered)
            if rng.random() > 0.03:
                yield IndexEntry(FileKind.ADD, partition_row[partition], 0, meta)


def _runs(rng: Random, table: RandomTable) -> Iterator[tuple[tuple[int, ...], list[list[File]]]]:
    """Return groups of files whose rows follow each other, some of which have no index."""
    groups: dict[int, list[File]] = {}
    for file in table.files:
        assert file.first_row_id is not None
        groups.setdefault(file.first_row_id, []).append(file)
    run: list[list[File]] = []
    ordered = [groups[first] for first in sorted(groups)]
    for group in ordered:
        if run and (run[0][0].partition != group[0].partition or rng.random() < 0.2):
            if rng.random() < 0.8:
                yield run[0][0].partition, run
            run = []
        run.append(group)
    if run and rng.random() < 0.8:
        yield run[0][0].partition, run


def _codes(rng: Random, at: int, group: Sequence[File]) -> list[int]:
    """Return what a column has in the rows of a group; perhaps from before it was updated."""
    holders = [file for file in group if file.holds is not None and at in file.holds]
    if not holders:
        return [NULL] * len(group[0])
    ordered = sorted(holders, key=lambda file: file.sequence)
    told = ordered[0] if rng.random() < 0.5 else ordered[-1]
    codes: list[int] = told.codes[:, at].tolist()
    return codes


def _cut(rng: Random, rows: list[tuple[Value | None, int]]) -> list[list[tuple[Value | None, int]]]:
    """Return the rows of each file of a range."""
    if rng.random() < 0.6:
        return [rows]
    files = rng.randint(2, 4)
    drawn = [rng.randrange(files) for _ in rows]
    return [
        some
        for number in range(files)
        if (some := [row for row, of in zip(rows, drawn, strict=True) if of == number])
    ]


def _damaged(rng: Random, content: bytes) -> bytes:
    at = rng.randrange(len(content))
    return (
        content[:at]
        if rng.random() < 0.5
        else content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]
    )
