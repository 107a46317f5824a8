"""Which files of a bucket merge with one another when they are read.

A primary key table keeps versions of a key in several files; a read merges them. The files of a bucket fall
into *units* whose key ranges do not overlap, so a key's versions all lie in one unit:

* a unit of one file holds the only version of each of its keys: its own values decide about it. If it has
  no delete rows it is *raw convertible*: a reader takes rows straight from the file, by their positions;
* a unit of several files is merged on read. Skipping one file of it by its values may bring an older version
  of a row back to life, so the unit is judged as a whole (:mod:`app.planning.value_filter`).

Where a bucket needs no merging at all (tables with deletion vectors or the first-row engine, or all files on
one level above 0, and no delete rows) every file is a raw convertible unit of its own.

The engine judges an overlapping bucket as a whole; units are its own key-range sections, which it uses to
build splits. Judging by section skips more and is safe for the same reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from app.types import sql_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.table.manifest_entry import DataFileMeta
    from app.types import DataField, Value

Key: TypeAlias = "tuple[Value | None, ...]"


@dataclass(frozen=True, slots=True)
class KeyRange:
    """A data file with the smallest and largest primary key in it (partition columns left out)."""

    file: DataFileMeta
    min_key: Key
    max_key: Key


@dataclass(frozen=True, slots=True)
class MergeUnit:
    """Files that are read together.

    Attributes:
        files: one file, or several that merge.
        raw_convertible: the one file can be read without merging.
    """

    files: tuple[DataFileMeta, ...]
    raw_convertible: bool


def without_delete_rows(file: DataFileMeta) -> bool:
    """Whether the file holds no retractions; files of old writers that do not tell count as such."""
    return not file.delete_row_count


def merge_units(
    ranges: Sequence[KeyRange], key_fields: Sequence[DataField], *, one_version: bool
) -> list[MergeUnit]:
    """Partitions the files of one bucket into units.

    Args:
        ranges: the bucket's files that a read still has to see.
        key_fields: the primary key without partition columns.
        one_version: the table keeps at most one live version of a key in the visible files (deletion
            vectors, first-row).
    """
    files = [each.file for each in ranges]
    plain = all(file.level > 0 and without_delete_rows(file) for file in files)
    if plain and (one_version or len({file.level for file in files}) == 1):
        return [MergeUnit((file,), raw_convertible=True) for file in files]
    return [
        MergeUnit(section, raw_convertible=len(section) == 1 and without_delete_rows(section[0]))
        for section in sections(ranges, key_fields)
    ]


def sections(ranges: Sequence[KeyRange], key_fields: Sequence[DataField]) -> list[tuple[DataFileMeta, ...]]:
    """Groups of files with overlapping key ranges, ascending by key."""
    order = [sql_key(field.type) for field in key_fields]

    def comparable(key: Key) -> tuple[object, ...]:
        return tuple(
            (value is not None, None if value is None else by(value))
            for value, by in zip(key, order, strict=True)
        )

    keyed = sorted(
        ((comparable(each.min_key), comparable(each.max_key), at) for at, each in enumerate(ranges)),
    )
    sections: list[list[DataFileMeta]] = []
    reach: tuple[object, ...] = ()
    for low, high, at in keyed:
        if sections and low <= reach:
            sections[-1].append(ranges[at].file)
            reach = max(reach, high)
        else:
            sections.append([ranges[at].file])
            reach = high
    return [tuple(section) for section in sections]
