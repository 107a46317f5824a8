"""Jobs on a real local Spark, in a process of its own."""

import contextlib
import errno
import json
import os
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

from app import errors
from app.planning.request.requests import DeletionsRequest
from tests.copied_tables import open_table
from tests.golden_cases import DATABASE
from tests.line_process import LineProcess
from tests.spark.environment import spark_python
from tests.tables import golden_ref, open_service

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
    def __init__(self, process: LineProcess) -> None:
        self._process = process

    @classmethod
    def start(cls, scratch: Path, master: str = "local[2]") -> Self:
        """Start Spark with a directory for its own files, and say where it runs."""
        command = [str(spark_python()), str(_PROGRAM), str(scratch), master]
        log = subprocess.DEVNULL if "JOB_LOG" not in os.environ else None
        return cls(LineProcess.start(command, scratch, job_environment(), log))

    def run(self, job: str, warehouse: Path | str, table: str, **arguments: Any) -> dict[str, Any]:
        """Run a job; its report.

        Raises PaimonIndexError if the job refuses, with the exception that it raised.
        """
        answer = self.ask({"job": job, "warehouse": str(warehouse), "table": table, "arguments": arguments})
        if "error" in answer:
            kind = getattr(errors, answer["kind"])
            raise (
                kind(answer["error"], column="") if kind is errors.IndexWriteError else kind(answer["error"])
            )
        return answer

    def configure(self, settings: Mapping[str, str]) -> None:
        self.ask({"conf": dict(settings)})

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        return self._process.ask(json.dumps(request))

    @property
    def pid(self) -> int:
        """Of the process, whose children are Spark's."""
        return self._process.pid

    def stop(self) -> None:
        self._process.stop()


_PROCESSES: Final = Path("/proc")


def writing_end(pipe: Path) -> int:
    """Open a pipe once somebody reads it."""
    while True:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise


def holders(path: Path) -> set[int]:
    found = set()
    for descriptor in _PROCESSES.glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if descriptor.readlink() == path:
                found.add(int(descriptor.parts[2]))
    return found


def command(process: int) -> bytes:
    return (_PROCESSES / str(process) / "cmdline").read_bytes()


def parent(process: int) -> int:
    status = (_PROCESSES / str(process) / "status").read_text()
    return int(status.partition("PPid:")[2].split()[0])


def seconds_computed(process: int) -> float:
    stat = (_PROCESSES / str(process) / "stat").read_text()
    # The name of the program stands in parentheses, and may have any characters. See proc_pid_stat(5).
    fields = stat.rpartition(")")[2].split()
    in_user_mode, in_kernel_mode = int(fields[11]), int(fields[12])
    return (in_user_mode + in_kernel_mode) / os.sysconf("SC_CLK_TCK")


def ancestors(process: int) -> Iterator[int]:
    while process > 1:
        yield process
        process = parent(process)


def descendants(process: int) -> Iterator[int]:
    for directory in _PROCESSES.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            other = int(directory.name)
            if other != process and process in ancestors(other):
                yield other


def table(name: str) -> str:
    return f"{DATABASE}.{name}"


def live_names(root: Path, name: str) -> set[str]:
    return {entry.file.file_name for entry in open_table(root, name).entries()}


def deleted(root: Path, name: str) -> dict[str, set[int]]:
    """Return deleted positions by data file, as the service tells them."""
    service = open_service(root)
    answer = service.deletions(golden_ref(name), DeletionsRequest())
    service.close()
    return {each.file_name: set(each.positions or ()) for each in answer.deletions}
