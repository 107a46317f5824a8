"""Older snapshots asked through Iceberg, beside the rows in every schema that a client may mean."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.proof.replicas import WAREHOUSES
from tests.proof.time_travel import check_time_travel

TABLES = 25


def test_a_row_is_kept_that_anybody_takes_and_proven_if_everybody_does(tmp_path: Path) -> None:
    for name in WAREHOUSES:
        (tmp_path / name).mkdir()

    counts = sum(
        (check_time_travel(f"test {at}", tmp_path, f"t{at}") for at in range(TABLES)), Counter[str]()
    )

    assert min(counts[each] for each in ("left out", "proven", "of more than one meaning")) > TABLES // 2
