"""Plans of random tables by random conditions, beside the rows; ``make fuzz`` tries many more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.proof.pairs import Run, check_table
from tests.proof.replicas import Replicas

TABLES = 50
CONDITIONS = 40
SHARES = 2


@pytest.fixture(scope="module")
def warehouses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Replicas]]:
    root = tmp_path_factory.mktemp("warehouses")
    with Replicas.serving(root) as replicas:
        yield root, replicas


@pytest.mark.parametrize("share", range(SHARES))
def test_no_row_is_lost_and_every_form_is_one_answer(warehouses: tuple[Path, Replicas], share: int) -> None:
    """Seeds are fixed: ``python -m tests.proof --table SEED --only NUMBER`` shows a failure again."""
    root, replicas = warehouses
    total = Run()
    for at in range(share, TABLES, SHARES):
        run, errors = check_table(f"test {at}", root, f"t{at}", CONDITIONS, replicas)
        total.add(run)
        if errors:
            raise errors[0]
    # Every step of the planner has been met.
    assert {
        "partition",
        "bucket",
        "statistics",
        "global_index",
        "file_index",
        "deletion_vector",
    } <= total.skips.keys()
