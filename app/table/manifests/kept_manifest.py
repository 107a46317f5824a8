"""Manifests that lie decoded on a disk, and are mapped instead of decoded again.

A kept manifest is a :class:`Manifest` whose columns are taken from a file of arrays when somebody asks for
them. What nobody asks for, such as the statistics of columns without a filter, takes no memory. A column that
turns out to be damaged is taken from the original, which is read and decoded again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Final

from app.storage.array_file import ArrayFile, DamagedArraysError
from app.storage.kept_arrays import KeptArrays
from app.table.manifests.derived import Derived
from app.table.manifests.kept_values import put_together, take_apart
from app.table.manifests.manifest import Manifest

_COLUMNS: Final = tuple(
    each.name for each in fields(Manifest) if each.name not in ("decoded_bytes", "derived")
)
_TOGETHER: Final = "of every plan"
_OF_EVERY_PLAN: Final = (
    "kinds",
    "partitions",
    "partition_codes",
    "buckets",
    "total_buckets",
    "file_sizes",
    "row_counts",
    "schema_ids",
    "levels",
    "delete_row_counts",
)
"""What is asked for of every file whatever the filter, and lies in one block."""
_MEMORY: Final = 6_000
"""Of the objects of a manifest that was asked for its columns, without the columns; measured."""


def keep_manifest(place: KeptArrays, manifest: Manifest) -> None:
    """Puts a manifest that was decoded on the disk."""
    columns = {name: getattr(manifest, name) for name in _COLUMNS}
    together = {name: columns.pop(name) for name in _OF_EVERY_PLAN}
    blocks = {name: take_apart(column) for name, column in columns.items()}
    place.put({_TOGETHER: take_apart(together), **blocks})


def open_manifest(place: KeptArrays, read: Callable[[], Manifest]) -> Manifest | None:
    """A manifest that was kept, if it is there.

    Args:
        place: where.
        read: reads and decodes the original; called where a column is damaged.
    """
    found = place.get()
    return None if found is None else _KeptManifest.of(found, place, read)


class _KeptManifest(Manifest):
    """A manifest of arrays that are mapped."""

    __slots__ = ("_file", "_place", "_read")

    _file: ArrayFile
    _place: KeptArrays
    _read: Callable[[], Manifest]

    @classmethod
    def of(cls, file: ArrayFile, place: KeptArrays, read: Callable[[], Manifest]) -> Manifest:
        made = object.__new__(cls)
        own = {"_file": file, "_place": place, "_read": read, "decoded_bytes": 0, "derived": Derived()}
        for name, value in own.items():
            object.__setattr__(made, name, value)
        return made

    def __len__(self) -> int:
        return self._file.length(_TOGETHER, ".kinds")

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a column of any kind
        """A column that nobody has asked for before."""
        if name not in _COLUMNS:
            raise AttributeError(name)
        names = _OF_EVERY_PLAN if name in _OF_EVERY_PLAN else (name,)
        try:
            if name in _OF_EVERY_PLAN:
                found = put_together(self._file.block(_TOGETHER))
            else:
                found = {name: put_together(self._file.block(name))}
        except DamagedArraysError:
            self._place.drop()
            original = self._read()
            found = {each: getattr(original, each) for each in names}
        for each, column in found.items():
            object.__setattr__(self, each, column)
        return found[name]

    @property
    def nbytes(self) -> int:
        """Bytes of memory that is not mapped."""
        return _MEMORY + self.derived.nbytes
