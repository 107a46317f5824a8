"""Processes that write and read: the Java engine and pypaimon in several releases, and Spark with our jobs.

Each answers a line of JSON with a line. They are started when they are first asked, and end with the block.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.environments import python_with
from tests.jobs.running_jobs import Jobs
from tests.maven import maven_jar

READER: Final = "paimon-bundle:1.4.2"
"""The engine that is asked what a table has."""
ENGINES: Final = (READER, "paimon-bundle:1.3.1")
EVOLUTION: Final = "evolution:1.4.2"
"""The engine that builds global indexes, updates columns and compacts tables with data evolution."""
PYTHONS: Final = (
    *("pypaimon:1.3.1", "pypaimon:1.4.2", "pypaimon:2.0.0", "pypaimon:2.1.0"),
    "pypaimon-rust:0.4.0",
)

_PATIENCE_SECONDS: Final = 60
_HERE: Final = Path(__file__).parent
_HADOOP: Final = (
    *("org.apache.hadoop:hadoop-client-api:3.3.6", "org.apache.hadoop:hadoop-client-runtime:3.3.6"),
    *("commons-logging:commons-logging:1.2", "org.slf4j:slf4j-api:1.7.36"),
)
_OPENED: Final = ("--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED")
_ZONES: Final = {"pypaimon:1.3.1": "Asia/Tokyo", "pypaimon:1.4.2": "America/St_Johns"}
"""Clocks of writers' machines, which show in what these releases write."""


class Processes:
    """Those of one warehouse."""

    def __init__(self, warehouse: Path, scratch: Path, zone: str | None = None) -> None:
        self.warehouse = warehouse
        self._scratch = scratch
        self._zone = zone
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._jobs: Jobs | None = None

    @classmethod
    @contextmanager
    def of(cls, directory: Path, zone: str | None = None) -> Iterator[Processes]:
        """Those of a new warehouse, with Python on machines of ``zone``, by default each of its own."""
        warehouse, scratch = directory / "warehouse", directory / "scratch"
        warehouse.mkdir()
        scratch.mkdir()
        processes = cls(warehouse, scratch, zone)
        try:
            yield processes
        finally:
            processes.stop()

    def ask(self, writer: str, **request: Any) -> dict[str, Any]:
        """Return what a writer answers; ``error`` in it says why it does not."""
        if writer not in self._running:
            self._running[writer] = self._start(writer)
        process = self._running[writer]
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        if not select.select([process.stdout], [], [], _PATIENCE_SECONDS)[0]:
            # Some options have the engine read nothing for ever.
            self._running.pop(writer).kill()
            process.wait()
            return {"error": "no answer"}
        line = process.stdout.readline()
        assert line, f"{writer} ended with code {process.wait()} at {request}"
        answer: dict[str, Any] = json.loads(line)
        return answer

    @property
    def jobs(self) -> Jobs:
        """A running Spark, which has our jobs."""
        if self._jobs is None:
            self._jobs = Jobs.start(self._scratch)
        return self._jobs

    def stop(self) -> None:
        for process in self._running.values():
            process.communicate()
        if self._jobs is not None:
            self._jobs.stop()

    def _evolution(self, path: str) -> tuple[str, str]:
        """Return the class path and the name of a program of two files, which java alone does not compile."""
        sources = (str(_HERE / "Engine.java"), str(_HERE / "Evolution.java"))
        compiled = self._scratch / "evolution"
        subprocess.run(["javac", "-nowarn", "-cp", path, "-d", str(compiled), *sources], check=True)  # noqa: S603, S607 - our own programs
        return f"{compiled}:{path}", "Evolution"

    def _start(self, writer: str) -> subprocess.Popen[str]:
        name = writer.partition(":")[0]
        environment = dict(os.environ)
        if name.startswith("pypaimon"):
            command = [str(python_of(writer)), str(_HERE / "pypaimon_writer.py"), name]
            environment["TZ"] = self._zone or _ZONES.get(writer, "UTC")
        else:
            bundle = READER if writer == EVOLUTION else writer
            path = ":".join(map(str, jars_of(bundle)))
            command = ["java", "-Xmx1g", "-XX:TieredStopAtLevel=1", f"-Djava.io.tmpdir={self._scratch}"]
            command += [*_OPENED, "-Duser.timezone=UTC", "-cp"]
            command += [*self._evolution(path)] if writer == EVOLUTION else [path, str(_HERE / "Engine.java")]
        return subprocess.Popen(  # noqa: S603 - our own programs
            [*command, str(self.warehouse)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if "REFEREE_LOG" in os.environ else subprocess.DEVNULL,
            text=True,
            env=environment,
        )


def python_of(writer: str) -> Path:
    """Return the interpreter of a release of pypaimon or pypaimon-rust."""
    name, _, release = writer.partition(":")
    packages: tuple[str, ...] = (f"{name}=={release}", "backports.zstd")
    # Tables of pypaimon-rust do not tell their columns in the way of pypaimon.
    packages += () if name == "pypaimon" else ("pypaimon==2.1.0", "pyarrow==19.0.1")
    return python_with(f"{name}-{release}", packages)


def jars_of(bundle: str) -> list[Path]:
    """Return the class path of a release of the engine."""
    return [maven_jar(each) for each in (f"org.apache.paimon:{bundle}", *_HADOOP)]
