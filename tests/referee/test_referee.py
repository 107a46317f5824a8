"""The engine and Spark as the judges of what the service answers; ``python -m tests.referee`` draws more."""

import itertools
import shutil
from pathlib import Path

import pytest

from tests.referee.processes import ENGINES, PYTHONS, READER
from tests.referee.runs import Court
from tests.referee.trials import Run

pytestmark = pytest.mark.long

CASES = 1_500
CASES_OF_MERGED = 200

needs_java = pytest.mark.skipif(
    shutil.which("java") is None or shutil.which("mvn") is None, reason="Java or Maven is missing"
)


@needs_java
def test_readers_get_what_the_engine_reads_and_spark_lets_through(tmp_path: Path) -> None:
    """Seeds are fixed: ``python -m tests.referee --table SEED`` shows a failure again."""
    with Court.opened(tmp_path) as court:
        total = _without_failure(court, CASES)
    assert 0 < total.left_out < total.files


@needs_java
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/St_Johns"])
def test_no_row_is_lost_where_the_engine_has_merged_the_manifests_of_every_writer(
    tmp_path: Path, zone: str
) -> None:
    """``python -m tests.referee --merged ZONE --table SEED`` shows a failure again."""
    with Court.opened(tmp_path, merged_in=zone) as court:
        total = _without_failure(court, CASES_OF_MERGED)
    assert 0 < total.left_out < total.files
    assert all(total.steps[f"{writer} write"] for writer in (*ENGINES, *PYTHONS))
    assert total.steps[f"{READER} merge"] == total.steps[f"{READER} expire"] > 0


def _without_failure(court: Court, cases: int) -> Run:
    total = Run()
    for at in itertools.count():
        run, failures = court.run(f"test {at}")
        total.add(run)
        assert not failures, "\n".join(failures)
        if total.cases >= cases:
            break
    return total
