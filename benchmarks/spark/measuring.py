"""Runs queries in Spark, each in every way, one after the other, and tells what each took.

This program runs in an environment with pyspark, where of the project only the client is. It is given a
JSON object as its argument, and prints a JSON object on a line for each measurement.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.request import urlopen

from pyspark.sql import SparkSession
from pyspark.sql.functions import broadcast

from paimon_index.spark import read_table, register

sys.path.append(str(Path(__file__).parent))

from collections.abc import Callable
from contextlib import AbstractContextManager

from processes import used_below  # type: ignore[import-not-found] # beside this program

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ZONE = "UTC"
_SCHEMA = "event_id BIGINT, user_id STRING, country STRING, amount DECIMAL(10,2), ts TIMESTAMP, dt STRING"
_ASKED = ["count(*) AS n", "sum(amount) AS amount", "max(ts) AS ts", "count(user_id) AS users"]
_KEY = "event_id"
_SMALL = "wanted"
_COLUMNS = ["user_id", "amount", "ts"]
_OTHERS = ["event_id", "country", "dt"]
_READERS = {
    "auto": ("java_bytes", "python_bytes"),
    "rows": ("python_bytes",),
    "data source": ("python_bytes",),
}
"""Whose bytes count where Java alone is not who reads the files."""


class Query(NamedTuple):
    """What is asked.

    Attributes:
        where: the condition; None for all rows.
        small: a table of keys that is joined; None without a join.
        keys: the same as numbers.
    """

    where: str | None
    small: DataFrame | None
    keys: list[int]

    @property
    def in_lists(self) -> dict[str, DataFrame] | None:
        """As ``read_table`` takes them."""
        return {_KEY: self.small} if self.small is not None else None

    @property
    def condition(self) -> str | None:
        """As the data source takes it, which knows no lists."""
        return f"{_KEY} IN ({', '.join(map(str, self.keys))})" if self.keys else self.where

    def of(self, rows: DataFrame) -> DataFrame:
        """Return the rows that are asked for, in plain Spark."""
        found = rows if self.where is None else rows.where(self.where)
        return found.join(broadcast(self.small), _KEY, "left_semi") if self.small is not None else found

    def sql(self, table: str) -> str:
        """Return the same as a statement."""
        if self.small is not None:
            self.small.createOrReplaceTempView(_SMALL)
            hint, join = f"/*+ BROADCAST({_SMALL}) */", f"LEFT SEMI JOIN {_SMALL} USING ({_KEY})"
            return f"SELECT {hint} * FROM {table} {join}"  # noqa: S608
        return f"SELECT * FROM {table}" + ("" if self.where is None else f" WHERE {self.where}")  # noqa: S608


def main() -> None:
    """Measure what the argument says."""
    asked = json.loads(sys.argv[1])
    spark = _session(asked)
    register(spark)
    ways = _ways(spark, asked)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    print(json.dumps({"spark": spark.version}), file=answers, flush=True)
    # The first round is for the virtual machine to warm up.
    for run in range(asked["runs"] + 1):
        print(f"run {run} of {asked['runs']}", file=sys.stderr, flush=True)
        for name, where, keys in asked["queries"]:
            small = spark.createDataFrame([(key,) for key in keys], f"{_KEY} BIGINT") if keys else None
            query = Query(where, small, keys)
            results = {}
            for way, frame in [*ways.items()][:: 1 if run % 2 else -1]:
                before, calls = used_below(asked["root"]), _calls(asked["counts_url"])
                started = time.perf_counter()
                with frame(query) as rows:
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
    if asked["has_catalog"]:
        print(json.dumps({"scans": _scans(spark)}), file=answers, flush=True)
    spark.stop()


def _scans(spark: SparkSession) -> dict[str, int]:
    """Return what became of the scans of the catalog that plans through the service, as JMX tells it."""
    gateway = spark.sparkContext._gateway  # noqa: SLF001 - no other door
    java = gateway.jvm.java.lang
    types, arguments = gateway.new_array(java.Class, 2), gateway.new_array(java.Object, 2)
    types[0], types[1] = (
        java.Class.forName(f"java{name}") for name in ("x.management.ObjectName", ".lang.String")
    )
    arguments[0], arguments[1] = (
        gateway.jvm.javax.management.ObjectName("org.paimonindex:type=Scans"),
        "Outcomes",
    )
    # The server's own class is not public, so its method is called by reflection.
    method = java.Class.forName("javax.management.MBeanServer").getMethod("getAttribute", types)
    counts = method.invoke(java.management.ManagementFactory.getPlatformMBeanServer(), arguments)
    # Python sees its rows as a map with keys of a kind that cannot be given back.
    told = re.findall(r"{key=(\w+), value=(\d+)}", counts.toString())
    return {outcome: int(count) for outcome, count in told if int(count)}


def _calls(counts_url: str | None) -> int:
    """Return what an object store has been asked until now."""
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
    if asked["has_catalog"]:
        settings |= {
            "spark.sql.catalog.indexed": "org.apache.paimon.spark.SparkCatalog",
            "spark.sql.catalog.indexed.metastore": "paimon-index",
            "spark.sql.catalog.indexed.paimon-index.uri": asked["url"],
            "spark.sql.catalog.indexed.warehouse": asked["warehouse"],
        }
    builder = SparkSession.builder.master("local[2]").appName("paimon-index benchmarks")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _ways(
    spark: SparkSession, asked: dict[str, Any]
) -> dict[str, Callable[[Query], AbstractContextManager[DataFrame]]]:
    """How the rows of a query are read, by name; what a way needs lasts for the time of a block."""
    table, url = f"main.db.{asked['table']}", asked["url"]

    def sql(catalog: str, query: Query) -> DataFrame:
        return spark.sql(query.sql(f"{catalog}.db.{asked['table']}"))

    def parquet(query: Query) -> DataFrame:
        place = f"{asked['warehouse']}/db.db/{asked['table']}"
        files = spark.read.schema(_SCHEMA).option("pathGlobFilter", "*.parquet")
        return query.of(files.option("basePath", place).parquet(f"{place}/*/bucket-0"))

    def reader(name: Literal["auto", "rows"], query: Query) -> DataFrame:
        return read_table(
            spark, url, table, where=query.where, in_lists=query.in_lists, columns=_COLUMNS, reader=name
        )

    def source(query: Query) -> DataFrame:
        condition = query.condition
        needed = [*_COLUMNS, *(name for name in _OTHERS if name in (condition or ""))]
        options = {"url": url, "columns": ", ".join(needed)}
        reading = spark.read.format("paimon_index").options(**options)
        return query.of((reading if condition is None else reading.option("prune", condition)).load(table))

    at_once: dict[str, Callable[[Query], DataFrame]] = {
        "connector": partial(sql, "paimon"),
        "catalog": partial(sql, "indexed"),
        "parquet": parquet,
        "auto": partial(reader, "auto"),
        "rows": partial(reader, "rows"),
        "data source": source,
    }
    ways: dict[str, Callable[[Query], AbstractContextManager[DataFrame]]] = {
        name: partial(_without_block, way) for name, way in at_once.items()
    }
    if asked["counts_url"] is not None:
        # It would look for each file.
        del ways["parquet"]
    if not asked["has_connector"]:
        del ways["connector"]
    if not asked["has_catalog"]:
        del ways["catalog"]
    return ways


def _without_block(way: Callable[[Query], DataFrame], query: Query) -> AbstractContextManager[DataFrame]:
    return nullcontext(way(query))


if __name__ == "__main__":
    main()
