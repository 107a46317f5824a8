# ruff: noqa: INP001, T201 - a program of its own, in no package, that reports by printing
"""Holds a release to its pages: what somebody downloads, installs and copies from them works.

``make release-check`` runs it on what ``make release`` wrote to ``dist``. It uses these files, public names
and nothing of the clone, which the superuser's run cannot even see. It compares the checksums; installs
service and client, each in an environment with nothing else, with the versions of ``constraints.txt``;
starts ``paimon-index demo`` and pastes its lines; serves the sample warehouse and asks for a plan; runs the
examples of docs/library.md and client/README.md.
Where Java is, it runs the example of README.md that reads a table in Spark, a Spark job of the source
distribution, and a query of the engine through the jar. Where helm is (``HELM`` names it), it renders the
chart.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
import venv
from pathlib import Path
from socket import create_server

ROOT = Path(__file__).resolve().parent.parent
# Where the archive of the documentation has its pages.
DOCS = "paimon-index-docs/source"
TABLE = "demo.sessions"
FILTER = "fee = 58.43"
FILES_KEPT = 3
SESSION = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
"""
# A release of the engine that the jar is made for.
ENGINE = "org.apache.paimon:paimon-bundle:1.4.2"
QUERY = """
import java.math.BigDecimal;
import java.util.Map;
import org.apache.paimon.catalog.*;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.options.Options;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.source.DataSplit;

class Query {
    public static void main(String[] arguments) throws Exception {
        Map<String, String> options = Map.of(
            "metastore", "paimon-index", "warehouse", arguments[0], "paimon-index.uri", arguments[1]);
        Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(Options.fromMap(options)));
        Table table = catalog.getTable(Identifier.fromString(arguments[2]));
        PredicateBuilder builder = new PredicateBuilder(table.rowType());
        Decimal fee = Decimal.fromBigDecimal(new BigDecimal("58.43"), 12, 2);
        long files = table.newReadBuilder()
            .withFilter(builder.equal(builder.indexOf("fee"), fee))
            .newScan().plan().splits().stream()
            .mapToLong(split -> ((DataSplit) split).dataFiles().size()).sum();
        System.out.println(files + " files");
    }
}
"""
TRIES = 300


def main() -> None:
    """Check; raises where something fails."""
    arguments = argparse.ArgumentParser(description="Use a release as somebody without the clone does.")
    arguments.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    work = arguments.parse_args().work
    if work is not None:
        check(work)
        return
    with tempfile.TemporaryDirectory(prefix="paimon-index-release-") as made:
        work = Path(made)
        shutil.copytree(ROOT / "dist", work / "dist")
        shutil.copy(__file__, work)
        if "HELM" in os.environ:
            shutil.copy(os.environ["HELM"], work / "helm")
        # By the interpreter that the environment of the clone was made with.
        again = (os.path.realpath(sys.executable), str(work / Path(__file__).name), "--work", made)
        hide = ("unshare", "--mount", "--propagation", "private", "sh", "-c")
        if can_hide(*hide):
            run(work, *hide, 'mount -t tmpfs none "$0" && exec "$@"', str(ROOT), *again)
        else:
            print("only a superuser who may mount can hide the clone: it stays where it is")
            run(work, *again)
    print("every check passed")


def can_hide(*hide: str) -> bool:
    """Whether this user may mount something over the clone; in some containers the superuser may not."""
    if os.geteuid() or not shutil.which("unshare"):
        return False
    tried = (*hide, 'mount -t tmpfs none "$0"', str(ROOT))
    return not subprocess.run(tried, check=False, capture_output=True).returncode  # noqa: S603 - ours


def check(work: Path) -> None:
    """Check the release in ``work/dist``, with ``work`` for all that is made."""
    dist = work / "dist"
    for line in (dist / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        if hashlib.sha256((dist / name).read_bytes()).hexdigest() != digest:
            raise SystemExit(f"FAILED: {name} has another checksum than SHA256SUMS")
    pages = work / "pages"
    for name in ("docs", "sample-warehouse"):
        with tarfile.open(one(dist, f"paimon-index-{name}-*.tar.gz")) as archive:
            archive.extractall(pages, filter="data")
    service, client = one(dist, "paimon_index-*.whl"), one(dist, "paimon_index_client-*.whl")
    of_service = environment(work / "service", str(service))
    run_examples(of_service, pages, f"{DOCS}/docs/library.md")
    warehouse = pages / "demo" / "warehouse"
    with create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    command = of_service.with_name("paimon-index")
    check_demo(work, command, url)
    serve = [str(command), "serve", "--warehouse", f"main={warehouse}", "--port", url.rpartition(":")[2]]
    with subprocess.Popen(serve, env=bare(), cwd=work) as served:  # noqa: S603 - ours
        try:
            wait_until_ready(served, url)
            ask(url)
            run_examples(
                environment(work / "client", f"{client}[pandas]"), pages, f"{DOCS}/client/README.md", url
            )
            if shutil.which("java"):
                check_java(work, pages, url)
            else:
                print("NOT CHECKED: Java is missing: nothing was tried in Spark, and the jar was not loaded")
        finally:
            served.terminate()
    check_chart(work, one(dist, "paimon-index-*.tgz"))


def check_demo(work: Path, command: Path, url: str) -> None:
    """Return the sample tables of the wheel, and the lines to paste."""
    demo = [str(command), "demo", "--port", url.rpartition(":")[2]]
    output = work / "demo.txt"
    with (
        output.open("wb") as written,
        subprocess.Popen(demo, env=bare(), cwd=work, stdout=written) as served,  # noqa: S603 - ours
    ):
        try:
            wait_until_ready(served, url)
            lines = [shlex.split(line) for line in output.read_text().splitlines() if "curl" in line]
            for _, _, place, _, body in lines:
                urllib.request.urlopen(place, body.encode(), timeout=60).close()  # noqa: S310 - ours
        finally:
            served.terminate()
    if not lines:
        raise SystemExit("FAILED: paimon-index demo shows no line to paste")
    print(f"{len(lines)} lines of paimon-index demo were answered")


def check_java(work: Path, pages: Path, url: str) -> None:
    """Return a table in Spark, a job, and the jar in a JVM with the engine."""
    dist, warehouse = work / "dist", pages / "demo" / "warehouse"
    client, source = one(dist, "paimon_index_client-*.tar.gz"), one(dist, "paimon_index-*.tar.gz")
    of_jobs = environment(work / "jobs", str(client), f"{source}[jobs]")
    run_examples(of_jobs, pages, f"{DOCS}/README.md", url, SESSION)
    audit = ("job", "audit", "demo.visits", "--warehouse", str(warehouse), "--master", "local[1]")
    run(work, str(of_jobs.with_name("paimon-index")), *audit)
    if not shutil.which("mvn"):
        print("NOT CHECKED: Maven is missing, which brings the engine: the jar was not loaded")
        return
    copy = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
    run(work, "mvn", "-q", "-B", copy, f"-Dartifact={ENGINE}", f"-DoutputDirectory={work / 'engine'}")
    # Hadoop's interfaces and a log, as in a session of Spark.
    jars = next(of_jobs.parent.parent.glob("lib/python3.*/site-packages/pyspark/jars"))
    (work / "Query.java").write_text(QUERY)
    classpath = f"{one(dist, 'paimon-index-catalog-*.jar')}:{work / 'engine' / '*'}:{jars / '*'}"
    query = ["java", "-cp", classpath, str(work / "Query.java"), str(warehouse), url, TABLE]
    answer = subprocess.run(query, check=True, capture_output=True, text=True, cwd=work, env=bare()).stdout  # noqa: S603 - ours
    if answer.split() != [str(FILES_KEPT), "files"]:
        raise SystemExit(f"FAILED: the engine read {answer.strip()} through the jar, not {FILES_KEPT}")
    print(f"the engine read {answer.strip()} through the jar")


def check_chart(work: Path, chart: Path) -> None:
    """Return the chart is taken, and renders with what its page says to give."""
    helm = work / "helm"
    if not helm.exists():
        print(
            "NOT CHECKED: helm is missing, which make chart-check builds with Go: the chart was not rendered"
        )
        return
    values = ("image.repository=registry.example.com/paimon-index", "warehouses.main=s3://bucket/warehouse")
    given = [part for value in (*values, "tokens.existingSecret=tokens") for part in ("--set", value)]
    run(work, str(helm), "lint", "--strict", "--quiet", str(chart), *given)
    run(work, str(helm), "template", "index", str(chart), *given, "--output-dir", str(work / "rendered"))


def ask(url: str) -> None:
    """Return a plan by HTTP, as in README.md."""
    database, _, table = TABLE.partition(".")
    path = f"{url}/v1/main/databases/{database}/tables/{table}/plan"
    with urllib.request.urlopen(path, json.dumps({"filter": FILTER}).encode(), timeout=60) as response:  # noqa: S310 - ours
        summary = json.load(response)["summary"]
    if summary["files_kept"] != FILES_KEPT:
        raise SystemExit(f"FAILED: the plan of {TABLE} is wrong: {summary}")
    print(f"asked: {summary['files_kept']} of {summary['files_total']} files")


def environment(directory: Path, *requirements: str) -> Path:
    """Return the Python of a new environment with these packages and what they declare."""
    started = time.monotonic()
    venv.create(directory, with_pip=True)
    python = directory / "bin" / "python"
    dist = directory.parent / "dist"
    pip = (str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(directory.parent, *pip, "--constraint", str(dist / "constraints.txt"), *requirements)
    print(f"installed {[Path(each).name for each in requirements]} in {time.monotonic() - started:.0f} s")
    return python


def run_examples(python: Path, pages: Path, page: str, url: str = "", before: str = "") -> None:
    """Run the Python examples of a page beside the sample warehouse, one after the other."""
    text = (pages / page).read_text()
    if url:
        text = re.sub(r"http://(localhost|127\.0\.0\.1):8080", url, text)
    examples = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    if not examples:
        raise SystemExit(f"FAILED: {page} has no examples")
    code = "\n".join([before, *examples])
    run(pages, str(python), "-P", "-W", "error::DeprecationWarning:__main__", "-c", code)
    print(f"{len(examples)} examples of {page} ran")


def one(directory: Path, pattern: str) -> Path:
    """Return the one file of the release that has such a name."""
    found = list(directory.glob(pattern))
    if len(found) != 1:
        raise SystemExit(f"FAILED: the release has {len(found)} files {pattern}, not one")
    return found[0]


def run(directory: Path, *command: str) -> None:
    """Run a program there, with nothing of this one's environment for Python."""
    print("$", *command[:6], flush=True)
    subprocess.run(command, check=True, cwd=directory, env=bare())  # noqa: S603 - ours


def bare() -> dict[str, str]:
    """Environment variables without Python's and ours."""
    ours = ("PYTHON", "PYSPARK", "SPARK", "PAIMON_INDEX", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def wait_until_ready(served: subprocess.Popen[bytes], url: str) -> None:
    """Wait until a service is ready."""
    for _ in range(TRIES):
        try:
            urllib.request.urlopen(f"{url}/health/ready", timeout=5).close()  # noqa: S310 - ours
        except OSError:
            if served.poll() is not None:
                raise SystemExit("FAILED: the service ended") from None
            time.sleep(0.2)
        else:
            return
    raise SystemExit("FAILED: the service is not ready")


if __name__ == "__main__":
    main()
