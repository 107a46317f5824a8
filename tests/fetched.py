"""``python -m tests.fetched``: fetches what tests fetch on first use, while other checks compute.

What cannot be had is left to the tests, which are skipped or fail for the want of it.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Final

import pytest

from tests import azurite, hdfs, maven
from tests.client.environment import pypaimon_python
from tests.referee.processes import ENGINES, PYTHONS, jars_of, python_of
from tests.spark.environment import NEWEST, spark_python
from tests.spark.sessions import CONNECTOR

_FETCHES: Final[tuple[Callable[[], object], ...]] = (
    spark_python,
    partial(spark_python, NEWEST),
    pypaimon_python,
    *(partial(jars_of, bundle) for bundle in ENGINES),
    *(partial(python_of, writer) for writer in PYTHONS),
    *(partial(maven.maven_jar, jar) for jar in (maven.ENGINE, *maven.HIVE, *hdfs.JARS)),
    *((partial(maven.maven_jar, maven.ICEBERG_RUNTIME),) if CONNECTOR else ()),
    azurite.program,
)


def main() -> None:
    for fetch in _FETCHES:
        try:
            fetch()
        except (AssertionError, OSError, pytest.skip.Exception) as error:
            sys.stderr.write(f"{error}\n")


if __name__ == "__main__":
    main()
