"""The server under load, over storage that fails: a soak of a few seconds."""

from pathlib import Path

import pytest

from benchmarks.soak.callers import MIB, run


@pytest.mark.long
def test_no_answer_is_wrong_while_storage_fails_and_snapshots_land(tmp_path: Path) -> None:
    report = run(tmp_path, seconds=8, callers=16, limit=640 * MIB, share=0.05, copies=1)

    assert report.wrong == []
    assert report.statuses[500] == 0
    assert report.peak < report.limit
    assert report.statuses[200] > 10
    assert report.landed > 5
    assert sum(report.storage.values()) > report.storage["requests"]
