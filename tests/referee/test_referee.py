"""The engine and Spark as the judges of what the service answers; ``python -m tests.referee`` draws more."""

import itertools
import shutil
from pathlib import Path

import pytest

from tests.referee.runs import Court
from tests.referee.trials import Run

pytestmark = pytest.mark.long

CASES = 2_000


@pytest.mark.skipif(
    shutil.which("java") is None or shutil.which("mvn") is None, reason="Java or Maven is missing"
)
def test_readers_get_what_the_engine_reads_and_spark_lets_through(tmp_path: Path) -> None:
    """Seeds are fixed: ``python -m tests.referee --table SEED`` shows a failure again."""
    total = Run()
    with Court.opened(tmp_path) as court:
        for at in itertools.count():
            run, failures = court.run(f"test {at}")
            total.add(run)
            assert not failures, "\n".join(failures)
            if total.cases >= CASES:
                break
    assert 0 < total.left_out < total.files
