"""Runs Spark for tests: reads one JSON request a line from standard input, answers with one JSON line each.

This file runs in the environment with pyspark, so it imports nothing of the project.

=====================================  =====================================================================
request                                answer
=====================================  =====================================================================
``{"session": zone, "conf": {...}}``   ``{"session": number}``
``{"in": number, "sql": statement}``   ``{"rows": [JSON text of a row, ...]}``, NULLs written out
=====================================  =====================================================================

A statement that Spark refuses is answered with ``{"error": message}``. Arguments: the connector's jar, the
warehouse directory, a directory for Spark's own files.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, TextIO

from pyspark.sql import SparkSession


def main() -> None:
    """Serves until standard input ends."""
    # Spark and its virtual machine print as they like, which must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    first = _start(*sys.argv[1:])
    sessions: list[SparkSession] = []
    for line in sys.stdin:
        _serve(json.loads(line), first, sessions, answers)
    first.stop()


def _start(jar: str, warehouse: str, scratch: str) -> SparkSession:
    settings = {
        "spark.jars": jar,
        "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
        "spark.sql.catalog.paimon": "org.apache.paimon.spark.SparkCatalog",
        "spark.sql.catalog.paimon.warehouse": f"file:{warehouse}",
        "spark.sql.defaultCatalog": "paimon",
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
            sessions.append(session)
            answer: dict[str, Any] = {"session": len(sessions) - 1}
        else:
            answer = {"rows": sessions[request["in"]].sql(request["sql"]).toJSON().collect()}
    except Exception as error:  # noqa: BLE001 - whatever Spark says goes to the test
        answer = {"error": str(error)}
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
