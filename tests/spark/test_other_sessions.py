"""Sessions that are none of Spark's virtual machine, as those of Spark Connect."""

from __future__ import annotations

import os
import subprocess
from typing import Final

import pytest

from tests.spark.environment import spark_python
from tests.spark.sessions import CLIENT

pytestmark = pytest.mark.spark

PROGRAM: Final = """
from paimon_index import UnsupportedSessionError
from paimon_index.spark import explain, read_table

class Session:
    "Like Spark Connect's, which raises AttributeError for what it does not have."

table = ("http://127.0.0.1:9", "main.shop.sales")
for ask in (
    lambda: read_table(Session(), *table),
    lambda: explain(Session(), *table),
):
    try:
        ask()
    except UnsupportedSessionError as error:
        assert "needs a classic session" in str(error), error
        print("refused")
"""


def test_they_are_refused_in_one_sentence() -> None:
    finished = subprocess.run(  # noqa: S603 - fixed words
        [str(spark_python()), "-c", PROGRAM],
        env=os.environ | {"PYTHONPATH": str(CLIENT)},
        check=False,
        capture_output=True,
        text=True,
    )

    assert finished.stdout.split() == ["refused"] * 2, finished.stderr
