"""``examples/catalog.sql`` in a real Spark with the settings beside it."""

from __future__ import annotations

import os

import pytest

from tests.example_scripts import EXAMPLES, SAMPLES, output, written_output
from tests.jvm.sql_sessions import built_catalog
from tests.served import serving
from tests.spark.environment import spark_python
from tests.spark.sessions import CONNECTOR

pytestmark = [pytest.mark.jvm, pytest.mark.shared]

PRUNED = '/pruned-snapshot",status="200"} '


def test_the_example_prints_what_stands_in_it_and_is_planned_by_the_service() -> None:
    python = spark_python()
    with serving(SAMPLES) as served:
        command = [
            str(python.with_name("spark-sql")),
            *("--properties-file", str(EXAMPLES / "catalog.conf"), "-f", str(EXAMPLES / "catalog.sql")),
            *("--jars", f"{CONNECTOR},{built_catalog()}"),
            *("--conf", f"spark.sql.catalog.main.paimon-index.uri=http://127.0.0.1:{served.port}"),
            *("--conf", "spark.ui.enabled=false"),
        ]
        printed = output(
            command, {**os.environ, "PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}
        )
        metrics = served.client.get("/metrics").text

    assert printed == written_output("catalog.sql")
    (planned,) = [line for line in metrics.splitlines() if "requests_total" in line and PRUNED in line]
    assert float(planned.rpartition(" ")[2]) >= 4
