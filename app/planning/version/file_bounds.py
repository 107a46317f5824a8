"""Bounds of a version's files from their statistics, in the columns of its schema, to evaluate filters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.planning.version.version import Version
from app.predicates import ROW_ID, UNKNOWN_COUNT, ColumnBounds
from app.table.manifests import Manifest
from app.table.statistics import (
    StatisticsRows,
    bring_row_ids,
    holds_one_value,
    in_other_zones,
    key_bounds,
    may_be_in_other_zones,
    value_bounds,
    writes_exact_clocks,
)
from app.types import FLOATING_ROOTS, DataField, TypeRoot

# From this many files on, decoding statistics takes longer than reading their bounds from the disk.
_WORTH_KEEPING: Final = 500


@dataclass(frozen=True, slots=True)
class FileBounds:
    """Bounds of the files of one version.

    The Java engine gives no bounds to Parquet files with NaN, and writes clocks as they are. ``as_engine``:
    treats all bounds as the engine's, which is the default if no other writer uses the warehouse.
    """

    version: Version
    as_engine: bool = False
    # Names of columns with unreadable bounds, in the order of requests.
    unreadable: dict[str, None] = field(default_factory=dict)
    # Statistics decoded for other columns, by kind of bounds and number of manifest.
    _stored_rows: dict[tuple[str, int], StatisticsRows] = field(default_factory=dict)

    @property
    def is_of_engine(self) -> bool:
        """True if the Java engine wrote all bounds."""
        return self.as_engine or self.version.source.warehouse.engine_writes_only

    def values(self, column: DataField, files: NDArray[np.int64]) -> ColumnBounds | None:
        """Return bounds of a column's values in ascending ``files``. Return None for a key of a map.

        Raises CorruptMetadataError if a manifest's statistics are damaged.
        """
        return self._row_ids(files) if column == ROW_ID else self._gather(column, files, value_bounds)

    def keys(self, column: DataField, files: NDArray[np.int64]) -> ColumnBounds | None:
        """Return bounds from the statistics of keys. Arguments and errors are those of :meth:`values`."""
        return self._gather(column, files, key_bounds)

    def _row_ids(self, files: NDArray[np.int64]) -> ColumnBounds:
        all_files = self.version.files()
        first, has_range = np.zeros(len(files), np.int64), np.zeros(len(files), np.bool_)
        for number, part, rows in all_files.by_manifest(files):
            manifest = all_files.manifests[number]
            first[part] = manifest.first_row_ids.values[rows]
            brings = bring_row_ids(manifest, rows, self.version.file_schema)
            # An update may write row ids as a column: these need not count up from first_row_id.
            has_range[part] = manifest.first_row_ids.known[rows] & ~brings
        row_count = all_files.columns.row_counts[files]
        return ColumnBounds(
            low=first,
            high=first + row_count - 1,
            has_low=has_range,
            has_high=has_range,
            null_count=np.where(has_range, 0, UNKNOWN_COUNT),
            row_count=row_count,
            may_hold_nan=np.zeros(len(files), np.bool_),
            unreadable=np.zeros(len(files), np.bool_),
        )

    def _gather(
        self, column: DataField, files: NDArray[np.int64], read: Callable[..., ColumnBounds]
    ) -> ColumnBounds | None:
        version = self.version
        # A key of a map has the map's id, but the map's null count is not the key's.
        if version.schema.by_id[column.id].name != column.name:
            return None
        pieces = []
        all_files = version.files()
        in_use = {(read.__name__, number) for number in all_files.manifests_of(files)}
        # Manifests cache their bounds. Decoded rows of manifests that are not used again only take memory.
        for unused in self._stored_rows.keys() - in_use:
            del self._stored_rows[unused]
        key = (read.__name__, column.id, version.schema.digest)
        for number, _, rows in all_files.by_manifest(files):
            manifest = all_files.manifests[number]
            if self._are_few(manifest, key, len(rows)):
                pieces.append(read(manifest, rows, column=column, schema_of=version.file_schema))
                continue
            make = partial(self._read, read, column, number, manifest, key)
            # Kept with the manifest, in its cache, so that a new version decodes new manifests only.
            whole = manifest.derived.get_or_make(key, make, lambda bounds: bounds.nbytes)
            pieces.append(whole if len(rows) == len(whole) else whole.take(rows))
        if not pieces:
            return None
        bounds = ColumnBounds.concat(pieces)
        if bounds.unreadable.any():
            self.unreadable[column.name] = None
        if self.is_of_engine:
            return bounds
        if column.type.root in FLOATING_ROOTS:
            return replace(bounds, may_hold_nan=bounds.may_hold_nan | ~holds_one_value(bounds))
        if column.type.root is TypeRoot.TIMESTAMP:
            return in_other_zones(bounds, self.have_clocks_of_any_zone(column, files))
        return bounds

    def _are_few(self, manifest: Manifest, key: tuple[str, int, str], count: int) -> bool:
        """Return True if bounds of ``count`` files are read alone, not with those of the whole manifest."""
        read_before = (*key, "read before")
        if 2 * count > len(manifest) or self.version.table.metadata.is_on_disk:
            return False
        if key in manifest.derived or read_before in manifest.derived:
            return False
        # A first plan needs no other bounds. A second plan reads and caches all of them.
        manifest.derived.get_or_make(read_before, lambda: True, lambda _: 0)
        return True

    def have_clocks_of_any_zone(self, column: DataField, files: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return True for ascending ``files`` whose bounds of a column may be in the writer's local time."""
        if self.is_of_engine or column.type.root is not TypeRoot.TIMESTAMP:
            return np.zeros(len(files), np.bool_)
        in_doubt, all_files = self._hold_short_clocks(column, files), self.version.files()
        if not in_doubt.any():
            return in_doubt
        has_key = bool(self.version.schema.primary_keys)
        for number, part, rows in all_files.by_manifest(files):
            manifest = all_files.manifests[number]
            judge = partial(writes_exact_clocks, manifest, has_primary_key=has_key)
            exact = manifest.derived.get_or_make((judge.func, has_key), judge, lambda mask: mask.nbytes)
            in_doubt[part] &= ~exact[rows]
        return in_doubt

    def _hold_short_clocks(self, column: DataField, files: NDArray[np.int64]) -> NDArray[np.bool_]:
        schema_ids = self.version.files().columns.schema_ids[files]
        is_one = len(files) == 0 or schema_ids.min() == schema_ids.max()
        written = {
            number: self.version.file_schema(number).by_id.get(column.id)
            for number in (schema_ids[:1] if is_one else np.unique(schema_ids)).tolist()
        }
        short = [number for number, old in written.items() if old and may_be_in_other_zones(old.type)]
        return np.isin(schema_ids, short)

    def _read(
        self,
        read: Callable[..., ColumnBounds],
        column: DataField,
        number: int,
        manifest: Manifest,
        key: tuple[str, int, str],
    ) -> ColumnBounds:
        version = self.version
        near = self._stored_rows.setdefault((read.__name__, number), StatisticsRows())
        make = partial(
            read,
            manifest,
            np.arange(len(manifest)),
            column=column,
            schema_of=version.file_schema,
            stored_rows=near,
        )
        if len(manifest) < _WORTH_KEEPING:
            return make()
        file = version.manifest_files()[number]
        return version.table.metadata.derived_from_manifest(file, f"bounds 4 {' '.join(map(str, key))}", make)
