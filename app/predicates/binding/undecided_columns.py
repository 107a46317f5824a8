"""Columns by whose values nothing is decided, or not as by those of other columns.

*Hidden columns* are those that Spark's connector gives every table beside its own. Nothing here knows their
values, but for ``_ROW_ID``: the rows of a file that has a first row id are numbered from it on.

*Shown defaults*: releases of the engine up to 1.2 show NULL as ``fields.<column>.default-value`` when they
read, later ones do not. Statistics, indexes and buckets are of what is stored, and nobody knows who reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from app.types import DataField, parse_type

ROW_ID: Final = DataField(0x7FFFFFFA, "_ROW_ID", parse_type("BIGINT"))
"""The row ids of a table that tracks rows, with the engine's number."""

HIDDEN_COLUMNS: Final = frozenset(
    {
        "_row_id",
        "_sequence_number",
        "__paimon_bucket",
        "__paimon_file_path",
        "__paimon_partition",
        "__paimon_row_index",
        "__paimon_search_score",
    }
)
"""In lower case, since Spark compares names so."""

_PREFIX: Final = "fields."
_SUFFIX: Final = ".default-value"


def shown_defaults(options: Iterable[str]) -> frozenset[str]:
    """Lower-case names of the columns whose NULLs some readers show as another value.

    The engine minds the case of options and columns, and takes the words around a column's name out of it
    wherever they stand. Here neither matters: a column too many only keeps files.
    """
    names = (option.lower() for option in options)
    defaults = [name for name in names if name.startswith(_PREFIX) and name.endswith(_SUFFIX)]
    return frozenset(
        column
        for name in defaults
        for column in (
            name[len(_PREFIX) : -len(_SUFFIX)],
            name.replace(_PREFIX, "").replace(_SUFFIX, ""),
        )
    )


def why_hidden(name: str) -> str:
    """Why a condition on a hidden column is not decided."""
    return f"{name} is a hidden column of Spark, whose values nothing here knows"


def why_shown(name: str) -> str:
    """Why nothing is decided by a column with a default value."""
    return (
        f"engine releases up to 1.2 show NULL in column {name} as its fields.{name}.default-value; where "
        f"none of them reads the table, unset that option, which later releases do not mind"
    )
