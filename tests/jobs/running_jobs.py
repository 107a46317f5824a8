"""Jobs on a real local Spark, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final, Self

from app import errors
from tests.spark.environment import spark_python

_ROOT: Final = Path(__file__).resolve().parents[2]
_PROGRAM: Final = Path(__file__).with_name("job_process.py")


def job_environment() -> dict[str, str]:
    """Environment variables of a process that runs jobs: Spark's, this project, and what it needs."""
    python = str(spark_python())
    found = (str(_ROOT), str(_ROOT / "client"), sysconfig.get_path("purelib"))
    return os.environ | {
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join(found),
    }


class Jobs:
    """One running Spark."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    @classmethod
    def start(cls, scratch: Path, master: str = "local[2]") -> Self:
        """Starts Spark with a directory for its own files, and says where it runs."""
        process = subprocess.Popen(  # noqa: S603 - fixed words
            [str(spark_python()), str(_PROGRAM), str(scratch), master],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if "PAIMON_INDEX_JOB_LOG" not in os.environ else None,
            text=True,
            cwd=scratch,
            env=job_environment(),
        )
        return cls(process)

    def run(self, job: str, warehouse: Path, table: str, **arguments: Any) -> dict[str, Any]:
        """Runs a job; its report.

        Raises:
            PaimonIndexError: the job refuses, with the exception that it raised.
        """
        answer = self.ask({"job": job, "warehouse": str(warehouse), "table": table, "arguments": arguments})
        if "error" in answer:
            kind = getattr(errors, answer["kind"])
            raise (
                kind(answer["error"], column="") if kind is errors.IndexWriteError else kind(answer["error"])
            )
        return answer

    def configure(self, settings: Mapping[str, str]) -> None:
        """Sets what the session goes by."""
        self.ask({"conf": dict(settings)})

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request and its answer, see ``job_process.py``."""
        _pipe(self._process.stdin).write(json.dumps(request) + "\n")
        _pipe(self._process.stdin).flush()
        line = _pipe(self._process.stdout).readline()
        assert line, f"Spark ended with code {self._process.wait()} at {request}"
        answer: dict[str, Any] = json.loads(line)
        return answer

    @property
    def pid(self) -> int:
        """Of the process, whose children are Spark's."""
        return self._process.pid

    def stop(self) -> None:
        """Ends the process and waits for it."""
        _pipe(self._process.stdin).close()
        self._process.wait()
        _pipe(self._process.stdout).close()


def _pipe(end: IO[str] | None) -> IO[str]:
    assert end is not None, "the process was started with pipes"
    return end
