"""Bounds and null counts of data files, in the columns of a plan's schema, and ranks of keys."""

from app.table.statistics.casts import bounds_cast
from app.table.statistics.ranks import column_ranks, key_ranks
from app.table.statistics.statistics import (
    StatisticsRows,
    bounds_are_values,
    bring_row_ids,
    holds_one_value,
    in_other_zones,
    key_bounds,
    may_be_in_other_zones,
    partition_bounds,
    value_bounds,
)
from app.table.statistics.writers import writes_exact_clocks

__all__ = [
    # Statistics of one manifest, whose columns are read on demand.
    "StatisticsRows",
    # Files in which the bounds of a column are values, neither cut nor widened.
    "bounds_are_values",
    # Turns bounds of one type into those of another.
    "bounds_cast",
    # Files that may store row ids of their own.
    "bring_row_ids",
    # Ranks of values in SQL's order.
    "column_ranks",
    # Files of a single row, whose value is known.
    "holds_one_value",
    # Widens bounds by the largest zone offset.
    "in_other_zones",
    # Bounds of a key column.
    "key_bounds",
    # Ranks of each file's smallest and largest key among all keys.
    "key_ranks",
    # Returns True if some writers store a type in their local time.
    "may_be_in_other_zones",
    # Bounds of a partition column in each manifest of a list.
    "partition_bounds",
    # Bounds of a column in each file, in its type.
    "value_bounds",
    # Files whose writer does not store clocks in its local time.
    "writes_exact_clocks",
]
