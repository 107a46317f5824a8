"""``examples/read_in_spark.py``, run as its user would."""

from __future__ import annotations

import os

import pytest

from tests.example_scripts import EXAMPLES, SAMPLES, output, written_output
from tests.served import serving
from tests.spark.environment import spark_python
from tests.spark.sessions import CLIENT

pytestmark = pytest.mark.spark


def test_the_example_prints_what_stands_in_it() -> None:
    python = str(spark_python())
    with serving(SAMPLES) as served:
        environment = {
            **os.environ,
            "URL": f"http://127.0.0.1:{served.port}",
            "PYTHONPATH": str(CLIENT),
            "PYSPARK_PYTHON": python,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        printed = output([python, str(EXAMPLES / "read_in_spark.py")], environment)

    assert printed == written_output("read_in_spark.py")
