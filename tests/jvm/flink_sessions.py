"""Sessions of a real Flink with two catalogs of a warehouse, planned by the engine and by the service."""

import functools
import os
import shutil
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

from tests.jvm.sql_sessions import built_jar
from tests.line_process import LineProcess

_PROJECT: Final = Path(__file__).with_name("flink")
_OPENED: Final = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.util", "java.lang")]
_ADDRESSES: Final = {
    "jobmanager.rpc.address": "127.0.0.1",
    "rest.address": "127.0.0.1",
    "rest.bind-address": "127.0.0.1",
    "jobmanager.bind-host": "127.0.0.1",
    "taskmanager.bind-host": "127.0.0.1",
    "taskmanager.host": "127.0.0.1",
}
_COMPARISONS: Final = {
    "EQUAL": "=",
    "NOT_EQUAL": "<>",
    "LESS_THAN": "<",
    "LESS_OR_EQUAL": "<=",
    "GREATER_THAN": ">",
    "GREATER_OR_EQUAL": ">=",
}
_PATTERNS: Final = {"STARTS_WITH": "{}%", "ENDS_WITH": "%{}", "CONTAINS": "%{}%"}


class FlinkError(Exception):
    """Flink refused a statement."""


@functools.cache
def _classpath() -> str:
    written = _PROJECT / "target" / "classpath.txt"
    goals = ("package", "dependency:build-classpath", f"-Dmdep.outputFile={written}")
    subprocess.run(  # noqa: S603 - fixed words
        ["mvn", "-q", "-B", "-f", str(_PROJECT / "pom.xml"), *goals],  # noqa: S607
        check=True,
        capture_output=True,
    )
    return written.read_text().strip()


def program(connector: str, directory: Path, *options: str) -> list[str]:
    """Java with what ``lib/`` of a Flink with this connector has; the main class and its arguments follow."""
    flink = _classpath()
    jar = directory / built_jar().name
    if not jar.exists():
        # Whoever builds it anew does so while this Flink has it open.
        shutil.copy(built_jar(), jar)
    own = (
        _PROJECT / "target" / "classes",
        _PROJECT / "target" / "connectors" / f"paimon-flink-1.20-{connector}.jar",
        jar,
    )
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return ["java", "-Xmx1g", *_OPENED, quiet, *options, "-cp", ":".join([*map(str, own), flink])]


class Flink:
    """A session: in a cluster within its own process, or in one that runs elsewhere."""

    def __init__(self, process: LineProcess) -> None:
        self._process = process

    @classmethod
    def start(
        cls, connector: str, directory: Path, mode: str = "batch", conf: Mapping[str, str] | None = None
    ) -> Self:
        """Start it with files of its own in ``directory``; without ``conf`` it has its own cluster."""
        settings = {"parallelism.default": "1", "rest.port": "0", "table.local-time-zone": "UTC"}
        arguments = [f"{name}={value}" for name, value in {**settings, **_ADDRESSES, **(conf or {})}.items()]
        with (directory / "session.log").open("ab") as log:
            command = [
                *program(connector, directory, "-Duser.timezone=UTC"),
                "FlinkQueries",
                mode,
                *arguments,
            ]
            process = LineProcess.start(command, directory, log=log)
        return cls(process)

    def catalogs(self, warehouse: Path, uri: str, options: Mapping[str, str] | None = None) -> None:
        """Make the catalogs ``plain`` and ``indexed``, which waits for the service on a busy machine."""
        plain = {"type": "paimon", "warehouse": str(warehouse)}
        indexed = {
            "metastore": "paimon-index",
            "paimon-index.uri": uri,
            "paimon-index.timeout": "60 s",
            **(options or {}),
        }
        for name, given in (("plain", plain), ("indexed", {**plain, **indexed})):
            listed = ", ".join(f"'{option}' = '{value}'" for option, value in given.items())
            self.sql(f"CREATE CATALOG {name} WITH ({listed})")

    def sql(self, statement: str) -> list[str]:
        """Sorted rows as text.

        Raises FlinkError if Flink refuses it.
        """
        rows: list[str] = self._ask("sql", statement)["rows"]
        return rows

    def first(self, query: str) -> str:
        """Return the first row of a query, which is cancelled then.

        Raises FlinkError if Flink refuses it.
        """
        (row,) = self._ask("first", query)["rows"]
        return str(row)

    def compare(self, query: str) -> dict[str, Any]:
        """Run a query with each catalog for ``{c}``: ``rows`` and ``equal``, or ``only`` if just ours fails.

        Raises FlinkError if the query fails without the service as well.
        """
        return self._ask("compare", query)

    def outcomes(self, port: int | None = None) -> Counter[str]:
        """Return scans by what became of them, in this session's process or in that with a port of JMX."""
        return Counter(self._ask("outcomes", "" if port is None else str(port)))

    def _ask(self, word: str, about: str) -> dict[str, Any]:
        answer = self._process.ask(f"{word}\t{about}".rstrip("\t").replace("\n", " "))
        if "error" in answer:
            raise FlinkError(answer["error"])
        return answer

    def stop(self) -> None:
        self._process.stop()


class Cluster:
    """A job manager and a task manager, each in a JVM of its own.

    Attributes:
        rest_port: where sessions send their jobs.
        jmx_port: where the job manager's counters are read.
    """

    def __init__(self, connector: str, directory: Path) -> None:
        self.rest_port, self.jmx_port, rpc_port = _free_ports(3)
        self._connector = connector
        self._directory = directory
        conf = {
            **_ADDRESSES,
            "rest.port": self.rest_port,
            "jobmanager.rpc.port": rpc_port,
            "jobmanager.memory.process.size": "1g",
            "taskmanager.numberOfTaskSlots": 2,
            # The scripts of the distribution work these out.
            "taskmanager.cpu.cores": 2.0,
            "taskmanager.memory.framework.heap.size": "128m",
            "taskmanager.memory.framework.off-heap.size": "128m",
            "taskmanager.memory.task.heap.size": "256m",
            "taskmanager.memory.task.off-heap.size": "0m",
            "taskmanager.memory.network.min": "32m",
            "taskmanager.memory.network.max": "32m",
            "taskmanager.memory.managed.size": "128m",
            "taskmanager.memory.jvm-metaspace.size": "256m",
            "taskmanager.memory.jvm-overhead.min": "192m",
            "taskmanager.memory.jvm-overhead.max": "192m",
            # A task manager that dies is missed at once, and its tasks run again.
            "heartbeat.interval": "200 ms",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 9,
            "restart-strategy.fixed-delay.delay": "0 s",
        }
        written = "".join(f"{name}: {value}\n" for name, value in conf.items())
        (directory / "config.yaml").write_text(written)

    def job_manager(self, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        jmx = [
            f"-Dcom.sun.management.jmxremote.port={self.jmx_port}",
            "-Dcom.sun.management.jmxremote.host=127.0.0.1",
            "-Djava.rmi.server.hostname=127.0.0.1",
            "-Dcom.sun.management.jmxremote.authenticate=false",
            "-Dcom.sun.management.jmxremote.ssl=false",
        ]
        main = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
        return self._start("job-manager", main, jmx, environment)

    def task_manager(self) -> subprocess.Popen[bytes]:
        return self._start("task-manager", "org.apache.flink.runtime.taskexecutor.TaskManagerRunner", [], {})

    def _start(
        self, name: str, main: str, options: list[str], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        java = [*program(self._connector, self._directory, "-Duser.timezone=UTC", *options), main]
        with (self._directory / f"{name}.log").open("ab") as log:
            return subprocess.Popen(  # noqa: S603 - fixed words
                [*java, "--configDir", str(self._directory)],
                stdout=log,
                stderr=log,
                cwd=self._directory,
                env={**os.environ, **environment},
            )

    def session(self) -> Flink:
        conf = {"execution.target": "remote", "rest.port": str(self.rest_port)}
        return Flink.start(self._connector, self._directory, conf=conf)


@contextmanager
def running(*processes: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def condition(predicate: Mapping[str, Any]) -> str | None:
    """Return a predicate of the engine as Flink's SQL; None where that has other rows."""
    if predicate["kind"] == "COMPOUND":
        children = [condition(child) for child in predicate["children"]]
        joined = f" {predicate['function']} ".join(f"({child})" for child in children)
        return None if None in children else joined
    column, function = predicate["transform"]["fieldRef"], predicate["function"]
    name, written = f"`{column['name']}`", predicate.get("literals") or []
    literals = [_literal(value, column["type"]) for value in written]
    match function:
        case "IS_NULL" | "IS_NOT_NULL":
            return f"{name} {function.replace('_', ' ')}"
        case "IN":
            return f"{name} IN ({', '.join(literals)})"
        case "BETWEEN" | "NOT_BETWEEN":
            return f"{name} {function.replace('_', ' ')} {literals[0]} AND {literals[1]}"
        case _ if function in _PATTERNS:
            text = str(written[0])
            # Flink pushes patterns down that have no escapes.
            plain = not set(text) & set("%_\\")
            return f"{name} LIKE {_quoted(_PATTERNS[function].format(text))}" if plain else None
        case _:
            return f"{name} {_COMPARISONS[function]} {literals[0]}"


def _literal(value: Any, data_type: str) -> str:
    named = data_type.removesuffix(" NOT NULL")
    if named.startswith("TIMESTAMP") and named.endswith(" WITH LOCAL TIME ZONE"):
        named = named.removesuffix(" WITH LOCAL TIME ZONE").replace("TIMESTAMP", "TIMESTAMP_LTZ")
        # Flink casts a clock, in a session in UTC.
        value = None if value is None else str(value).removesuffix("Z")
    if value is None:
        return f"CAST(NULL AS {named})"
    if named.startswith(("BINARY", "VARBINARY", "BYTES")):
        return f"X'{value}'"
    if named.startswith(("STRING", "CHAR", "VARCHAR")):
        return _quoted(value)
    return str(value).upper() if isinstance(value, bool) else f"CAST({_quoted(str(value))} AS {named})"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
