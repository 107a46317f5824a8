"""A Python environment with Spark, made on first use and kept for the next run.

pyspark is not a dependency of the project: it takes 400 MB, and tests that need it run it in a process of
their own. The environment lies in the user's cache directory (``XDG_CACHE_HOME``).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_REQUIREMENTS: Final = (
    *("py4j==0.10.9.9", "pyspark==4.0.5"),
    *("fastavro==1.13.1", "httpx==0.28.1", "numpy==2.4.6", "pandas==2.3.3", "pyarrow==26.0.1"),
    *("pyroaring==1.2.0", "grpcio==1.85.3", "grpcio-status==1.85.3", "googleapis-common-protos==1.76.0"),
)
"""The connector works with pyspark 4.0.x only, and that with pandas below 3; the rest is for our client."""


def spark_python(requirements: Sequence[str] = _REQUIREMENTS) -> Path:
    """The Python interpreter of an environment with these packages."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "paimon-index-tests"
    name = "spark-" + hashlib.sha256(" ".join(requirements).encode()).hexdigest()[:16]
    environment = cache / f"{name}-python{sys.version_info.major}.{sys.version_info.minor}"
    if not environment.exists():
        _make(environment, requirements)
    return environment / "bin" / "python"


def _make(environment: Path, requirements: Sequence[str]) -> None:
    """Installs beside the place and renames, so that nobody meets half an environment."""
    environment.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=environment.parent))
    try:
        _run(sys.executable, "-m", "venv", str(unfinished))
        python = str(unfinished / "bin" / "python")
        _run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements)
        unfinished.rename(environment)
    except OSError:
        # Another test process was first.
        if not environment.exists():
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _run(*command: str) -> None:
    finished = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - fixed words
    assert finished.returncode == 0, finished.stderr
