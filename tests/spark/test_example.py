"""``examples/read_in_spark.py``, run as its user would."""

import os
from collections.abc import Iterator

import pytest

from tests import notebooks
from tests.example_scripts import EXAMPLES, SAMPLES, output, written_output
from tests.served import serving
from tests.spark.environment import spark_python
from tests.spark.sessions import CLIENT

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    with serving(SAMPLES) as served:
        yield {
            **os.environ,
            "URL": f"http://127.0.0.1:{served.port}",
            "PYTHONPATH": str(CLIENT),
            "PYSPARK_PYTHON": str(spark_python()),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }


def test_the_example_prints_what_stands_in_it(environment: dict[str, str]) -> None:
    printed = output([str(spark_python()), str(EXAMPLES / "read_in_spark.py")], environment)

    assert printed == written_output("read_in_spark.py")


def test_cells_of_the_notebook_print_what_stands_below_them(environment: dict[str, str]) -> None:
    printed = notebooks.outputs(spark_python(), "spark.ipynb", environment)

    assert printed == notebooks.written_outputs("spark.ipynb")
