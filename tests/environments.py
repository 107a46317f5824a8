"""Python environments of their own, made on first use and kept for the next run.

They hold what the project does not depend on, or cannot beside what it depends on; tests run it in processes.
The environments lie in the user's cache directory (``XDG_CACHE_HOME``).
"""

import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests import downloads


def cache_directory() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "paimon-index-tests"


@contextmanager
def one_at_a_time(place: Path) -> Iterator[None]:
    """Have one process at a time make ``place``; the others wait, say so, and find it there."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.with_name(f".{place.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            downloads.Terminal.show(f"Waits until another process has made {place}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def python_with(name: str, requirements: Sequence[str], sizes: str = "") -> Path:
    """Return the Python interpreter of an environment with these packages."""
    called = f"{name}-{hashlib.sha256(' '.join(requirements).encode()).hexdigest()[:16]}"
    environment = cache_directory() / f"{called}-python{sys.version_info.major}.{sys.version_info.minor}"
    if not environment.exists():
        with one_at_a_time(environment):
            if not environment.exists():
                downloads.Terminal.show(f"Downloads {sizes or name} once, into {cache_directory()}")
                _make(environment, requirements)
    return environment / "bin" / "python"


def _make(environment: Path, requirements: Sequence[str]) -> None:
    """Install beside the place and rename, so that an installation that ends early leaves nothing there.

    It gets no pip of its own, and Python compiles what it imports: to compile all packages takes longer than
    to fetch and unpack them.
    """
    unfinished = Path(tempfile.mkdtemp(dir=environment.parent))
    try:
        _run(sys.executable, "-m", "venv", "--without-pip", str(unfinished))
        python = str(unfinished / "bin" / "python")
        pip = (sys.executable, "-m", "pip", "--python", python, "install", "--no-compile")
        _run(*pip, "--disable-pip-version-check", "--no-input", *requirements)
        unfinished.rename(environment)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _run(*command: str) -> None:
    status = downloads.run(command)
    assert status == 0, f"{' '.join(command)} ended with status {status}: its output stands above"
