"""A server under a real limit stays inside of it while more tables pass through than it can keep."""

from pathlib import Path

import pytest

from benchmarks.soak.tables import MIB, run, write_tables

LIMIT = 352 * MIB


@pytest.mark.long
def test_many_small_tables_pass_through(tmp_path: Path) -> None:
    report = run(write_tables(tmp_path, 120), LIMIT, requests=300, callers=4)

    assert report.faults == []
    assert report.statuses[200] > 150
    assert sum(report.statuses.values()) == 300
    # No answer was lost with its connection.
    assert report.statuses[0] == 0
