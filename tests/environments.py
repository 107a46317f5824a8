"""Python environments of their own, made on first use and kept for the next run.

They hold what the project does not depend on, or cannot beside what it depends on; tests run it in processes.
The environments lie in the user's cache directory (``XDG_CACHE_HOME``).
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


def python_with(name: str, requirements: Sequence[str]) -> Path:
    """The Python interpreter of an environment with these packages."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "paimon-index-tests"
    called = f"{name}-{hashlib.sha256(' '.join(requirements).encode()).hexdigest()[:16]}"
    environment = cache / f"{called}-python{sys.version_info.major}.{sys.version_info.minor}"
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
