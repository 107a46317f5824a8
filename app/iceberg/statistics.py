"""Counts and bounds of columns, for clients that answer MIN, MAX and COUNT from them.

Bounds are told of integers and dates alone: there they are values of the file, as those clients take them to
be. Those of texts are cut, of timestamps rounded, and those of floating point may leave out NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from app.planning.plan.planned_files import PlannedFiles
from app.planning.version.file_bounds import FileBounds
from app.planning.version.version import Version
from app.storage import check_deadline
from app.types import DataField, Json, TypeRoot
from app.types.data_types import INTEGER_BITS

_BYTES: Final = {root: 8 if root is TypeRoot.BIGINT else 4 for root in (*INTEGER_BITS, TypeRoot.DATE)}
"""Width of Iceberg's form of a value."""


def column_statistics(
    version: Version, files: PlannedFiles, start: int, stop: int, columns: Sequence[DataField]
) -> Iterator[Mapping[str, Json]]:
    """Members of data files from ``start`` to ``stop``, exclusive; none where nothing was asked for.

    Bounds are in hexadecimal of their binary form, as Java reads them: the document of the REST catalog does
    not say which form they have.

    Raises:
        CorruptMetadataError: the statistics of a manifest are damaged.
        DeadlineExceededError: the request's time is used up.
    """
    numbers = files.numbers[start:stop]
    order = np.argsort(numbers, kind="stable")
    told = {}
    file_bounds = FileBounds(version)
    for column in columns:
        check_deadline()
        bounds = file_bounds.values(column, numbers[order])
        if bounds is not None:
            told[column] = bounds.take(np.argsort(order, kind="stable"))
    for at in range(stop - start):
        if not told:
            yield {}
            continue
        check_deadline()
        values: dict[int, int] = {}
        nulls: dict[int, int] = {}
        low: dict[int, str] = {}
        high: dict[int, str] = {}
        for column, bounds in told.items():
            values[column.id] = int(bounds.row_count[at])
            if bounds.null_count[at] >= 0:
                nulls[column.id] = int(bounds.null_count[at])
            width = _BYTES.get(column.type.root)
            if width and bounds.has_low[at] and bounds.has_high[at]:
                low[column.id] = int(bounds.low[at]).to_bytes(width, "little", signed=True).hex().upper()
                high[column.id] = int(bounds.high[at]).to_bytes(width, "little", signed=True).hex().upper()
        yield {
            "value-counts": _map(values),
            "null-value-counts": _map(nulls),
            "lower-bounds": _map(low),
            "upper-bounds": _map(high),
        }


def _map(values: Mapping[int, Json]) -> Json:
    return {"keys": list(values), "values": list(values.values())}
