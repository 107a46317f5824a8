"""``python -m benchmarks.spark``: reads one table in Spark in every way, and writes the figures to a file."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from app.building import DataFile, build, read_columns
from app.file_index.table_options import FileIndexOptions
from app.types import parse_type
from benchmarks.report import circumstances
from benchmarks.servers import server
from benchmarks.spark.report import Measurement, tables
from benchmarks.spark.store import Place, directory, object_store
from benchmarks.spark.table import NAME, PER_FILE, Query, write_large_file, write_table
from paimon_index import Client
from tests.spark.environment import spark_python

_RESULTS: Final = Path(__file__).parents[1] / "SPARK.md"
_RESULTS_OF_STORE: Final = _RESULTS.with_name("SPARK-S3.md")
_FEW: Final = 100
"""Files. Queries that read more take minutes where each call takes 20 ms."""
_HEADING: Final = (
    "# Results of `make bench-spark`\n\nWhat is measured and how: "
    "[docs/benchmarks.md](../docs/benchmarks.md#reading-in-spark).\n"
)
_PROGRAM: Final = Path(__file__).with_name("measuring.py")
_CLIENT: Final = Path(__file__).parents[2] / "client"
_CATALOG: Final = Path(__file__).parents[2] / "jvm" / "target" / "paimon-index-catalog-0.1.0.jar"
_INDEXED_ROWS: Final = 2_000_000
_BUILT: Final = (
    "build-index, the bitmap of a STRING column of 200 values in a file of {:,} rows, reading included: "
    "{:.1f} million rows a second of processor time\n"
)
_INDEXED: Final = "country"
_BUILDS: Final = 5


def main() -> int:
    """Measures, prints the tables and writes them."""
    arguments = _arguments()
    if shutil.which("java") is None:
        raise SystemExit("Spark needs Java 17, and java cannot be found")
    started = time.time()
    with tempfile.TemporaryDirectory(prefix="paimon-index-benchmark-") as temporary:
        warehouse = Path(temporary) / "warehouse"
        rows = arguments.rows or PER_FILE * arguments.files
        _say(started, f"writes {rows:,} rows into {arguments.files} files")
        queries = write_table(warehouse, arguments.files, rows)
        os.sync()
        table = directory(warehouse) if arguments.store is None else object_store(warehouse)
        with table as place, server(place.warehouse, has_own_core=False) as port:
            url = f"http://127.0.0.1:{port}"
            kept = _kept(url, queries)
            if arguments.store is not None:
                kept = {name: count for name, count in kept.items() if count <= _FEW}
            asked = [query for query in queries if query.name in kept]
            _say(started, "reads them in Spark")
            version, measured, scans = _measure(arguments, Path(temporary), place, url, asked)
        lines = [f"{rows:,} rows in {arguments.files} files, local[2], {arguments.runs} runs of each\n"]
        lines.append(tables(measured, kept, arguments.files))
        if arguments.store is None:
            _say(started, "builds indexes")
            built = _rows_per_second(Path(temporary) / "large.parquet")
            lines.append(_BUILT.format(_INDEXED_ROWS, built / 1e6))
    # Where jars lie on this machine is of no interest elsewhere.
    jars = {str(arguments.connector): "JAR", str(arguments.catalog_jar): "JAR", arguments.store: "JARS"}
    words = [jars.get(word, word) for word in sys.argv[1:]]
    command = shlex.join(["python", "-m", "benchmarks.spark", *words])
    lines += [f"- {line}" for line in circumstances(command, time.time() - started)]
    lines.append(f"- Spark {version}")
    if scans:
        counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(scans.items()))
        lines.append(f"- scans of the catalog paimon-index, the first run included: {counts}")
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(f"{_HEADING}\n{text}")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("--files", type=int, default=650, help="data files of the table")
    parser.add_argument("--rows", type=int, help=f"rows of the table; {PER_FILE:,} a file by default")
    parser.add_argument("--runs", type=int, default=5, help="how often each query is read in each way")
    parser.add_argument("--connector", type=Path, help="jar of the engine's connector for Spark 4.0")
    parser.add_argument(
        "--catalog-jar",
        type=Path,
        default=_CATALOG if _CATALOG.exists() else None,
        help="jar of the catalog paimon-index, for runs with a connector; by default that of `make jvm`",
    )
    parser.add_argument(
        "--store",
        metavar="JARS",
        help="reads from an object store whose calls take 20 ms; jars of hadoop-aws, with commas between",
    )
    parser.add_argument("--out", type=Path, nargs="?", const=_RESULTS, help="where results are written")
    arguments = parser.parse_args()
    if arguments.store is not None and arguments.out == _RESULTS:
        arguments.out = _RESULTS_OF_STORE
    return arguments


def _say(started: float, what: str) -> None:
    print(f"{time.time() - started:5.0f} s  {what}", file=sys.stderr, flush=True)


def _kept(url: str, queries: Sequence[Query]) -> dict[str, int]:
    """How many files a plan keeps."""
    with Client(url) as client:
        found = {}
        for query in queries:
            lists = {"event_id": query.keys} if query.keys else None
            with client.plan(f"main.db.{NAME}", filter=query.where, in_lists=lists, selection="none") as plan:
                found[query.name] = plan.facts.summary.files_kept
        return found


def _measure(
    arguments: argparse.Namespace, scratch: Path, place: Place, url: str, queries: Sequence[Query]
) -> tuple[str, list[Measurement], dict[str, int]]:
    """Return the version of Spark, what it took, and what became of the catalog's scans."""
    jars = [arguments.connector, arguments.catalog_jar if arguments.connector else None, arguments.store]
    asked: dict[str, Any] = {
        "warehouse": place.hadoop_warehouse,
        "settings": place.hadoop_settings,
        "counts_url": place.counts_url,
        "jars": [str(each) for each in jars if each is not None],
        "table": NAME,
        "url": url,
        "has_connector": arguments.connector is not None,
        "has_catalog": arguments.connector is not None and arguments.catalog_jar is not None,
        "scratch": str(scratch),
        "queries": [(query.name, query.where, query.keys) for query in queries],
        "runs": arguments.runs,
        "root": os.getpid(),
    }
    python = str(spark_python())
    environment = os.environ | {
        "PYSPARK_PYTHON": python,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": str(_CLIENT),
    }
    done = subprocess.run(  # noqa: S603 - our own program
        [python, str(_PROGRAM), json.dumps(asked)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    scans: dict[str, int] = next((each["scans"] for each in told if "scans" in each), {})
    return told[0]["spark"], [Measurement(**each) for each in told if "way" in each], scans


def _rows_per_second(path: Path) -> float:
    """Rows of which one core builds the bitmap in a second; the median of some."""
    write_large_file(path, _INDEXED_ROWS)
    options = FileIndexOptions.parse(
        {"file-index.bitmap.columns": _INDEXED}, {_INDEXED: parse_type("STRING")}
    )
    took = []
    for _ in range(_BUILDS):
        started = time.process_time()
        build(read_columns(DataFile.open(path), {_INDEXED}), options)
        took.append(time.process_time() - started)
    return _INDEXED_ROWS / sorted(took)[_BUILDS // 2]


if __name__ == "__main__":
    sys.exit(main())
