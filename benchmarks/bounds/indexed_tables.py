"""Tables with a BTree global index of their ids, beside those of :mod:`benchmarks.bounds.tables`.

=================  =========================================================================================
table              has
=================  =========================================================================================
``large``          ``FILES`` files of 17,900 rows, and 15 index files of 340 MB together
``scattered``      ``FILES`` files of 600 rows, and 30,000 index files that each may have any key
``long_blocks``    ``FILES`` files of 3,600 rows; 100,000 entries in a block of 1.9 MB
``expanding``      64 index files of a few KB: blocks of 8 MB, which may be, and of 225 MB
=================  =========================================================================================
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from benchmarks.events import DATABASE
from benchmarks.global_indexes import FACTOR, IDS, make

FILES: Final = 1_000
"""Data files of a table; no answer has more in one page."""
INDEXED_TABLES: Final[dict[str, tuple[int, dict[str, Any]]]] = {
    "large": (17_900, {}),
    "scattered": (600, {"index_files": 30_000}),
    "long_blocks": (3_600, {"block_entries": 100_000}),
    "expanding": (10, {"index_files": 64, "expanding": (8 << 20, 225_000_000)}),
}
"""Rows of a file, and how the index is written."""


def write_indexed_tables(warehouse: Path, names: Iterable[str]) -> None:
    """Write tables into a warehouse, unless they are there."""
    for name in names:
        table = warehouse / f"{DATABASE}.db" / name
        if not table.exists():
            apart = warehouse.parent / "indexed"
            rows, how = INDEXED_TABLES[name]
            make(apart, FILES, rows, **how).rename(table)
            shutil.rmtree(apart)


def ids_of(rows: Iterable[int]) -> list[int]:
    """Return the ids of rows."""
    return [row * FACTOR % IDS for row in rows]


def files_of(name: str, rows: Iterable[int]) -> frozenset[str]:
    """Return the names of the files of a table that have these rows."""
    return frozenset(f"data-{row // INDEXED_TABLES[name][0]}.parquet" for row in rows)
