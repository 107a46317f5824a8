"""Index manifest entries as the golden documents write them."""

from __future__ import annotations

from typing import Any

from app.table.manifests.index_manifest import IndexEntry
from app.table.manifests.manifest_entry import FileKind
from app.types.index_files import DeletionRange, GlobalIndex, IndexFileMeta


def golden_entry(recorded: dict[str, Any]) -> IndexEntry:
    """An entry of ``files.json`` or ``combine.json``."""
    ranges = tuple(
        DeletionRange(each["data_file"], each["offset"], each["length"], each["cardinality"])
        for each in recorded["dv_ranges"] or ()
    )
    file = IndexFileMeta(
        index_type=recorded["index_type"],
        file_name=recorded["file_name"],
        file_size=recorded["file_size"],
        row_count=recorded["row_count"],
        ranges=ranges,
        external_path=recorded["external_path"],
        global_index=_global_index(recorded["global_index"]),
    )
    kind, partition = FileKind[recorded["kind"]], bytes.fromhex(recorded["partition_hex"])
    return IndexEntry(kind, partition, recorded["bucket"], file)


def _global_index(recorded: dict[str, Any] | None) -> GlobalIndex | None:
    if recorded is None:
        return None
    extra, metadata = recorded["extra_field_ids"], recorded["index_meta_hex"]
    return GlobalIndex(
        recorded["row_range_start"],
        recorded["row_range_end"],
        recorded["index_field_id"],
        None if extra is None else tuple(extra),
        None if metadata is None else bytes.fromhex(metadata),
    )
