"""Filters: read from text or JSON, bound to columns, simplified, and decided by bounds of columns.

:mod:`~app.predicates.text` and :mod:`~app.predicates.json_reader` read the unbound form
(:mod:`~app.predicates.unbound`); :mod:`~app.predicates.binding` turns it into the bound predicate
(:mod:`~app.predicates.model`) that planning and indexes evaluate.
"""

from app.predicates.binding import bind, bind_test
from app.predicates.bounds_in_words import bound_texts, point_texts
from app.predicates.json_reader import NO_ARROW, read_json_filter, read_lists
from app.predicates.like import literal_prefix
from app.predicates.names import NAMELESS, ROW_ID, Names, Relation, shown_defaults
from app.predicates.text import read_text
from app.predicates.verdicts import (
    UNKNOWN_COUNT,
    ColumnBounds,
    Verdict,
    Verdicts,
    evaluate_bounds,
    leaf_verdicts,
)

__all__ = [
    # Stands for columns that belong to no table.
    "NAMELESS",
    # The error message for Arrow in JSON filters.
    "NO_ARROW",
    # The column of row ids, with the engine's number.
    "ROW_ID",
    # Stands for an unknown number of NULLs.
    "UNKNOWN_COUNT",
    # Bounds and NULLs of a column in each of n files.
    "ColumnBounds",
    # The names of a table's columns.
    "Names",
    # The name of the filtered table, and its hidden columns.
    "Relation",
    # Proof that all rows match, that none does, or no proof.
    "Verdict",
    # One verdict a file.
    "Verdicts",
    # Resolves a predicate's columns and literals against a schema.
    "bind",
    # Binds one test to a column.
    "bind_test",
    # Bounds of a test's column as text, for `explain`.
    "bound_texts",
    # Decides a predicate by bounds.
    "evaluate_bounds",
    # Decides one test by bounds.
    "leaf_verdicts",
    # The text that every match of a LIKE pattern starts with.
    "literal_prefix",
    # Text of the single value that all rows of a file or partition have.
    "point_texts",
    # Reads a predicate from parsed JSON.
    "read_json_filter",
    # Reads lists of values by column.
    "read_lists",
    # Reads a condition from text.
    "read_text",
    # Columns whose NULLs some readers show as another value.
    "shown_defaults",
]
