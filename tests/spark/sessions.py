"""Sessions of a real Spark with the Paimon connector."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from tests.line_process import LineProcess
from tests.spark.environment import spark_python

CONNECTOR: Final = os.environ.get("PAIMON_SPARK_CONNECTOR", "")
"""The jar of the engine's connector for Spark 4.0; without it, tests marked ``connector`` are skipped."""
CLIENT: Final = Path(__file__).resolve().parents[2] / "client"
_PROGRAM: Final = Path(__file__).with_name("spark_process.py")


class SparkError(Exception):
    """Spark refused a statement."""


class Spark:
    """One running Spark, shared by all sessions."""

    def __init__(self, process: LineProcess, warehouse: Path) -> None:
        self.warehouse = warehouse
        self._process = process

    @classmethod
    def start(cls, directory: Path, *more_jars: Path) -> Self:
        """Start Spark over a new warehouse inside of ``directory``.

        It has the connector, where there is one, and other jars.
        """
        warehouse, scratch = directory / "warehouse", directory / "scratch"
        warehouse.mkdir()
        scratch.mkdir()
        python = str(spark_python())
        command = [python, str(_PROGRAM), CONNECTOR, ",".join(map(str, more_jars)), str(warehouse)]
        own = {"PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(CLIENT)}
        process = LineProcess.start([*command, str(scratch)], scratch, os.environ | own)
        return cls(process, warehouse)

    def session(self, time_zone: str = "UTC", conf: Mapping[str, str] | None = None) -> SparkSession:
        """Return a new session with a time zone (``spark.sql.session.timeZone``) and other settings."""
        return SparkSession(self, self.ask({"session": time_zone, "conf": dict(conf or {})})["session"])

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request and its answer, see ``spark_process.py``.

        Raises SparkError if Spark refuses it.
        """
        answer = self._process.ask(json.dumps(request))
        if "error" in answer:
            raise SparkError(answer["error"])
        return answer

    def stop(self) -> None:
        self._process.stop()


@dataclass(frozen=True, slots=True)
class SparkSession:
    """A session: its own time zone, settings and current database."""

    spark: Spark
    number: int

    def sql(self, statement: str) -> list[dict[str, Any]]:
        """Run a statement.

        Returns:
            The rows as Spark's JSON writer puts them: timestamps have milliseconds only, so ask for
            ``unix_micros(ts)`` where the rest matters.

        Raises SparkError if Spark refuses the statement.
        """
        answer = self.spark.ask({"in": self.number, "sql": statement})
        return [json.loads(row) for row in answer["rows"]]

    def exactly(self, *statements: str) -> list[list[str]]:
        """Rows of each statement as sorted JSON texts, with timestamps to the microsecond.

        Raises SparkError if Spark refuses a statement.
        """
        return _by_position(self.spark.ask({"in": self.number, "exactly": statements}), len(statements))

    def read(self, url: str, table: str, *all_arguments: dict[str, Any]) -> list[list[str]]:
        """Rows that our reader gives with each of some arguments, in the form of :meth:`exactly`.

        Raises SparkError if the reader or Spark refuses.
        """
        asked = [{"url": url, "table": table, **arguments} for arguments in all_arguments]
        return _by_position(self.spark.ask({"in": self.number, "read": asked}), len(asked))

    def typed(self, *statements: str) -> list[list[str]]:
        """As :meth:`exactly`, with the columns and their types.

        Raises SparkError if Spark refuses a statement.
        """
        return _by_position(self.spark.ask({"in": self.number, "typed": statements}), len(statements))

    def aggregate(self, url: str, table: str, *all_arguments: dict[str, Any]) -> list[list[str]]:
        """Return what our aggregation gives with each of some arguments, in the form of :meth:`typed`.

        Raises SparkError if the aggregation or Spark refuses.
        """
        asked = [{"url": url, "table": table, **arguments} for arguments in all_arguments]
        return _by_position(self.spark.ask({"in": self.number, "typed": asked}), len(asked))

    def conditions(
        self, columns: Sequence[tuple[str, Any]], rows: str, wheres: Sequence[str | dict[str, Any]]
    ) -> list[tuple[str, str | None, list[bool]]]:
        """Conditions with their predicates (JSON), and whether each of some rows meets them.

        Conditions that Spark refuses are left out.
        """
        asked = {"columns": columns, "rows": rows, "where": wheres}
        return [tuple(each) for each in self.spark.ask({"in": self.number, "conditions": asked})["rows"]]

    def load(self, table: str, *asked: tuple[dict[str, str], str | None]) -> list[list[str]]:
        """Rows that the data source gives with some options, and that meet a condition of the query.

        Raises SparkError if the source or Spark refuses.
        """
        loads = [{"table": table, "options": options, "where": where} for options, where in asked]
        return _by_position(self.spark.ask({"in": self.number, "load": loads}), len(asked))

    def view(self, url: str, table: str, **arguments: Any) -> None:
        """Make what our reader gives the view ``read``.

        Raises SparkError if the reader refuses.
        """
        self.spark.ask({"in": self.number, "view": {"url": url, "table": table, **arguments}})

    def explain(self, url: str, table: str, **arguments: Any) -> list[str]:
        asked = {"url": url, "table": table, **arguments}
        lines: list[str] = self.spark.ask({"in": self.number, "explain": asked})["rows"]
        return lines

    def register_true(self, name: str) -> None:
        """Give the session a function that is true of everything."""
        self.spark.ask({"in": self.number, "register": name})

    def planned_files(self, statement: str) -> int:
        """How many data files the connector plans for a query."""
        (count,) = self.spark.ask({"in": self.number, "files": statement})["rows"]
        return int(count)


def _by_position(answer: dict[str, Any], count: int) -> list[list[str]]:
    found: list[list[str]] = [[] for _ in range(count)]
    for position, row in answer["rows"]:
        found[position].append(row)
    return [sorted(rows) for rows in found]
