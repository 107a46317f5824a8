"""``python -m tests.fetched``: fetches what tests fetch on first use, while other checks compute.

What cannot be had is left to the tests, which are skipped or fail for the want of it.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Final

import pytest

from tests import azurite, maven
from tests.referee.processes import ENGINES, PYTHONS, jars_of, python_of
from tests.spark.environment import spark_python

_FETCHES: Final[tuple[Callable[[], object], ...]] = (
    spark_python,
    *(partial(jars_of, bundle) for bundle in ENGINES),
    *(partial(python_of, writer) for writer in PYTHONS),
    *(partial(maven.maven_jar, jar) for jar in (maven.ENGINE, maven.ICEBERG_RUNTIME, *maven.HIVE)),
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
