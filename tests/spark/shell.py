"""Spark's own shell of SQL, with the settings that a page or a file shows."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.example_scripts import EXAMPLES, output
from tests.spark.environment import spark_python

ROOT = EXAMPLES.parent


def spark_sql(options: Sequence[str], jars: Sequence[Path | str] = ()) -> str:
    """What ``spark-sql`` prints with some options, run in the clone."""
    python = spark_python()
    command = [
        str(python.with_name("spark-sql")),
        *options,
        *([f"--jars={','.join(map(str, jars))}"] if jars else []),
        "--conf=spark.ui.enabled=false",
        # Without tables of its own it leaves no files in the clone.
        "--conf=spark.sql.catalogImplementation=in-memory",
    ]
    return output(command, {**os.environ, "PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"})


def settings_on(page: str) -> dict[str, str]:
    """The settings of Spark in the first code block of a page that has some, by their names."""
    blocks = re.findall(r"^```\w*\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    block = next(each for each in blocks if each.startswith("spark."))
    return dict(line.split(maxsplit=1) for line in block.splitlines())


def options_of(settings: Mapping[str, str]) -> list[str]:
    """The shell's options that set them."""
    return [f"--conf={name}={value}" for name, value in settings.items()]
