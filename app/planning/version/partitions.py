"""The partitions of a table: their rows as values and as JSON, each read once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from app.table.schema.partition import partition_json, partition_values
from app.table.schema.schema import TableSchema
from app.types import Json, Value


@dataclass(frozen=True, slots=True, eq=False)
class Partitions:
    """Values of partition rows. Threads may share it: what two read at the same time is equal.

    Attributes:
        schema: tells the partition columns.
    """

    schema: TableSchema
    _values: dict[bytes, tuple[Value | None, ...]] = field(default_factory=dict)
    _json: dict[bytes, Mapping[str, Json]] = field(default_factory=dict)

    def values(self, row: bytes) -> tuple[Value | None, ...]:
        """The values of a partition row, in the order of the partition columns.

        Raises:
            CorruptMetadataError: the row is damaged.
        """
        found = self._values.get(row)
        if found is None:
            found = self._values[row] = partition_values(row, self.schema)
        return found

    def json(self, row: bytes) -> Mapping[str, Json]:
        """The values of a partition row as typed JSON by column name.

        Raises:
            CorruptMetadataError: the row is damaged.
        """
        found = self._json.get(row)
        if found is None:
            found = self._json[row] = partition_json(row, self.schema)
        return found

    def where(
        self, rows: Sequence[bytes], holds: Callable[[tuple[Value | None, ...]], bool]
    ) -> NDArray[np.bool_]:
        """Of which partition rows something holds, shape (rows,).

        Raises:
            CorruptMetadataError: a row is damaged.
        """
        return np.fromiter((holds(self.values(row)) for row in rows), np.bool_, len(rows))
