# ruff: noqa: INP001, T201 - a program of its own, in no package, that reports by printing
"""Holds the wheels to their pages: what a newcomer installs and copies works.

``make wheels-check`` builds both wheels, installs each in an environment with nothing else, by public names
and these wheels alone, and runs the examples of docs/library.md, client/README.md and, where Java is, the one
of README.md that reads a table in Spark. The extra ``jobs`` has to resolve, and its command to start.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from pathlib import Path
from socket import create_server

ROOT = Path(__file__).resolve().parent.parent
SESSION = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
"""
TRIES = 300


def main() -> None:
    """Checks; raises where something fails."""
    with tempfile.TemporaryDirectory(prefix="paimon-index-wheels-") as made:
        work = Path(made)
        for project in (ROOT, ROOT / "client"):
            run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", made, str(project))
        service = next(work.glob("paimon_index-*.whl"))
        client = next(work.glob("paimon_index_client-*.whl"))
        of_service = environment(work / "service", str(service))
        run_examples(of_service, ROOT / "docs" / "library.md")
        with create_server(("127.0.0.1", 0)) as free:
            url = f"http://127.0.0.1:{free.getsockname()[1]}"
        command = of_service.with_name("paimon-index")
        warehouse = ROOT / "demo" / "warehouse"
        serve = [str(command), "serve", "--warehouse", f"main={warehouse}", "--port", url.rpartition(":")[2]]
        with subprocess.Popen(serve, env=bare()) as served:  # noqa: S603 - ours
            try:
                wait_until_ready(served, url)
                run_examples(
                    environment(work / "client", f"{client}[pandas]"), ROOT / "client" / "README.md", url
                )
                if shutil.which("java"):
                    of_jobs = environment(work / "jobs", str(client), f"{service}[jobs]")
                    run_examples(of_jobs, ROOT / "README.md", url, SESSION)
                    audit = (
                        "job",
                        "audit",
                        "demo.visits",
                        "--warehouse",
                        str(warehouse),
                        "--master",
                        "local[1]",
                    )
                    run(str(of_jobs.with_name("paimon-index")), *audit)
                else:
                    print("Java is missing: nothing was tried in Spark")
            finally:
                served.terminate()
    print("every check passed")


def environment(directory: Path, *requirements: str) -> Path:
    """The Python of a new environment with these packages and what they declare."""
    started = time.monotonic()
    venv.create(directory, with_pip=True)
    python = directory / "bin" / "python"
    wheels = str(directory.parent)
    pip = (str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "--find-links", wheels, *requirements)
    print(f"installed {[Path(each).name for each in requirements]} in {time.monotonic() - started:.0f} s")
    return python


def run_examples(python: Path, page: Path, url: str = "", before: str = "") -> None:
    """Runs the Python examples of a page one after the other, from a clone, against a service."""
    text = re.sub(r"http://(localhost|127\.0\.0\.1):8080", url, page.read_text()) if url else page.read_text()
    examples = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    if not examples:
        raise SystemExit(f"FAILED: {page} has no examples")
    run(str(python), "-P", "-W", "error::DeprecationWarning:__main__", "-c", "\n".join([before, *examples]))
    print(f"{len(examples)} examples of {page.relative_to(ROOT)} ran")


def run(*command: str) -> None:
    """Runs a program in the clone, with nothing of this one's environment for Python."""
    print("$", *command[:6])
    subprocess.run(command, check=True, cwd=ROOT, env=bare())  # noqa: S603 - ours


def bare() -> dict[str, str]:
    """Environment variables without Python's and ours."""
    ours = ("PYTHON", "PYSPARK", "SPARK", "PAIMON_INDEX", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def wait_until_ready(served: subprocess.Popen[bytes], url: str) -> None:
    """Waits until a service is ready."""
    for _ in range(TRIES):
        try:
            urllib.request.urlopen(f"{url}/health/ready", timeout=5).close()  # noqa: S310 - ours
        except OSError:
            if served.poll() is not None:
                raise SystemExit("FAILED: the service ended") from None
            time.sleep(0.2)
        else:
            return
    raise SystemExit("FAILED: the service is not ready")


if __name__ == "__main__":
    main()
