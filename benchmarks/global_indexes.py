"""Plans by a BTree global index, by the service and by pypaimon, of a table that has no data files.

``python benchmarks/global_indexes.py make DIRECTORY [FILES ROWS]`` writes the table, ``ours DIRECTORY`` and
``pypaimon DIRECTORY`` plan it, each with a Python that has what it needs, and print how long the first plan
took, and later ones with other literals in the median.
"""

from __future__ import annotations

import struct
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, Final

import numpy as np

_RUNS: Final = 7
_FACTOR: Final = 0x9E37_79B9_7F4A_7C15 % (1 << 40) | 1
_IDS: Final = 1 << 40
"""Ids are row ids times an odd number, modulo this."""
_KEYS_OF_A_FILE: Final = 1_200_000
_BLOCK_ENTRIES: Final = 4_000
_IN: Final = 1_000


def make(directory: Path, files: int, rows: int) -> None:
    """Writes a table of so many files with so many rows each, and an index of its ids over all of them."""
    from app.table.manifests.index_manifest import IndexEntry  # noqa: PLC0415 - not where pypaimon plans
    from app.table.manifests.manifest_entry import FileKind, ManifestEntry  # noqa: PLC0415 - likewise
    from app.types import DataField, parse_type  # noqa: PLC0415 - likewise
    from app.types.index_files import GlobalIndex, IndexFileMeta  # noqa: PLC0415 - likewise
    from tests.tables import EMPTY_ROW, NO_STATISTICS, MadeTable, data_file  # noqa: PLC0415 - likewise

    options = {"bucket": "-1", "row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    column = DataField(0, "id", parse_type("BIGINT"))
    made = MadeTable.make(directory, [column], options=options, name="rows")
    entries = [
        ManifestEntry(
            FileKind.ADD,
            EMPTY_ROW,
            0,
            -1,
            data_file(
                file_name=f"data-{at}.parquet",
                row_count=rows,
                first_row_id=at * rows,
                max_sequence_number=at + 1,
                min_sequence_number=at + 1,
                value_statistics=NO_STATISTICS,
                value_statistics_columns=(),
            ),
        )
        for at in range(files)
    ]
    total = files * rows
    ids = (np.arange(total, dtype=np.uint64) * np.uint64(_FACTOR) % np.uint64(_IDS)).astype(np.int64)
    order = np.argsort(ids)
    index_entries = []
    for start in range(0, total, _KEYS_OF_A_FILE):
        some = order[start : start + _KEYS_OF_A_FILE]
        keys = ids[some]
        content = _btree(keys, some)
        name = f"btree-global-index-{start}.index"
        (made.directory / "index" / name).write_bytes(content)
        ends = b"".join(struct.pack("<iq", 8, int(key)) for key in keys[[0, -1]]) + b"\0\1\0"
        covered = GlobalIndex(0, total - 1, 0, None, ends)
        meta = IndexFileMeta("btree", name, len(content), len(some), global_index=covered)
        index_entries.append(IndexEntry(FileKind.ADD, EMPTY_ROW, 0, meta))
    made.commit(entries, index_entries=index_entries)
    snapshot = made.directory / "snapshot" / "snapshot-1"
    snapshot.write_text(snapshot.read_text().replace('"version"', f'"nextRowId": {total}, "version"'))


def _btree(keys: np.ndarray[Any, Any], rows: np.ndarray[Any, Any]) -> bytes:
    parts, index, at = [], [], 0
    for start in range(0, len(keys), _BLOCK_ENTRIES):
        some = slice(start, start + _BLOCK_ENTRIES)
        stored = _block(*_entries(keys[some], rows[some]))
        last = struct.pack("<q", int(keys[some][-1]))
        index.append((last, _varint(at) + _varint(len(stored) - 5)))
        parts.append(stored)
        at += len(stored)
    listed = [_varint(len(key)) + key + _varint(len(value)) + value for key, value in index]
    stored = _block(b"".join(listed), np.cumsum([0, *map(len, listed)][:-1]))
    return (
        b"".join(parts)
        + stored
        + struct.pack("<qiqqiqiii", 0, 0, 0, at, len(stored) - 5, 0, 0, 1, 0x50425449)
    )


def _entries(keys: np.ndarray[Any, Any], rows: np.ndarray[Any, Any]) -> tuple[bytes, np.ndarray[Any, Any]]:
    """Entries of a key of 8 bytes and one row id each, and where they start."""
    width = 1 + (rows > 0x7F) + (rows > 0x3FFF) + (rows > 0x1FFFFF)
    matrix = np.zeros((len(keys), 15), np.uint8)
    matrix[:, 0], matrix[:, 1:9] = 8, keys.astype("<i8").view(np.uint8).reshape(-1, 8)
    matrix[:, 9], matrix[:, 10] = 1 + width, 1
    for place in range(4):
        matrix[:, 11 + place] = (rows >> 7 * place) & 0x7F | np.where(place < width - 1, 0x80, 0)
    size = 11 + width
    return matrix[np.arange(15) < size[:, None]].tobytes(), np.cumsum(size) - size


def _block(body: bytes, starts: np.ndarray[Any, Any]) -> bytes:
    content = body + starts.astype("<u4").tobytes() + struct.pack("<Ib", len(starts), 1) + b"\0"
    return content + struct.pack("<I", zlib.crc32(content))


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + _varint(number >> 7)


def _literals(total: int) -> Iterator[list[int]]:
    random = Random(1)
    while True:
        yield sorted(random.randrange(total) * _FACTOR % _IDS for _ in range(_IN))


def _show(name: str, plan: Callable[[str, list[int]], int], total: int, form: str) -> None:
    seconds, files, literals = [], 0, _literals(total)
    for _ in range(1 + _RUNS):
        wanted, begun = next(literals), time.perf_counter()
        files = plan(form, wanted)
        seconds.append((time.perf_counter() - begun) * 1000)
    print(
        f"{name:9} {form:6} first {seconds[0]:10,.1f}, then {median(seconds[1:]):10,.1f} ms, {files:5} files",
        flush=True,
    )


def ours(directory: Path, forms: list[str]) -> None:
    """Prints what plans of the service take; each form begins in a new service."""
    from app.planning.request.requests import PlanRequest, SelectionForm, TableRef  # noqa: PLC0415 - as above
    from tests.tables import open_service  # noqa: PLC0415 - likewise

    for form in forms:
        service = open_service(directory)

        def plan(form: str, ids: list[int], service: Any = service) -> int:
            condition = {
                "point": f"id = {ids[0]}",
                "in": f"id IN ({', '.join(map(str, ids))})",
                "range": f"id BETWEEN {ids[0]} AND {ids[0] + _IDS // 50_000}",
            }[form]
            request = PlanRequest(filter=condition, selection=SelectionForm.RANGES)
            return len(service.plan(TableRef("golden", "golden", "rows"), request).files)

        total = service.plan(TableRef("golden", "golden", "rows"), PlanRequest()).summary.rows_total
        _show("ours", plan, total, form)
        service.close()


def pypaimon(directory: Path, forms: list[str]) -> None:
    """Prints what plans of pypaimon take."""
    from pypaimon import CatalogFactory  # noqa: PLC0415 - as above

    for form in forms:
        table = CatalogFactory.create({"warehouse": str(directory)}).get_table("golden.rows")

        def plan(form: str, ids: list[int], table: Any = table) -> int:
            builder = table.new_read_builder()
            test = builder.new_predicate_builder()
            predicate = {
                "point": lambda: test.equal("id", ids[0]),
                "in": lambda: test.is_in("id", ids),
                "range": lambda: test.between("id", ids[0], ids[0] + _IDS // 50_000),
            }[form]()
            splits = builder.with_filter(predicate).new_scan().plan().splits()
            return sum(len(split.files) for split in splits)

        total = table.snapshot_manager().get_latest_snapshot().total_record_count
        _show("pypaimon", plan, total, form)


if __name__ == "__main__":
    command, where, *numbers = sys.argv[1:]
    match command:
        case "make":
            make(Path(where), *map(int, numbers or ("1000", "10000")))
        case _:
            {"ours": ours, "pypaimon": pypaimon}[command](Path(where), numbers or ["point", "in", "range"])
