"""Table options for writing data files, manifests and deletion vectors.

============================================  ==================  ========================================
option                                        default             meaning
============================================  ==================  ========================================
file.format                                   parquet             of data files
file.compression                              zstd                of Parquet pages
file.compression.zstd-level                   1                   level of zstd
target-file-size                              128 mb (with key),  size at which a file is closed
                                              256 mb (without)
data-file.prefix                              data-               beginning of file names
metadata.stats-mode                           truncate(16)        ``none``, ``counts``, ``truncate(n)``,
                                                                  ``full``
fields.<column>.stats-mode                    metadata.stats-mode mode of one column
metadata.stats-keep-first-n-columns           -1                  columns that get statistics; -1 for all
metadata.stats-dense-store                    true                statistics omit columns without any
sequence.field                                none                columns that order the versions of a key
sequence.field.sort-order                     ascending           or ``descending``
manifest.format                               avro                no other one is written
manifest.compression                          zstd                ``zstd``, ``deflate``, ``snappy``, ``null``
manifest.target-file-size                     8 mb                size at which a manifest is closed
manifest.merge-min-count                      30                  small manifests at the end that are merged
manifest.full-compaction-threshold-size       16 mb               size of small and removing manifests that
                                                                  starts a full merge
deletion-vectors.bitmap64                     false               new vectors have 64 bits; existing ones stay
deletion-vector.index-file.target-size        2 mb                size beyond which a file of vectors is
                                                                  closed, unless it is a bucket's
============================================  ==================  ========================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from app.errors import UnsupportedFormatError
from app.options.reading import INT32_MAX, OptionReader

# Length of bounds that are not cut.
ALL: Final = -1

_TARGET_WITH_KEY: Final = 128 << 20
_TARGET_WITHOUT_KEY: Final = 256 << 20
_TRUNCATE: Final = re.compile(r"truncate\((\d{1,9})\)", re.ASCII)
_COMPRESSIONS: Final = {
    "zstd": "zstd",
    "snappy": "snappy",
    "gzip": "gzip",
    "lz4": "lz4",
    "brotli": "brotli",
    "none": "none",
    "uncompressed": "none",
    "null": "none",
}

_MANIFEST_BYTES: Final = 8 << 20
_MERGE_MIN_COUNT: Final = 30
_FULL_MERGE_BYTES: Final = 16 << 20

_VECTORS_BYTES: Final = 2 << 20


@dataclass(frozen=True, slots=True)
class StatisticsMode:
    """Statistics of a column.

    ``characters`` is the length of string bounds, :data:`ALL` for whole strings, None for no bounds.
    """

    nulls: bool = False
    characters: int | None = None


@dataclass(frozen=True, slots=True)
class DataFileOptions:
    """Options for writing data files."""

    compression: str
    compression_level: int
    target_bytes: int
    prefix: str
    # Mode of columns without their own.
    statistics: StatisticsMode
    column_statistics: Mapping[str, StatisticsMode]
    # Number of leading columns that get statistics; None for all.
    counted_columns: int | None
    dense: bool
    sequence_fields: tuple[str, ...]
    # True if the version with the lowest sequence fields wins.
    descending: bool

    @classmethod
    def parse(cls, options: Mapping[str, str], *, has_key: bool) -> Self:
        """Parse the options of a table."""
        reader = OptionReader(options, given=True)
        written = options.get("file.compression", "zstd").strip().lower()
        if written not in _COMPRESSIONS:
            raise UnsupportedFormatError(f"file.compression={written} is not written: use the engine")
        counted = reader.integer("metadata.stats-keep-first-n-columns", most=INT32_MAX, special=ALL)
        own = {
            name.removeprefix("fields.").removesuffix(".stats-mode"): statistics_mode(name, value)
            for name, value in options.items()
            if name.startswith("fields.") and name.endswith(".stats-mode")
        }
        fields = (name.strip() for name in options.get("sequence.field", "").split(","))
        order = options.get("sequence.field.sort-order", "ascending").strip().lower()
        return cls(
            _COMPRESSIONS[written],
            reader.integer("file.compression.zstd-level", most=22) or 1,
            reader.size("target-file-size", _TARGET_WITH_KEY if has_key else _TARGET_WITHOUT_KEY),
            options.get("data-file.prefix", "data-"),
            statistics_mode("metadata.stats-mode", options.get("metadata.stats-mode", "truncate(16)")),
            own,
            None if counted in (None, ALL) else counted,
            reader.boolean("metadata.stats-dense-store", default=True),
            tuple(name for name in fields if name),
            order == "descending",
        )

    def mode(self, name: str, at: int) -> StatisticsMode:
        """Return the statistics of a column, by its name and position."""
        if self.counted_columns is not None and at >= self.counted_columns:
            return StatisticsMode()
        return self.column_statistics.get(name, self.statistics)


def statistics_mode(name: str, text: str) -> StatisticsMode:
    """Parse a mode."""
    written = text.strip().lower()
    if written in ("none", "counts", "full"):
        return StatisticsMode(nulls=written != "none", characters=ALL if written == "full" else None)
    match = _TRUNCATE.fullmatch(written)
    if match is None:
        raise UnsupportedFormatError(f"{name} must be none, counts, full or truncate(16), found {text!r:.50}")
    return StatisticsMode(nulls=True, characters=int(match[1]))


@dataclass(frozen=True, slots=True)
class ManifestOptions:
    """Options for writing manifests."""

    compression: str = "zstd"
    target_bytes: int = _MANIFEST_BYTES
    merge_min_count: int = _MERGE_MIN_COUNT
    full_merge_bytes: int = _FULL_MERGE_BYTES

    @classmethod
    def of(cls, table: str, options: Mapping[str, str]) -> Self:
        """Parse the options of a table."""
        manifest_format = options.get("manifest.format", "avro").strip().lower()
        if manifest_format != "avro":
            raise UnsupportedFormatError(
                f"table {table} has manifest.format={manifest_format}, and only Avro is written here: use "
                f"the engine instead"
            )
        reader = OptionReader(options, given=False)
        count = reader.integer("manifest.merge-min-count", most=INT32_MAX)
        return cls(
            compression=options.get("manifest.compression", "zstd").strip().lower(),
            target_bytes=reader.size("manifest.target-file-size", _MANIFEST_BYTES),
            merge_min_count=_MERGE_MIN_COUNT if count is None else count,
            full_merge_bytes=reader.size("manifest.full-compaction-threshold-size", _FULL_MERGE_BYTES),
        )


@dataclass(frozen=True, slots=True)
class VectorOptions:
    """Options for writing deletion vectors."""

    bitmap64: bool = False
    target_bytes: int = _VECTORS_BYTES

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Parse the options of a table."""
        reader = OptionReader(options, given=True)
        return cls(
            reader.boolean("deletion-vectors.bitmap64", default=False),
            reader.size("deletion-vector.index-file.target-size", _VECTORS_BYTES),
        )
