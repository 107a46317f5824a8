from __future__ import annotations

from typing import Any

import pytest

from app.table.live_files import live_files
from app.table.manifest import FileKind, Manifest, ManifestEntry
from tests.table.entries import entry


def names(*manifests: list[ManifestEntry]) -> list[str]:
    merged = live_files([Manifest(tuple(entries), 0) for entries in manifests])
    return [each.file.file_name for each in merged]


def test_files_stay_in_the_order_of_manifests() -> None:
    assert names([entry(file_name="b"), entry(file_name="a")], [entry(file_name="c")]) == ["b", "a", "c"]


def test_a_deleted_file_is_gone_wherever_the_deletion_stands() -> None:
    added, deleted = entry(file_name="a"), entry(FileKind.DELETE, file_name="a")
    assert names([added, entry(file_name="b")], [deleted]) == ["b"]
    assert names([deleted], [added, entry(file_name="b")]) == ["b"]


@pytest.mark.parametrize(
    "difference",
    [
        {"partition": b"other"},
        {"bucket": 1},
        {"level": 1},
        {"file_name": "other"},
        {"extra_files": ("a.index",)},
        {"embedded_index": b"index"},
        {"external_path": "s3://bucket/a"},
    ],
)
def test_only_the_same_identity_is_deleted(difference: dict[str, Any]) -> None:
    assert names([entry(**difference)], [entry(FileKind.DELETE)]) == [entry(**difference).file.file_name]


def test_a_level_upgrade_keeps_the_file_once() -> None:
    upgraded = live_files([Manifest((entry(level=0), entry(FileKind.DELETE, level=0), entry(level=5)), 0)])
    assert [each.file.level for each in upgraded] == [5]


def test_what_is_not_part_of_the_identity_does_not_matter() -> None:
    assert names([entry(row_count=1)], [entry(FileKind.DELETE, row_count=2, schema_id=3)]) == []
