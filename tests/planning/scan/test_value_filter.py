"""Statistics of FLOAT and DOUBLE, which some writers leave NaN out of, beside indexes, which know NaN."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from app.file_index import container
from app.file_index.index_kinds import RANGE_BITMAP
from app.table.manifests.manifest_entry import ManifestEntry
from app.types import DataField, parse_type
from app.types.binary_row.row import serialize_row
from tests.planning.copied_tables import open_service
from tests.planning.made_tables import MadeTable, names_of, payload, statistics
from tests.table.entries import entry

ID: Final = DataField(0, "id", parse_type("INT NOT NULL"))
RATIO: Final = DataField(1, "ratio", parse_type("DOUBLE"))


def written(name: str, ratios: Sequence[float], index: bytes | None = None) -> ManifestEntry:
    """A Parquet file of level 0 with the keys 1 and 2."""
    low, high = serialize_row([1], [ID.type]), serialize_row([2], [ID.type])
    return entry(
        file_name=f"{name}.parquet",
        row_count=len(ratios),
        min_key=low,
        max_key=high,
        embedded_index=index,
        **statistics({RATIO: ratios}),
    )


INDEXED: Final = container.write({"ratio": [("range-bitmap", payload(RANGE_BITMAP, [2.0, 3.0], RATIO))]})
FILES: Final = (
    written("small", [1.0, 5.0]),
    written("large", [50.0, 500.0]),
    written("indexed", [2.0, 3.0], INDEXED),
    written("also_small", [2.0, 4.0]),
)
TOLD: Final = "files are kept only since their writer may have left NaN out"


@pytest.mark.parametrize(
    ("condition", "kept", "for_nan"),
    [
        ("ratio > 100", ["small", "large", "also_small"], 2),
        ("NOT (ratio <= 100)", ["small", "large", "also_small"], 2),
        ("ratio >= double('NaN')", ["small", "large", "indexed", "also_small"], None),
        ("ratio < 0", [], 0),
        ("ratio = 7", [], 0),
        ("id = 1 AND ratio BETWEEN 6 AND 7", [], 0),
    ],
)
def test_a_maximum_says_nothing_of_nan_and_an_index_does(
    tmp_path: Path, condition: str, kept: list[str], for_nan: int | None
) -> None:
    table = MadeTable.make(tmp_path, [ID, RATIO])
    table.commit(FILES)
    service = open_service(tmp_path)

    plan = table.plan(service, condition)

    assert names_of(plan.files) == [f"{name}.parquet" for name in kept]
    if for_nan is not None:
        told = [warning for warning in plan.warnings if TOLD in warning]
        assert [warning.split(" ", 1)[0] for warning in told] == ([str(for_nan)] if for_nan else [])
        assert all("warehouse golden, name it in PAIMON_INDEX_ENGINE_WRITES_ONLY" in each for each in told)
    service.close()


def test_where_only_the_engine_writes_the_maximum_counts(tmp_path: Path) -> None:
    table = MadeTable.make(tmp_path, [ID, RATIO])
    table.commit(FILES)
    service = open_service(tmp_path, engine_writes_only=True)

    plan = table.plan(service, "ratio > 100")

    assert names_of(plan.files) == ["large.parquet"]
    assert plan.warnings == ()
    assert all(not file.residual for file in table.plan(service, "ratio < 1000").files)
    service.close()


def test_no_row_is_proven_to_lie_below_a_literal(tmp_path: Path) -> None:
    table = MadeTable.make(tmp_path, [ID, RATIO])
    table.commit(FILES)
    service = open_service(tmp_path)

    assert [file.residual for file in table.plan(service, "ratio < 1000").files] == [True, True, False, True]
    assert len(table.plan(service, "ratio < 1000", limit=3).files) == 4
    # What lies above a minimum does so with NaN, too.
    assert not any(file.residual for file in table.plan(service, "ratio > 0").files)
    service.close()


def test_files_that_merge_with_one_that_matches_are_not_kept_for_nan(tmp_path: Path) -> None:
    table = MadeTable.make(tmp_path, [ID, RATIO], primary_key=[ID], options={"bucket": "1"})
    table.commit([written("small", [1.0, 5.0]), written("large", [50.0, 500.0])])
    service = open_service(tmp_path)

    assert len(table.plan(service, "ratio > 100").files) == 2
    assert table.plan(service, "ratio > 100").warnings == ()
    assert table.plan(service, "ratio > 1000").warnings[0].startswith("2 files")
    service.close()
