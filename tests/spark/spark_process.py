"""Runs Spark for tests: reads one JSON request a line from standard input, answers with one JSON line each.

This file runs in the environment with pyspark, so it imports nothing of the project but the client's reader.

======================================== ==================================================================
request                                  answer
======================================== ==================================================================
``{"session": zone, "conf": {...}}``     ``{"session": number}``
``{"in": number, "sql": statement}``     ``{"rows": [JSON text of a row, ...]}``, NULLs written out
``{"in": number, "exactly": [sql]}``     ``{"rows": [[at, JSON text of a row], ...]}``, of the statement
                                         at that place, with timestamps to the microsecond
``{"in": number, "read": [arguments]}``  the same of ``paimon_index.spark.read_table(spark, **arguments)``
                                         where keys of ``in_lists`` are a list, or the SQL text of a DataFrame
``{"in": number, "typed": [...]}``        the same of SQL, or of ``paimon_index.spark.aggregate`` with
                                         arguments, with one more row: the names and types of the columns
``{"in": number, "load": [{...}]}``      the same of the data source: ``table``, its ``options``, and a
                                         condition ``where`` of the query, or null
``{"in": number, "view": arguments}``    ``{"rows": []}``; what ``read_table`` gives is the view ``read``
``{"in": number, "explain": arguments}`` ``{"rows": [line, ...]}``, as ``paimon_index.spark.explain`` prints
``{"in": number, "register": name}``      ``{"rows": []}``; the session has a function that is always true
``{"in": number, "conditions": [...]}``   ``{"rows": [[condition, predicate, [truth of each row]], ...]}``
                                         of ``columns`` (names, types), ``rows`` (SQL), and ``where``: texts
                                         or a ``column`` and what it ``equals``; Spark has refused those
                                         that are missing
``{"in": number, "files": statement}``   ``{"rows": [count]}``, files that the connector plans for a query
======================================== ==================================================================

What Spark or the reader refuses is answered with ``{"error": message}``, the exception's name in front.
Arguments: the connector's jar, or nothing for a Spark without it; other jars; the warehouse directory; a
directory for Spark's own files.
"""

import contextlib
import functools
import io
import json
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, functions

from paimon_index.catalog import SchemaColumn
from paimon_index.requests import TableName
from paimon_index.spark import aggregate, explain, read_table, register
from paimon_index.spark.conditions import read_condition


def main() -> None:
    # Spark and its virtual machine print as they like, which must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    first = _start(*sys.argv[1:])
    sessions: list[SparkSession] = []
    for line in sys.stdin:
        _serve(json.loads(line), first, sessions, answers)
    first.stop()


def _start(connector: str, more_jars: str, warehouse: str, scratch: str) -> SparkSession:
    paimon = {
        "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
        "spark.sql.catalog.paimon": "org.apache.paimon.spark.SparkCatalog",
        "spark.sql.catalog.paimon.warehouse": f"file:{warehouse}",
        "spark.sql.defaultCatalog": "paimon",
    }
    settings = {
        **(paimon if connector else {}),
        "spark.jars": ",".join(filter(None, (connector, more_jars))),
        "spark.sql.jsonGenerator.ignoreNullFields": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{scratch}/default",
        "spark.local.dir": f"{scratch}/local",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={scratch} -Duser.timezone=UTC",
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("paimon-index tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _serve(
    request: dict[str, Any], first: SparkSession, sessions: list[SparkSession], answers: TextIO
) -> None:
    try:
        if "session" in request:
            session = first.newSession()
            session.conf.set("spark.sql.session.timeZone", request["session"])
            for key, value in request["conf"].items():
                session.conf.set(key, value)
            register(session)
            sessions.append(session)
            answer: dict[str, Any] = {"session": len(sessions) - 1}
        else:
            answer = {"rows": _rows(sessions[request["in"]], request)}
    except Exception as error:  # noqa: BLE001 - whatever Spark says goes to the test
        answer = {"error": f"{type(error).__name__}: {error}"}
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _rows(session: SparkSession, request: dict[str, Any]) -> list[Any]:  # noqa: C901 - one table
    match request:
        case {"sql": statement}:
            return list(session.sql(statement).toJSON().collect())
        case {"exactly": statements}:
            return _exactly([session.sql(statement) for statement in statements])
        case {"read": all_arguments}:
            return _exactly([read_table(session, **_given(session, each)) for each in all_arguments])
        case {"typed": asked}:
            return _typed(
                [session.sql(each) if isinstance(each, str) else aggregate(session, **each) for each in asked]
            )
        case {"load": asked}:
            return _exactly([_loaded(session, **each) for each in asked])
        case {"view": arguments}:
            read_table(session, **arguments).createOrReplaceTempView("read")
            return []
        case {"explain": arguments}:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                explain(session, **_given(session, arguments))
            return printed.getvalue().splitlines()
        case {"register": name}:
            session.udf.register(name, lambda *_: True, "boolean")
            return []
        case {"conditions": {"columns": columns, "rows": rows, "where": wheres}}:
            return list(_conditions(session, columns, session.sql(rows), wheres))
        case {"files": statement}:
            return [_planned_files(session.sql(statement))]
    raise ValueError(f"unknown request {request}")


def _given(session: SparkSession, arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments of our reader, which takes DataFrames as well."""
    lists = arguments.get("in_lists")
    if not isinstance(lists, dict):
        return arguments
    keys = {name: session.sql(each) if isinstance(each, str) else each for name, each in lists.items()}
    return {**arguments, "in_lists": keys}


def _planned_files(rows: DataFrame) -> int:
    """Return what the connector's metrics tell once the query has run."""
    rows.collect()
    left, found = [rows._jdf.queryExecution().executedPlan()], 0  # noqa: SLF001 - no other door
    while left:
        node = left.pop()
        metric = node.metrics().get("resultedTableFiles")
        found += metric.get().value() if metric.isDefined() else 0
        children = node.children().iterator()
        while children.hasNext():
            left.append(children.next())
        if node.getClass().getSimpleName() == "AdaptiveSparkPlanExec":
            left.append(node.executedPlan())
    return int(found)


def _conditions(
    session: SparkSession, columns: list[list[str]], rows: DataFrame, wheres: list[Any]
) -> Iterator[list[Any]]:
    fields = [
        SchemaColumn(at, name, written, nullable=True, description=None)
        for at, (name, written) in enumerate(columns)
    ]
    table = TableName("main", "reading", "conditions")
    shown = rows.select([_with_length(*column) for column in columns]).alias(table.table).cache()
    for given in wheres:
        where = given if isinstance(given, str) else functions.col(given["column"]) == given["equals"]
        try:
            condition = read_condition(session, fields, where, table)
            test = functions.expr(where) if isinstance(where, str) else where
            found = shown.select(functions.coalesce(test, functions.lit(False))).collect()  # noqa: FBT003
        except PySparkException:
            continue
        predicate = None if condition.predicate is None else json.dumps(condition.predicate)
        yield [given, predicate, [row[0] for row in found]]


def _with_length(name: str, written: Any) -> Column:
    column = functions.col(name)
    if not str(written).startswith("CHAR"):
        return column
    return column.alias(name, metadata={"__CHAR_VARCHAR_TYPE_STRING": written.lower()})


def _loaded(session: SparkSession, table: str, options: dict[str, str], where: str | None) -> DataFrame:
    rows = session.read.format("paimon_index").options(**options).load(table)
    return rows if where is None else rows.where(where)


def _typed(frames: list[DataFrame]) -> list[list[Any]]:
    columns = [[position, rows.schema.simpleString()] for position, rows in enumerate(frames)]
    return _exactly(frames) + columns


def _exactly(frames: list[DataFrame]) -> list[list[Any]]:
    """Rows as JSON, whose timestamps Spark would otherwise cut to milliseconds; all of them in one job."""
    options = {
        "ignoreNullFields": "false",
        "timestampFormat": "yyyy-MM-dd HH:mm:ss.SSSSSSXXX",
        "timestampNTZFormat": "yyyy-MM-dd HH:mm:ss.SSSSSS",
    }
    written = [
        rows.select(functions.lit(position), functions.to_json(functions.struct("*"), options))
        for position, rows in enumerate(frames)
    ]
    return [list(row) for row in functools.reduce(DataFrame.unionAll, written).collect()]


if __name__ == "__main__":
    main()
