"""``examples/catalog.sql`` in a real Spark: with the settings beside it, and as ``compose.yaml`` has them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.composed import running
from tests.example_scripts import EXAMPLES, SAMPLES, written_output
from tests.jvm.sql_sessions import built_jar
from tests.maven import maven_jar
from tests.served import Served, serving
from tests.spark.sessions import CONNECTOR
from tests.spark.shell import spark_sql

pytestmark = [pytest.mark.jvm, pytest.mark.connector]

SCRIPT: Final = "catalog.sql"
SCANS: Final = 4


# A slow machine is no reason for the engine to plan alone.
PATIENT: Final = "--conf=spark.sql.catalog.main.paimon-index.timeout=60 s"


def printed_by_shell(options: Sequence[str], *jars: Path | str) -> str:
    return spark_sql([*options, PATIENT, "-f", str(EXAMPLES / SCRIPT)], jars)


def scans_planned(service: Served) -> float:
    route = '/pruned-snapshot",status="200"} '
    lines = service.client.get("/metrics").text.splitlines()
    (counted,) = [line for line in lines if "requests_total" in line and route in line]
    return float(counted.rpartition(" ")[2])


def test_the_script_prints_what_stands_in_it_and_is_planned_by_the_service() -> None:
    with serving(SAMPLES) as service:
        url = f"--conf=spark.sql.catalog.main.paimon-index.uri=http://127.0.0.1:{service.port}"
        settings = f"--properties-file={EXAMPLES / 'catalog.conf'}"
        printed = printed_by_shell([settings, url], CONNECTOR, built_jar())
        scans = scans_planned(service)

    assert printed == written_output(SCRIPT)
    assert scans >= SCANS
    assert [each.name for each in SAMPLES.iterdir()] == ["demo.db"], "reading makes no database"


def test_the_shell_of_compose_prints_the_same_from_the_object_store(tmp_path: Path) -> None:
    with running(tmp_path) as services:
        options = services.command("sql")[1:]
        (package,) = [each.partition("=")[2] for each in options if each.startswith("--packages=")]
        # Jars are mounted in the container, and Spark has its own way to Maven Central there.
        kept = [each for each in options if not each.startswith(("--packages=", "--jars="))]
        printed = printed_by_shell(kept, CONNECTOR, built_jar(), maven_jar(package))
        scans = scans_planned(services.index)

    assert printed == written_output(SCRIPT)
    assert scans >= SCANS
