"""Writes the different indexes of a table once, with the product's own writers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

import pyarrow as pa

from app.file_index import container
from app.file_index.bitmap import bitmap
from app.file_index.bloom_filter import bloom_filter
from app.file_index.index_kinds import BITMAP, BLOOM_FILTER, RANGE_BITMAP
from app.file_index.keys.key_column import KeyColumn
from app.file_index.range_bitmap import range_bitmap
from app.types import DataField
from benchmarks.events import CAT, ID, SCORE, Indexed, Layout, categories, ids, scores

FPP: Final = 0.01
"""Of the bloom filters: how often one that lacks a key says that it may have it."""


def write_bodies(directory: Path, layout: Layout, files: int) -> list[Path]:
    """Return the indexes that ``files`` files need, as index files; those that are there already are kept.

    ``directory``: for the indexes of this layout and others.
    ``layout``: of the table.
    ``files``: how many the table has; file ``n`` has the index ``n % len(result)``.
    """
    place = directory / f"{layout.indexed.name}-{layout.distinct}"
    place.mkdir(parents=True, exist_ok=True)
    paths = [place / f"{body:06}.index" for body in range(min(layout.bodies, files))]
    for body, path in enumerate(paths):
        if not path.exists():
            path.write_bytes(_keys(body) if layout.indexed is Indexed.KEYS else _values(body, layout))
    return paths


def _keys(body: int) -> bytes:
    values = ids(body)
    payload = bloom_filter.write(keys_of(values, ID), len(values), FPP)
    return container.write({ID.name: [(BLOOM_FILTER, payload)]})


def _values(body: int, layout: Layout) -> bytes:
    random = Random(f"rows {body}")
    cats = _of_rows(random, categories(body, layout.distinct), layout)
    points = _of_rows(random, scores(body, layout.distinct), layout)
    return container.write(
        {
            CAT.name: [(BITMAP, bitmap.write(keys_of(cats, CAT)))],
            SCORE.name: [(RANGE_BITMAP, range_bitmap.write(keys_of(points, SCORE)))],
        }
    )


def keys_of(values: Sequence[int], column: DataField) -> KeyColumn:
    """Return the keys of a column's values."""
    return KeyColumn.of(pa.array(values), column.type, column.name)


def categories_of_rows(body: int, layout: Layout) -> list[int]:
    """Return the category of each row of a file with that body."""
    return _of_rows(Random(f"rows {body}"), categories(body, layout.distinct), layout)


def _of_rows(random: Random, values: list[int], layout: Layout) -> list[int]:
    # Every value stands in one row at least.
    return values + random.choices(values, k=layout.rows - len(values))
