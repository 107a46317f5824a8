"""``make demo SQL=1``: what it prints of a real Spark session on the sample warehouse."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.sessions import CONNECTOR

ROOT = Path(__file__).parents[2]


def demo(connector: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, str(ROOT / "demo" / "demo.py"), "--once", "--sql", connector]
    return subprocess.run(program, check=False, capture_output=True, text=True)  # noqa: S603 - our own program


@pytest.mark.jvm
@pytest.mark.connector
@pytest.mark.long
def test_the_same_sql_reads_fewer_files_through_the_service() -> None:
    shown = demo(str(CONNECTOR))

    assert shown.returncode == 0, shown.stdout
    assert [line.split()[:-2] for line in shown.stdout.splitlines() if line.endswith(" ms")] == [
        ["connector", "alone", "10", "files"],
        ["through", "the", "service", "3", "files"],
        ["connector", "alone", "10", "files"],
        ["through", "the", "service", "1", "files"],
        ["connector", "alone", "10", "files"],
        ["through", "the", "service", "5", "files"],
    ]


@pytest.mark.jvm
def test_without_a_connector_it_says_where_to_get_one() -> None:
    shown = demo("")

    assert shown.returncode == 1
    assert "offers it for download: paimon-spark-4.0_2.13-VERSION.jar" in shown.stderr
