"""Runs Spark with the engine's connector and the jar of ``jvm/``: a JSON request a line, and a JSON answer.

This file runs in the environment with pyspark, so it imports nothing of the project. Each session has the
catalog ``plain`` and, over the same warehouse, ``indexed``, which is planned through the service.

============================================= =============================================================
request                                       answer
============================================= =============================================================
``{"session": zone, "conf": {...}}``          ``{"session": number}``
``{"in": number, "sql": [statement]}``        ``{"rows": [[JSON text of a row, ...], ...]}`` of each
``{"in": number, "compare": [query]}``        ``{"compared": [{...}], "outcomes": {...}}``: each query is run
                                              with each catalog in the place of ``{c}``
``{"threads": [[number, [statement]]]}``      ``{"threads": [[{...}, ...], ...]}``, all lists of statements
                                              at the same time: ``rows`` or ``error``, and the moments
                                              (seconds of one clock) when each began and ended
``{"outcomes": true}``                        ``{"outcomes": {...}}``, counts of scans since the start
``{"python": expression}``                    ``{"value": value}`` of an expression about ``spark``
``{"frame": query, "in": number}``            ``{"rows": []}``; the query is analyzed, not run
``{"again": true}``                           its rows: what was analyzed is run, with each catalog
============================================= =============================================================

What Spark refuses is answered with ``{"error": message}``.
Arguments: the jars, separated by commas, and a directory for Spark's own files.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TextIO

from pyspark.sql import DataFrame, SparkSession, functions

CATALOGS = ("plain", "indexed")
_EMPTY = "org.apache.spark.sql.catalyst.optimizer.PropagateEmptyRelation"
_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd HH:mm:ss.SSSSSS",
}


def main() -> None:
    # Spark and its virtual machine print as they like, which must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    first = _start(*sys.argv[1:])
    served = Served(first)
    for line in sys.stdin:
        _serve(json.loads(line), served, answers)
    first.stop()


def _start(jars: str, scratch: str) -> SparkSession:
    settings = {
        "spark.jars": jars,
        "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{scratch}/default",
        "spark.local.dir": f"{scratch}/local",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={scratch} -Duser.timezone=UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Thousands of queries of a few rows each: to compile them takes longer than to run them.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.files.openCostInBytes": "1",
    }
    builder = SparkSession.builder.master("local[2]").appName("paimon-index SQL tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _serve(request: dict[str, Any], served: Served, answers: TextIO) -> None:
    try:
        answer = served.answer(request)
    except Exception as error:  # noqa: BLE001 - whatever Spark says goes to the test
        answer = {"error": _message(error)}
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _message(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:2000]


class Served:
    def __init__(self, first: SparkSession) -> None:
        self._first = first
        self._sessions: list[SparkSession] = []
        self._frames: list[DataFrame] = []

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        match request:
            case {"session": zone, "conf": conf}:
                return {"session": self._session(zone, conf)}
            case {"in": number, "sql": statements}:
                return {"rows": [_rows(self._sessions[number].sql(each)) for each in statements]}
            case {"in": number, "compare": queries}:
                before = _outcomes(self._first)
                compared = _compared(self._sessions[number], queries)
                after = _outcomes(self._first)
                return {
                    "compared": compared,
                    "outcomes": {name: after[name] - before[name] for name in after},
                }
            case {"threads": lists}:
                return {"threads": self._threads(lists)}
            case {"outcomes": True}:
                return {"outcomes": _outcomes(self._first)}
            case {"python": expression}:
                return {"value": eval(expression, {"spark": self._first})}  # noqa: S307 - a line of a page
            case {"in": number, "frame": query}:
                session = self._sessions[number]
                self._frames = [session.sql(query.replace("{c}", catalog)) for catalog in CATALOGS]
                return {"rows": []}
            case {"again": True}:
                return {"rows": [_rows(frame) for frame in self._frames]}
        raise ValueError(f"unknown request {request}")

    def _session(self, zone: str, conf: dict[str, str]) -> int:
        session = self._first.newSession()
        for key, value in {"spark.sql.session.timeZone": zone, **conf}.items():
            session.conf.set(key, value)
        self._sessions.append(session)
        return len(self._sessions) - 1

    def _threads(self, lists: list[tuple[int, list[str]]]) -> list[list[Any]]:
        with ThreadPoolExecutor(len(lists)) as threads:
            runs = [
                threads.submit(
                    lambda session, each: [_timed(session, statement) for statement in each],
                    self._sessions[number],
                    statements,
                )
                for number, statements in lists
            ]
            return [run.result() for run in runs]


def _timed(session: SparkSession, statement: str) -> dict[str, Any]:
    began = time.monotonic()
    try:
        found: dict[str, Any] = {"rows": _rows(session.sql(statement))}
    except Exception as error:  # noqa: BLE001 - whatever Spark says goes to the test
        found = {"error": _message(error)}
    return {**found, "began": began, "ended": time.monotonic()}


def _rows(frame: DataFrame) -> list[str]:
    return sorted(row[0] for row in frame.select(functions.to_json(functions.struct("*"), _JSON)).collect())


def _compared(session: SparkSession, queries: list[str]) -> list[dict[str, Any]]:
    """All queries in two jobs where that can be, and else one at a time."""
    try:
        both = [
            _at_once(session, [query.replace("{c}", catalog) for query in queries]) for catalog in CATALOGS
        ]
    except Exception as error:  # noqa: BLE001 - one of many queries may be refused
        if len(queries) > 1:
            return [compared for query in queries for compared in _compared(session, [query])]
        return [_refused(session, queries[0], _message(error))]
    return [
        {
            "rows": len(plain[0]),
            "equal": plain[0] == indexed[0],
            "files": [len(plain[1]), len(indexed[1])],
            "more": sorted(indexed[1] - plain[1]),
        }
        for plain, indexed in zip(*both, strict=True)
    ]


def _refused(session: SparkSession, query: str, message: str) -> dict[str, Any]:
    refusing = []
    for catalog in CATALOGS:
        try:
            _rows(session.sql(query.replace("{c}", catalog)))
        except Exception:  # noqa: BLE001 - the engine alone may refuse as well
            refusing.append(catalog)
    return {"error": message, "only": refusing[0] if len(refusing) == 1 else None, "equal": bool(refusing)}


def _at_once(session: SparkSession, statements: list[str]) -> list[tuple[list[str], set[str]]]:
    """Rows of each statement, and names of the files that were planned for it."""
    frames = [
        session.sql(statement).select(
            functions.lit(position), functions.to_json(functions.struct("*"), _JSON)
        )
        for position, statement in enumerate(statements)
    ]
    union = functools.reduce(DataFrame.unionAll, frames)
    if len(statements) > 1:
        # Each query keeps its scan, though it may be known to have no rows.
        session.conf.set("spark.sql.optimizer.excludedRules", _EMPTY)
    try:
        found = union.collect()
    finally:
        session.conf.unset("spark.sql.optimizer.excludedRules")
    rows: list[list[str]] = [[] for _ in statements]
    for position, row in found:
        rows[position].append(row)
    scans = list(_leaves(union._jdf.queryExecution().executedPlan()))  # noqa: SLF001 - no other door
    if len(statements) == 1:
        files = [set().union(*map(_files, scans))]
    else:
        assert len(scans) == len(statements), "a query among many has one scan"
        files = [_files(scan) for scan in scans]
    return [(sorted(read), planned) for read, planned in zip(rows, files, strict=True)]


def _leaves(plan: Any) -> Any:
    for number in range(plan.collectLeaves().size()):
        leaf = plan.collectLeaves().apply(number)
        name = leaf.getClass().getSimpleName()
        if name == "AdaptiveSparkPlanExec":
            yield from _leaves(leaf.executedPlan())
        elif name.endswith("QueryStageExec"):
            yield from _leaves(leaf.plan())
        else:
            yield leaf


def _files(leaf: Any) -> set[str]:
    if leaf.getClass().getSimpleName() != "BatchScanExec":
        return set()
    partitions = leaf.inputPartitions()
    found: set[str] = set()
    for number in range(partitions.size()):
        for split in _each(partitions.apply(number).splits()):
            # Splits of system tables have other classes.
            if split.getClass().getSimpleName() == "DataSplit":
                found.update(re.findall(r"fileName: ([^,]+),", split.dataFiles().toString()))
    return found


def _each(found: Any) -> list[Any]:
    return [found.apply(at) for at in range(found.size())] if hasattr(found, "apply") else list(found)


def _outcomes(session: SparkSession) -> dict[str, int]:
    """Return the counters of the jar; zero before a catalog of it was made."""
    java = session._jvm  # noqa: SLF001 - no other door
    server = java.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    loader = java.java.lang.Thread.currentThread().getContextClassLoader()
    # Loading the class registers the counters.
    java.java.lang.Class.forName("org.paimonindex.Scans", True, loader)  # noqa: FBT003 - Java's
    name = java.javax.management.ObjectName("org.paimonindex:type=Scans")
    bean = java.javax.management.JMX.newMXBeanProxy(
        server, name, loader.loadClass("org.paimonindex.ScansMXBean")
    )
    return dict(bean.getOutcomes())


if __name__ == "__main__":
    main()
