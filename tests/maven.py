"""Jars of Maven Central, copied once to the user's cache directory and kept there for the next run."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests import downloads
from tests.environments import cache_directory, one_at_a_time

ICEBERG_RUNTIME: Final = "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0"
"""Iceberg in Spark: the newest release for Spark 4.0, which the engine's connector needs."""
ENGINE: Final = "org.apache.paimon:paimon-bundle:1.4.2"
"""The engine itself, in the newest release that Maven Central has."""
HDFS: Final = (
    *("org.apache.hadoop:hadoop-client-minicluster:3.3.6", "org.apache.hadoop:hadoop-client-api:3.3.6"),
    *("org.apache.hadoop:hadoop-client-runtime:3.3.6", "commons-logging:commons-logging:1.2"),
    *("ch.qos.reload4j:reload4j:1.2.22", "org.slf4j:slf4j-api:1.7.36"),
)
"""Name node and data node, with what they log by."""
_COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"


def maven_jar(artifact: str) -> Path:
    """The jar of ``group:name:version``; the test is skipped where Maven has no way to get it."""
    _, name, version = artifact.split(":")
    jar = cache_directory() / f"{name}-{version}.jar"
    if not jar.exists():
        with one_at_a_time(jar):
            fetched = jar.exists() or _fetch(artifact, jar)
        if not fetched:
            pytest.skip(f"{artifact} cannot be had from Maven Central here")
    return jar


def _fetch(artifact: str, jar: Path) -> bool:
    downloads.Terminal.show(f"Downloads {artifact} once, into {jar.parent}")
    copy = ["mvn", "-B", _COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={jar.parent}"]
    return downloads.run(copy) == 0
