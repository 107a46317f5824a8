"""Sessions of a real Spark with two catalogs of a warehouse, planned by the engine and by the service."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from tests.line_process import LineProcess
from tests.spark.environment import spark_python
from tests.spark.sessions import CONNECTOR, SparkError

_MODULE: Final = Path(__file__).resolve().parents[2] / "jvm"
_PROGRAM: Final = Path(__file__).with_name("sql_process.py")


@dataclass(frozen=True, slots=True)
class Compared:
    """What one query was with each of the catalogs.

    Attributes:
        rows: how many the engine alone reads.
        equal: whether both read the same rows, as multisets.
        files: how many data files each of them planned, the engine first.
        more: names of files that only the other one planned.
        error: what Spark said, where it refused the query with both.
        only: the catalog that refused the query while the other one answered.
    """

    query: str
    rows: int = 0
    equal: bool = True
    files: Sequence[int] = (0, 0)
    more: Sequence[str] = ()
    error: str | None = None
    only: str | None = None

    def is_right(self) -> bool:
        """Rows of the engine from no other files than the engine's, or refused by the engine."""
        return self.equal and not self.more and self.only != "indexed"


class SqlSpark:
    """One running Spark, shared by all sessions."""

    def __init__(self, process: LineProcess, directory: Path) -> None:
        self.directory = directory
        self._process = process

    @classmethod
    def start(cls, directory: Path) -> Self:
        """Build the jar, and start Spark with files of its own in ``directory``."""
        subprocess.run(  # noqa: S603 - fixed words
            ["mvn", "-q", "-B", "-f", str(_MODULE / "pom.xml"), "package", "-DskipTests"],  # noqa: S607
            check=True,
            capture_output=True,
        )
        (built,) = (_MODULE / "target").glob("paimon-index-catalog-*.jar")
        # Whoever builds it anew does so while this Spark has it open.
        jar = shutil.copy(built, directory)
        python = str(spark_python())
        command = [python, str(_PROGRAM), f"{CONNECTOR},{jar}", str(directory)]
        own = {"PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}
        process = LineProcess.start(command, directory, os.environ | own)
        return cls(process, directory)

    def session(
        self, warehouse: Path, uri: str, zone: str = "UTC", conf: Mapping[str, str] | None = None
    ) -> SqlSession:
        """Return a session with the catalogs ``plain`` and ``indexed``, which asks the service at ``uri``.

        It waits for the service however busy this machine is, unless ``conf`` has another time-out.
        """
        catalogs = {
            **_catalog("plain", warehouse),
            **_catalog("indexed", warehouse),
            "spark.sql.catalog.indexed.metastore": "paimon-index",
            "spark.sql.catalog.indexed.paimon-index.uri": uri,
            "spark.sql.catalog.indexed.paimon-index.timeout": "60 s",
        }
        return SqlSession(self, self.ask({"session": zone, "conf": {**catalogs, **(conf or {})}})["session"])

    def at_once(self, *lists: tuple[SqlSession, Sequence[str]]) -> list[list[Any]]:
        """Run lists of statements, a thread each: ``rows`` or ``error``, ``began`` and ``ended`` of each."""
        asked = [(session.number, list(statements)) for session, statements in lists]
        threads: list[list[Any]] = self.ask({"threads": asked})["threads"]
        return threads

    def outcomes(self) -> dict[str, int]:
        """Return counts of scans by what became of them, since Spark started."""
        counts: dict[str, int] = self.ask({"outcomes": True})["outcomes"]
        return counts

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request and its answer, see ``sql_process.py``.

        Raises SparkError if Spark refuses it.
        """
        answer = self._process.ask(json.dumps(request))
        if "error" in answer:
            raise SparkError(answer["error"])
        return answer

    def stop(self) -> None:
        self._process.stop()


@dataclass(frozen=True, slots=True)
class SqlSession:
    """A session: its own catalogs, time zone and settings."""

    spark: SqlSpark
    number: int

    def sql(self, *statements: str) -> list[list[str]]:
        """Rows of each statement as sorted JSON texts.

        Raises SparkError if Spark refuses a statement.
        """
        rows: list[list[str]] = self.spark.ask({"in": self.number, "sql": statements})["rows"]
        return rows

    def compare(self, *queries: str, outcomes: Counter[str] | None = None) -> list[Compared]:
        """Run queries with each catalog in the place of ``{c}``; count what became of the scans."""
        answer = self.spark.ask({"in": self.number, "compare": queries})
        if outcomes is not None:
            outcomes.update(answer["outcomes"])
        return [Compared(query, **each) for query, each in zip(queries, answer["compared"], strict=True)]

    def analyze(self, query: str) -> None:
        """Have each catalog analyze a query, for :meth:`run_analyzed`."""
        self.spark.ask({"in": self.number, "frame": query})

    def run_analyzed(self) -> list[list[str]]:
        """Rows of the query that was analyzed last, with each catalog."""
        rows: list[list[str]] = self.spark.ask({"again": True})["rows"]
        return rows


def _catalog(name: str, warehouse: Path) -> Mapping[str, str]:
    prefix = f"spark.sql.catalog.{name}"
    return {prefix: "org.apache.paimon.spark.SparkCatalog", f"{prefix}.warehouse": f"file:{warehouse}"}


@dataclass(frozen=True, slots=True)
class Query:
    """One question to both catalogs.

    Attributes:
        table: with its database.
        predicate: as the engine serializes it.
        options: of the session, such as ``scan.snapshot-id``.
    """

    table: str
    predicate: Mapping[str, Any]
    options: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Created:
    """A table of five files that the engine's catalog creates, with a city ``middle-0`` to ``middle-4`` each.

    Attributes:
        table: with its database.
        database: properties of the database, if that is new.
        options: of the table.
    """

    table: str
    database: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)


@functools.cache
def built_jar() -> Path:
    _classpath()
    (jar,) = (_MODULE / "target").glob("paimon-index-catalog-*.jar")
    return jar


def engine(release: str | None) -> str:
    """Return the class path of the catalog and its tests beside a release of the engine.

    None: that of its tests.
    """
    if release is None:
        return _classpath()
    jar = _MODULE / "target" / "bundles" / f"paimon-{release}.jar"
    return ":".join(
        str(jar) if Path(entry).name.startswith("paimon-bundle-") else entry
        for entry in _classpath().split(":")
    )


@functools.cache
def _classpath() -> str:
    goals = ("package", "-DskipTests", "dependency:build-classpath", "-Dmdep.includeScope=test")
    written = _MODULE / "target" / "classpath.txt"
    subprocess.run(  # noqa: S603 - fixed words
        ["mvn", "-q", "-B", "-f", str(_MODULE / "pom.xml"), *goals, f"-Dmdep.outputFile={written}"],  # noqa: S607
        check=True,
        capture_output=True,
    )
    own = (_MODULE / "target" / "classes", _MODULE / "target" / "test-classes")
    return ":".join([*map(str, own), written.read_text().strip()])


def write_indexed(warehouse: Path, release: str) -> None:
    """Have a release of the engine write the table ``demo.indexed``."""
    program = ["java", "-cp", engine(release), "org.paimonindex.WrittenTable", str(warehouse)]
    subprocess.run(program, check=True, capture_output=True)  # noqa: S603 - fixed words


def compare(
    warehouse: Path,
    uri: str,
    queries: Sequence[Query | Created],
    options: Mapping[str, str] | None = None,
    *,
    release: str | None = None,
    jars: Sequence[Path] = (),
) -> list[dict[str, Any]]:
    """For each query: ``rows``, ``rows_equal``, ``files``, ``engine_files`` and ``outcome``, or ``error``.

    Tables that are created come first; of each: its ``location``.
    """
    asked = "".join(json.dumps(_line(each)) + "\n" for each in queries)
    classes = ":".join([engine(release), *map(str, jars)])
    java = ["-Duser.timezone=UTC", "-Dderby.stream.error.file=/dev/null"]
    program = ["java", *java, "-cp", classes, "org.paimonindex.Compare"]
    settings = [f"{name}={value}" for name, value in (options or {}).items()]
    finished = subprocess.run(  # noqa: S603 - fixed words
        [*program, str(warehouse), uri, *settings], input=asked, check=False, capture_output=True, text=True
    )
    assert finished.returncode == 0, finished.stderr[-4000:]
    return [json.loads(line) for line in finished.stdout.splitlines()]


def _line(asked: Query | Created) -> dict[str, object]:
    if isinstance(asked, Created):
        return {"create": asked.table, "database": asked.database, "options": asked.options}
    return {"table": asked.table, "predicate": asked.predicate, "options": asked.options}
