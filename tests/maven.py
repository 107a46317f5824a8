"""Jars of Maven Central, copied once to the user's cache directory and kept there for the next run."""

from pathlib import Path
from typing import Final

import pytest

from tests import downloads
from tests.environments import cache_directory, one_at_a_time

ICEBERG_RUNTIME: Final = "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0"
"""Iceberg in Spark: the newest release for Spark 4.0, which the engine's connector needs."""
ENGINE: Final = "org.apache.paimon:paimon-bundle:1.4.2"
"""The engine itself, in the newest release that Maven Central has."""
HIVE: Final = (
    *("org.apache.hive:hive-exec:2.3.9", "org.antlr:antlr-runtime:3.5.2", "org.apache.derby:derby:10.14.2.0"),
    *("org.datanucleus:datanucleus-core:4.1.17", "org.datanucleus:datanucleus-api-jdo:4.2.4"),
    *("org.datanucleus:datanucleus-rdbms:4.1.19", "org.datanucleus:javax.jdo:3.2.0-m3"),
    *("javax.transaction:transaction-api:1.1", "javax.servlet:javax.servlet-api:3.1.0"),
)
"""A metastore of Hive within the process that asks it, with a database of its own."""
_COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"


def maven_jar(artifact: str) -> Path:
    """Return the jar of ``group:name:version``; the test is skipped where Maven has no way to get it."""
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
