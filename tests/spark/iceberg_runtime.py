"""Iceberg's runtime for Spark, as Maven Central has it, made once and kept for the next run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

_VERSION: Final = "1.11.0"
_ARTIFACT: Final = f"org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:{_VERSION}"
_NAME: Final = f"iceberg-spark-runtime-4.0_2.13-{_VERSION}.jar"
"""The newest release for Spark 4.0, which the engine's connector needs."""


def iceberg_runtime() -> Path:
    """The jar."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "paimon-index-tests"
    jar = cache / _NAME
    if not jar.exists():
        words = [f"-Dartifact={_ARTIFACT}", f"-DoutputDirectory={cache}"]
        found = subprocess.run(  # noqa: S603 - fixed words
            ["mvn", "-q", "-B", "dependency:copy", *words],  # noqa: S607
            check=False,
            capture_output=True,
        )
        if found.returncode:
            pytest.skip(f"{_ARTIFACT} cannot be had from Maven Central here")
    return jar
