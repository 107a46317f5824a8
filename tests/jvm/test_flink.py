"""Batch SQL of a real Flink with official connectors: planned by the service, with the rows of the engine."""

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Final

import pytest

from app.main import create_app
from app.settings import Settings
from tests import golden_cases
from tests.api.conftest import listening
from tests.golden_cases import GoldenWarehouse
from tests.jvm.flink_sessions import Cluster, Flink, FlinkError, condition, running

pytestmark = pytest.mark.jvm

_CONNECTORS: Final = ("1.3.1", "1.0.1")
_SOME: Final = 80
"""One of so many queries is run by `make jvm`, and all of them by tests that are ``long``."""


def queries() -> list[str]:
    """Return the golden ones whose condition Flink's SQL can say, each with its version in a hint."""
    found = []
    for table in golden_cases.tables():
        expected = golden_cases.expected(table)
        if expected.get("external_roots"):
            continue
        for query in expected["queries"]:
            where = None if query["predicate"] is None else condition(query["predicate"])
            if where is None or query["branch"] is not None:
                continue
            version = {"scan.snapshot-id": query["snapshot_id"], "scan.tag-name": query["tag"]}
            hints = [f"'{option}' = '{value}'" for option, value in version.items() if value is not None]
            hint = f" /*+ OPTIONS({', '.join(hints)}) */" if hints else ""
            found.append(f"SELECT * FROM {{c}}.golden.`{table}`{hint} WHERE {where}")
    return found


def check(flink: Flink, asked: Sequence[str]) -> None:
    """All rows are equal; what an engine refuses, it refuses with us and without."""
    compared: list[tuple[str, dict[str, Any]]] = []
    for query in asked:
        try:
            compared.append((query, flink.compare(query)))
        except FlinkError:
            # A type, an index or deletion vectors of later releases.
            continue

    outcomes = flink.outcomes()
    assert not [(query, answer) for query, answer in compared if not answer.get("equal")]
    assert len(compared) > len(asked) / 2
    # Flink plans some scans twice, for the parallelism and for the job.
    assert outcomes["planned"] > len(compared) / 4
    assert set(+outcomes) <= {
        "planned",
        "no_filter",
        "not_selective",
        "option",
        "data_evolution",
        "other_version",
    }


@pytest.mark.parametrize("connector", _CONNECTORS)
def test_some_golden_queries_have_their_rows(
    golden: GoldenWarehouse, uri: str, tmp_path: Path, connector: str
) -> None:
    flink = Flink.start(connector, tmp_path)
    try:
        flink.catalogs(golden.root, uri)
        check(flink, queries()[_CONNECTORS.index(connector) :: _SOME])
    finally:
        flink.stop()


@pytest.mark.long
@pytest.mark.parametrize("connector", _CONNECTORS)
def test_every_golden_query_has_its_rows(
    golden: GoldenWarehouse, uri: str, tmp_path: Path, connector: str
) -> None:
    flink = Flink.start(connector, tmp_path)
    try:
        flink.catalogs(golden.root, uri)
        check(flink, queries())
    finally:
        flink.stop()


def writes(flink: Flink) -> None:
    """Five files that each have one of the values in the middle of all."""
    flink.sql("CREATE DATABASE plain.db")
    flink.sql(
        "CREATE TABLE plain.db.t (id INT, city STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '5', "
        "'file-index.bloom-filter.columns' = 'city', 'file-index.bloom-filter.city.items' = '20')"
    )
    values = ", ".join(f"({number}, 'c{number:02}')" for number in range(40))
    flink.sql(f"INSERT INTO plain.db.t VALUES {values}")


def test_a_job_manager_elsewhere_plans_with_a_token_of_its_own(tmp_path: Path) -> None:
    """Two JVMs and the session's; then the service is gone, and rows are the same."""
    warehouse, secret, tokens = tmp_path / "warehouse", "of-the-job-manager", tmp_path / "tokens.json"
    digest = hashlib.sha256(secret.encode()).hexdigest()
    token = {"name": "flink", "sha256": digest, "role": "reader", "warehouses": ["*"]}
    tokens.write_text(json.dumps({"tokens": [token]}))
    settings = Settings.load(warehouses={"main": str(warehouse)}, tokens_file=str(tokens))
    cluster = Cluster("1.3.1", tmp_path)
    with running(cluster.job_manager({"PAIMON_INDEX_TOKEN": secret}), cluster.task_manager()):
        flink = cluster.session()
        query = "SELECT * FROM {c}.db.t WHERE city = 'c17'"
        try:
            with listening(create_app(settings), lifespan="on") as service:
                flink.catalogs(warehouse, str(service.base_url).rstrip("/"))
                writes(flink)
                assert flink.compare(query) == {"rows": 1, "equal": True}
                assert +flink.outcomes(cluster.jmx_port) == Counter(planned=1)

            assert flink.compare(query) == {"rows": 1, "equal": True}
            assert flink.outcomes(cluster.jmx_port)["unreachable"] == 1
        finally:
            flink.stop()


def test_a_task_manager_that_dies_costs_no_row_and_no_question(tmp_path: Path) -> None:
    """The splits of its tasks go to another one: they are the enumerator's, which planned once."""
    warehouse, pipe = tmp_path / "warehouse", tmp_path / "pipe"
    os.mkfifo(pipe)
    settings = Settings.load(warehouses={"main": str(warehouse)})
    cluster = Cluster("1.3.1", tmp_path)
    dying = cluster.task_manager()
    with running(cluster.job_manager({}), dying), ThreadPoolExecutor(2) as threads:
        flink = cluster.session()
        try:
            with listening(create_app(settings), lifespan="on") as service:
                flink.catalogs(warehouse, str(service.base_url).rstrip("/"))
                writes(flink)
                flink.sql("CREATE TABLE plain.db.copied (id INT, city STRING)")
                flink.sql("CREATE TEMPORARY SYSTEM FUNCTION held AS 'Held'")
                copying = threads.submit(
                    flink.sql,
                    f"INSERT INTO plain.db.copied SELECT id, held(city, '{pipe}') FROM indexed.db.t "
                    "WHERE city IN ('c17', 'c18')",
                )
                opening = threads.submit(os.open, pipe, os.O_WRONLY)
                under_way: list[Future[Any]] = [opening, copying]
                if copying in wait(under_way, return_when=FIRST_COMPLETED).done:
                    os.close(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))
                    pytest.fail(f"nothing was held: {copying.exception()}")
            dying.kill()
            dying.wait()
            pipe.unlink()
            os.close(opening.result())
            with running(cluster.task_manager()):
                copying.result()
                assert flink.sql("SELECT * FROM plain.db.copied") == ["+I[17, c17]", "+I[18, c18]"]
                assert +flink.outcomes(cluster.jmx_port) == Counter(planned=1)
        finally:
            flink.stop()


def test_streams_lookups_and_writers_ask_nothing(tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    flink = Flink.start("1.3.1", tmp_path, "streaming")
    with listening(create_app(Settings.load(warehouses={"main": str(warehouse)})), lifespan="on") as service:
        try:
            flink.catalogs(warehouse, str(service.base_url).rstrip("/"))
            writes(flink)
            flink.sql("INSERT INTO indexed.db.t VALUES (41, 'c41')")
            assert flink.first("SELECT * FROM indexed.db.t WHERE city = 'c17'") == "+I[17, c17]"
            orders = "(SELECT 17 AS k, PROCTIME() AS p FROM (VALUES (1)))"
            table = "indexed.db.t FOR SYSTEM_TIME AS OF o.p AS d"
            lookup = f"SELECT d.city FROM {orders} o JOIN {table} ON d.id = o.k"
            assert flink.first(lookup) == "+I[c17]"

            assert not +flink.outcomes()
        finally:
            flink.stop()


def test_the_statements_of_the_page_are_planned(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "flink.md").read_text()
    (statements,) = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    warehouse = tmp_path / "warehouse"
    flink = Flink.start("1.3.1", tmp_path)
    with listening(create_app(Settings.load(warehouses={"main": str(warehouse)})), lifespan="on") as service:
        here = statements.replace("/data/warehouse", str(warehouse))
        uri = str(service.base_url).rstrip("/")
        # SET is the SQL client's own.
        create, select = (
            each.replace("http://127.0.0.1:8080", uri)
            for each in here.split(";")
            if each.strip() and "SET" not in each
        )
        try:
            flink.catalogs(warehouse, uri)
            writes(flink)
            # On a busy machine, too.
            flink.sql(
                create.replace("'paimon-index.uri'", "'paimon-index.timeout' = '60 s', 'paimon-index.uri'")
            )
            assert flink.sql(select) == ["+I[17, c17]"]
            assert set(+flink.outcomes()) == {"planned"}
        finally:
            flink.stop()
