"""What Spark's users see of who planned: in ``EXPLAIN``, and by a line of Python."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.main import create_app
from app.settings import Settings
from tests.api.conftest import listening
from tests.jvm.sql_sessions import SqlSession, SqlSpark

pytestmark = [pytest.mark.jvm, pytest.mark.connector]

_CITIES = "SELECT * FROM indexed.db.cities"


@pytest.fixture(scope="module")
def warehouse(spark: SqlSpark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight files of a hundred cities."""
    made = tmp_path_factory.mktemp("explained")
    spark.session(made, "http://127.0.0.1:1").sql(
        "CREATE DATABASE plain.db",
        "CREATE TABLE plain.db.cities (id INT, city STRING) TBLPROPERTIES ("
        "'file-index.bloom-filter.columns' = 'city', 'file-index.bloom-filter.city.items' = '1000')",
        "INSERT INTO plain.db.cities SELECT /*+ REPARTITION_BY_RANGE(8, id) */ CAST(id AS INT), "
        "concat('c', id) FROM range(0, 100)",
    )
    return made


@pytest.fixture
def session(spark: SqlSpark, warehouse: Path) -> Iterator[SqlSession]:
    settings = Settings.load(warehouses={"main": str(warehouse)})
    with listening(create_app(settings), lifespan="on") as service:
        yield spark.session(warehouse, str(service.base_url).rstrip("/"))


def notes(session: SqlSession, query: str, mode: str = "") -> list[str]:
    """Return what stands beside the name of the table, of each scan."""
    ((plan,),) = session.sql(f"EXPLAIN {mode} {query}")
    return re.findall(r"PaimonScan: \[cities \((.*?)\)\]", plan)


@pytest.mark.parametrize("mode", ["", "FORMATTED"])
def test_a_plan_of_the_service_tells_its_files(session: SqlSession, mode: str) -> None:
    found = notes(session, f"{_CITIES} WHERE city = 'c7'", mode)

    assert found == ["planned by paimon-index: 1 of 8 files"]


def test_each_scan_of_one_table_tells_its_own(session: SqlSession) -> None:
    joined = "indexed.db.cities a JOIN indexed.db.cities b ON a.id = b.id"

    found = notes(session, f"SELECT * FROM {joined} WHERE a.city = 'c7' AND b.city IN ('c7', 'c80')")

    assert sorted(found) == [f"planned by paimon-index: {files} of 8 files" for files in (1, 2)]


def test_a_plan_of_the_engine_tells_why(session: SqlSession, warehouse: Path) -> None:
    assert notes(session, _CITIES) == ["planned by the engine: no filter"]
    (note,) = notes(session, f"{_CITIES} WHERE city <> 'c7'")
    assert note.startswith("planned by the engine: not selective")
    gone = session.spark.session(warehouse, "http://127.0.0.1:1")
    (note,) = notes(gone, f"{_CITIES} WHERE city = 'c7'")
    assert note.startswith("planned by the engine: unreachable: http://127.0.0.1:1 is not reached: ")


def test_the_line_of_the_page_has_the_totals(session: SqlSession) -> None:
    page = (Path(__file__).parents[2] / "docs" / "sql.md").read_text()
    (line,) = re.findall(r"```python\n(.*)\n```", page)
    before = session.spark.ask({"python": line})["value"]

    session.sql(f"{_CITIES} WHERE city = 'c7'")

    after = session.spark.ask({"python": line})["value"]
    assert after["planned"] > before.get("planned", 0)
    left_out = after["files left out"] - before["files left out"]
    assert left_out == 7 * (after["planned"] - before.get("planned", 0))
    assert after["bytes left out"] > before["bytes left out"]


def test_the_table_has_its_plain_name_elsewhere(session: SqlSession) -> None:
    session.sql(f"{_CITIES} WHERE city = 'c7'")

    (described,) = session.sql("DESCRIBE EXTENDED indexed.db.cities")
    assert not [row for row in described if "planned by" in row]
