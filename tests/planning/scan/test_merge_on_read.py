"""Tables with deletion vectors under ``deletion-vectors.merge-on-read``: level 0 is read, and merges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from app.planning.plan.answers import Plan
from app.planning.service import IndexService
from app.table.manifests.manifest_entry import ManifestEntry
from app.table.manifests.row_statistics import RowStatistics
from app.types import DataField, parse_type
from app.types.binary_row.row import serialize_row
from tests.planning.copied_tables import open_service
from tests.planning.made_tables import MadeTable, names_of, statistics
from tests.table.entries import entry

ID: Final = DataField(0, "id", parse_type("INT NOT NULL"))
SCORE: Final = DataField(1, "score", parse_type("INT"))
VECTORS: Final = {"bucket": "1", "deletion-vectors.enabled": "true"}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[IndexService]:
    opened = open_service(tmp_path)
    yield opened
    opened.close()


def written(name: str, ids: Sequence[int], scores: Sequence[int], level: int) -> ManifestEntry:
    """A file of these rows."""
    low, high = (serialize_row([end(ids)], [ID.type]) for end in (min, max))
    return entry(
        file_name=f"{name}.parquet",
        row_count=len(ids),
        level=level,
        min_key=low,
        max_key=high,
        key_statistics=RowStatistics(low, high, (0,)),
        **statistics({ID: ids, SCORE: scores}),
    )


OLD: Final = written("old", [1, 2, 3], [10, 20, 30], level=5)
FAR: Final = written("far", [7, 8], [70, 80], level=4)
NEW: Final = written("new", [2, 4], [99, 95], level=0)


def plan_of(tmp_path: Path, service: IndexService, options: dict[str, str], condition: str) -> Plan:
    table = MadeTable.make(tmp_path, [ID, SCORE], primary_key=[ID], options=VECTORS | options)
    table.commit([OLD, FAR, NEW])
    return table.plan(service, condition)


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("score = 99", ["old", "new"]),
        # The row of id 2 is 99 now: alone, its file of old would bring 20 back to life.
        ("score = 20", ["old", "new"]),
        ("score = 80", ["far"]),
        ("id = 4", ["new"]),
        ("score = 5", []),
        ("true", ["old", "far", "new"]),
    ],
)
def test_new_files_are_read_with_those_whose_keys_they_may_share(
    tmp_path: Path, service: IndexService, condition: str, kept: list[str]
) -> None:
    plan = plan_of(tmp_path, service, {"deletion-vectors.merge-on-read": "true"}, condition)

    assert sorted(names_of(plan.files)) == sorted(f"{name}.parquet" for name in kept)
    assert plan.summary.files_invisible == 0
    merging = {file.file_name for file in plan.files if not file.raw_convertible}
    assert merging == ({"old.parquet", "new.parquet"} if {"old", "new"} <= set(kept) else set())


def test_a_limit_does_not_count_rows_of_files_that_merge(tmp_path: Path, service: IndexService) -> None:
    table = MadeTable.make(
        tmp_path,
        [ID, SCORE],
        primary_key=[ID],
        options=VECTORS | {"deletion-vectors.merge-on-read": "true"},
    )
    table.commit([OLD, NEW, FAR])

    assert names_of(table.plan(service, limit=2).files) == ["far.parquet"]
    assert len(table.plan(service, limit=3).files) == 3


@pytest.mark.parametrize("options", [{}, {"deletion-vectors.merge-on-read": "false"}])
def test_otherwise_new_files_wait_for_a_compaction(
    tmp_path: Path, service: IndexService, options: dict[str, str]
) -> None:
    plan = plan_of(tmp_path, service, options, "true")

    assert names_of(plan.files) == ["old.parquet", "far.parquet"]
    assert plan.summary.files_invisible == 1
