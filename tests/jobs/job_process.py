"""Runs Spark for tests of jobs: reads one JSON request a line from standard input, answers each with a line.

Arguments: a directory for Spark's own files, and where Spark runs.

A request ``{"job": name, "warehouse": url, "table": name, "arguments": {...}}`` is answered with the job's
report as JSON. ``{"conf": {...}}`` in it sets what the session goes by. ``{"read": {...}}`` is answered with
the rows that ``paimon_index.spark.read_table`` gives for these arguments, ``{"rows": [...]}``, and
``{"rows": query, "tests": [sql, ...]}`` with what each test is for each row of the query, or null if Spark
refuses it, ``{"truths": [[...], null, ...]}``.
What a job refuses is answered with ``{"error": message, "kind": name of the exception}``.
"""

import dataclasses
import json
import os
import sys
from typing import Any

from pyspark.errors.exceptions import captured
from pyspark.sql import SparkSession

from app import jobs
from app.errors import PaimonIndexError
from paimon_index.spark import read_table


def main(scratch: str, master: str) -> None:
    # Spark and its virtual machine print as they like, which must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": f"{scratch}/default",
        "spark.local.dir": f"{scratch}/local",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master(master).appName("paimon-index tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for line in sys.stdin:
        answers.write(json.dumps(serve(spark, json.loads(line))) + "\n")
        answers.flush()
    spark.stop()


def serve(spark: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    if "tests" in request:
        return {"truths": truths(spark, **request)}
    for name, value in request.get("conf", {}).items():
        spark.conf.set(name, value)
    if "read" in request:
        return {"rows": [row.asDict() for row in read_table(spark, **request["read"]).collect()]}
    if "job" not in request:
        return {}
    table = jobs.JobTable.open(request["warehouse"], request["table"])
    job = getattr(jobs, request["job"])
    try:
        arguments = request["arguments"]
        report: Any
        if job is jobs.upsert:
            report = upsert(spark, table, **arguments)
        elif job is jobs.drop_index:
            report = job(table, **arguments)
        else:
            report = job(spark, table, **arguments)
    except PaimonIndexError as error:
        return {"error": str(error), "kind": type(error).__name__}
    answer = {each.name: getattr(report, each.name) for each in dataclasses.fields(report)}
    if isinstance(report, jobs.PlanReport):
        return answer | {"files": report.files.to_pylist()}
    return dataclasses.asdict(report)


def truths(spark: SparkSession, conf: dict[str, str], rows: str, tests: list[str]) -> list[list[bool] | None]:
    """Return what each test is for each row, by Spark; NULL is false.

    Nothing where Spark refuses zone or rows.
    """
    jvm = spark._jsparkSession  # noqa: SLF001 - no other door to a relation that is no file
    try:
        for name, value in conf.items():
            spark.conf.set(name, value)
        found = spark.sql(rows)._jdf  # noqa: SLF001 - likewise
        jvm.createDataFrame(found.collectAsList(), found.schema()).createOrReplaceTempView("t")
    except Exception:  # noqa: BLE001 - whatever Spark says
        return []
    # To say of what kind a refusal is takes five times as long as the query.
    convert, captured.convert_exception = captured.convert_exception, _unnamed

    def ask(part: list[str]) -> list[list[bool] | None]:
        try:
            tests_in_sql = [f"({test}) IS TRUE" for test in part]
            found = spark.table("t").selectExpr(*tests_in_sql).collect()
        except Exception:  # noqa: BLE001 - whatever Spark says
            return [None] if len(part) == 1 else [each for test in part for each in ask([test])]
        return [list(each) for each in zip(*found, strict=True)]

    try:
        return ask(tests) if tests else []
    finally:
        captured.convert_exception = convert


def _unnamed(_: object) -> captured.CapturedException:
    return captured.UnknownException(desc="", stackTrace="", cause=None)


def upsert(
    spark: SparkSession, table: jobs.JobTable, paths: list[str], **arguments: Any
) -> jobs.UpsertReport:
    reading = {name: arguments.pop(name) for name in ("data_format", "options") if name in arguments}
    kinds = arguments.get("row_kind_column")
    query = arguments.pop("query", None)
    rows = (
        jobs.rows_from_files(spark, table, paths, row_kind_column=kinds, **reading)
        if query is None
        else spark.sql(query)
    )
    return jobs.upsert(spark, table, rows, **arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
