"""Runs queries in Spark, each in every way, one after the other, and tells what each took.

This program runs in an environment with pyspark, where of the project only the client is. It is given a
JSON object as its argument, and prints a JSON object on a line for each measurement.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.request import urlopen

from pyspark.sql import SparkSession

from paimon_index.spark import pruned, read_table, register

sys.path.append(str(Path(__file__).parent))

from processes import used_below  # type: ignore[import-not-found] # beside this program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame

_ZONE = "UTC"
_SCHEMA = "event_id BIGINT, user_id STRING, country STRING, amount DECIMAL(10,2), ts TIMESTAMP, dt STRING"
_ASKED = ["count(*) AS n", "sum(amount) AS amount", "max(ts) AS ts", "count(user_id) AS users"]
_COLUMNS = ["user_id", "amount", "ts"]
_OTHERS = ["event_id", "country", "dt"]
_READERS = {
    "auto": ("java_bytes", "python_bytes"),
    "rows": ("python_bytes",),
    "data source": ("python_bytes",),
}
"""Whose bytes count where Java alone is not who reads the files."""


def main() -> None:
    """Measures what the argument says."""
    asked = json.loads(sys.argv[1])
    spark = _session(asked)
    register(spark)
    ways = _ways(spark, asked)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    print(json.dumps({"spark": spark.version}), file=answers, flush=True)
    # The first round is for the virtual machine to warm up.
    for run in range(asked["runs"] + 1):
        print(f"run {run} of {asked['runs']}", file=sys.stderr, flush=True)
        for name, where in asked["queries"]:
            results = {}
            for way, frame in [*ways.items()][:: 1 if run % 2 else -1]:
                before, calls = used_below(asked["root"]), _calls(asked["counts_url"])
                started = time.perf_counter()
                with frame(where) as rows:
                    (row,) = rows.selectExpr(*_ASKED).collect()
                seconds, used = time.perf_counter() - started, used_below(asked["root"]).since(before)
                results[way] = row.asDict()
                read = sum(getattr(used, bytes_of) for bytes_of in _READERS.get(way, ("java_bytes",)))
                if run:
                    told = {"query": name, "way": way, "rows": row["n"], "seconds": seconds}
                    told |= {"processor_seconds": used.processor_seconds, "read_bytes": read}
                    told["calls"] = _calls(asked["counts_url"]) - calls
                    print(json.dumps(told), file=answers, flush=True)
            if len({json.dumps(result, default=str) for result in results.values()}) != 1:
                raise SystemExit(f"{name}: the rows differ: {results}")
    spark.stop()


def _calls(counts_url: str | None) -> int:
    """What an object store has been asked until now."""
    if counts_url is None:
        return 0
    with urlopen(counts_url) as answer:  # noqa: S310 - on this machine
        return int(json.load(answer).get("requests", 0))


def _session(asked: dict[str, Any]) -> SparkSession:
    settings = {
        "spark.sql.session.timeZone": _ZONE,
        "spark.sql.shuffle.partitions": "4",
        "spark.local.dir": f"{asked['scratch']}/local",
        "spark.jars": ",".join(asked["jars"]),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "4g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    settings |= asked["settings"]
    if asked["has_connector"]:
        settings |= {
            "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
            "spark.sql.catalog.paimon": "org.apache.paimon.spark.SparkCatalog",
            "spark.sql.catalog.paimon.warehouse": asked["warehouse"],
        }
    builder = SparkSession.builder.master("local[2]").appName("paimon-index benchmarks")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _ways(
    spark: SparkSession, asked: dict[str, Any]
) -> dict[str, Callable[[str | None], AbstractContextManager[DataFrame]]]:
    """How the rows of a condition are read, by name; what a way needs lasts for the time of a block."""
    table, url = f"main.db.{asked['table']}", asked["url"]

    def narrowed(rows: DataFrame, where: str | None) -> DataFrame:
        return rows if where is None else rows.where(where)

    def connector(where: str | None) -> DataFrame:
        return narrowed(spark.table(f"paimon.db.{asked['table']}"), where)

    @contextmanager
    def tag(where: str | None) -> Iterator[DataFrame]:
        with pruned(spark, url, table, where or "TRUE", may_write=True, catalog="paimon") as name:
            rows = spark.sql(f"SELECT * FROM paimon.db.{asked['table']} VERSION AS OF '{name}'")  # noqa: S608
            yield narrowed(rows, where)

    def parquet(where: str | None) -> DataFrame:
        place = f"{asked['warehouse']}/db.db/{asked['table']}"
        files = spark.read.schema(_SCHEMA).option("pathGlobFilter", "*.parquet")
        return narrowed(files.option("basePath", place).parquet(f"{place}/*/bucket-0"), where)

    def reader(name: Literal["auto", "rows"], where: str | None) -> DataFrame:
        return read_table(spark, url, table, where=where, columns=_COLUMNS, reader=name)

    def source(where: str | None) -> DataFrame:
        needed = [*_COLUMNS, *(name for name in _OTHERS if name in (where or ""))]
        options = {"url": url, "time_zone": _ZONE, "columns": ", ".join(needed)}
        reading = spark.read.format("paimon_index").options(**options)
        return narrowed((reading if where is None else reading.option("prune", where)).load(table), where)

    at_once: dict[str, Callable[[str | None], DataFrame]] = {
        "connector": connector,
        "parquet": parquet,
        "auto": partial(reader, "auto"),
        "rows": partial(reader, "rows"),
        "data source": source,
    }
    ways: dict[str, Callable[[str | None], AbstractContextManager[DataFrame]]] = {
        name: partial(_without_block, way) for name, way in at_once.items()
    }
    if asked["counts_url"] is not None:
        # It would look for each file, and the store takes no tags, since it remembers what it answered.
        del ways["parquet"]
    elif asked["has_connector"]:
        ways["pruned"] = tag
    if not asked["has_connector"]:
        del ways["connector"]
    return ways


def _without_block(
    way: Callable[[str | None], DataFrame], where: str | None
) -> AbstractContextManager[DataFrame]:
    return nullcontext(way(where))


if __name__ == "__main__":
    main()
