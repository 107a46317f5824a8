"""Which aggregates follow from those of settled and of open files, whatever service has told the settled."""

import os
import subprocess
from typing import Final

import pytest

from tests.spark.environment import spark_python
from tests.spark.sessions import CLIENT

pytestmark = pytest.mark.spark

PROGRAM: Final = """
from types import SimpleNamespace
from paimon_index.spark.aggregating import _has_partial_results

schema = SimpleNamespace(fields=[SimpleNamespace(name="n", type="INT")])
for function in ("count", "count_distinct", "min", "max", "sum"):
    print(function, _has_partial_results({"function": function, "column": "n"}, schema))
"""


def test_distinct_values_of_parts_do_not_add_up() -> None:
    ran = subprocess.run(  # noqa: S603 - our own
        [spark_python(), "-c", PROGRAM],
        env=os.environ | {"PYTHONPATH": str(CLIENT)},
        capture_output=True,
        text=True,
        check=True,
    )

    expected = {"count": True, "count_distinct": False, "min": True, "max": True, "sum": True}
    assert ran.stdout.split("\n") == [*(f"{name} {is_so}" for name, is_so in expected.items()), ""]
