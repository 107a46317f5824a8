"""File indexes: the rows of a data file that can satisfy a filter.

A leaf of the filter becomes a condition on keys (:mod:`app.file_index.keys`). Each kind of index answers
conditions in its own room, and :mod:`app.file_index.answers` combines the answers.
"""

from app.file_index.evaluation import decide_files, evaluate, find_rows
from app.file_index.findings import FileDecisions
from app.file_index.index_kinds import (
    KINDS,
    IndexKind,
    WantedIndexes,
    condition_of,
    open_payload,
    wanted_indexes,
)
from app.file_index.inspection import inspect
from app.file_index.keys.key_column import KeyColumn
from app.file_index.stacked_index import FileIndex, Heads, StackedIndex
from app.file_index.table_options import FileIndexOptions, IndexDefinition, indexed_type
from app.file_index.top_rows import indexed_rows, top_n

__all__ = [
    # Kinds by the names that files give them.
    "KINDS",
    # Answers of indexes about k files.
    "FileDecisions",
    # The indexes of one file.
    "FileIndex",
    # Options of a table that declare file indexes.
    "FileIndexOptions",
    # Heads of containers of m files.
    "Heads",
    # An index to write: its column, kind and options.
    "IndexDefinition",
    # One of the four kinds.
    "IndexKind",
    # A column as keys, row by row.
    "KeyColumn",
    # The indexes of m files, opened when they are first used.
    "StackedIndex",
    # Columns, each with a kind of index.
    "WantedIndexes",
    # Translates a test into a condition on keys.
    "condition_of",
    # Decides which files can have rows that satisfy a predicate.
    "decide_files",
    # Finds the rows of one file that can satisfy a predicate.
    "evaluate",
    # Decides which files can match, and finds the rows in them that can.
    "find_rows",
    # The row count of a file as the range-bitmap of a column records it.
    "indexed_rows",
    # The type of an indexed column, or of the values under a key of a map.
    "indexed_type",
    # Describes every index of a container.
    "inspect",
    # Opens the index of one file.
    "open_payload",
    # Narrows rows to those that can be in the top n of an order.
    "top_n",
    # The indexes that a predicate may use.
    "wanted_indexes",
]
