"""Table options that say how manifests are written, and when they are merged.

======================================== ========= ==================================================
option                                   default   meaning
======================================== ========= ==================================================
manifest.format                          avro      no other one is written
manifest.compression                     zstd      of blocks: ``zstd``, ``deflate``, ``snappy``, ``null``
manifest.target-file-size                8 mb      a manifest that has grown so large is closed
manifest.merge-min-count                 30        so many small manifests at the end are merged
manifest.full-compaction-threshold-size  16 mb     once manifests that are small, or remove files, take so
                                                   much together, all entries of removed files go away
======================================== ========= ==================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from app.errors import UnsupportedFormatError
from app.options.reading import INT32_MAX, OptionReader

_TARGET_BYTES: Final = 8 << 20
_MERGE_MIN_COUNT: Final = 30
_FULL_MERGE_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class ManifestOptions:
    """How manifests are written.

    Attributes:
        target_bytes: a manifest that has grown so large is closed.
        merge_min_count: so many small manifests at the end of a list are merged.
        full_merge_bytes: once manifests that are small, or remove files, take so many bytes together, all
            entries of removed files go away.
    """

    compression: str = "zstd"
    target_bytes: int = _TARGET_BYTES
    merge_min_count: int = _MERGE_MIN_COUNT
    full_merge_bytes: int = _FULL_MERGE_BYTES

    @classmethod
    def of(cls, table: str, options: Mapping[str, str]) -> Self:
        """The options of a table."""
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
            target_bytes=reader.size("manifest.target-file-size", _TARGET_BYTES),
            merge_min_count=_MERGE_MIN_COUNT if count is None else count,
            full_merge_bytes=reader.size("manifest.full-compaction-threshold-size", _FULL_MERGE_BYTES),
        )
