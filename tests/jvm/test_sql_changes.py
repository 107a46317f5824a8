"""Tables that change: through the catalog, statements write and read what they do without it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from app.main import create_app
from app.settings import Settings
from tests.api.conftest import listening
from tests.jvm.sql_sessions import SqlSession, SqlSpark

pytestmark = [pytest.mark.jvm, pytest.mark.connector]

_INDEX: Final = "'file-index.bloom-filter.columns' = 's', 'file-index.in-manifest-threshold' = '1 MB'"
_ROWS: Final = (
    "SELECT /*+ REPARTITION_BY_RANGE(4, id) */ CAST(id AS INT) AS id, CAST(id * 7 % 100 AS INT) AS k, "
    "concat('s', id) AS s, concat('t', id % 5) AS t, CAST(id / 4 AS FLOAT) AS x, concat('p', id % 2) AS part "
    "FROM range({first}, {last}) AS numbers(id)"
)
_WHERES: Final = (
    *("s = 's7'", "s IN ('s7', 's107')", "k < 20", "k = 49", "t = 't2' AND s = 's7'", "x > 26"),
    *("id IN (7, 107)", "t IS NULL AND id > 5"),
)
# The column s has an index, so the engine renames and drops others.
_SCHEMA_CHANGES: Final = {
    "add": ["ADD COLUMN extra STRING"],
    "add first": ["ADD COLUMN extra INT FIRST"],
    "rename": ["RENAME COLUMN t TO u"],
    "swap names": ["RENAME COLUMN k TO spare", "RENAME COLUMN id TO k", "RENAME COLUMN spare TO id"],
    "reorder": ["ALTER COLUMN x FIRST", "ALTER COLUMN k AFTER t"],
    "widen": ["ALTER COLUMN k TYPE BIGINT", "ALTER COLUMN x TYPE DOUBLE"],
    "drop": ["DROP COLUMN t"],
    "drop and add": ["DROP COLUMN k", "ADD COLUMN k INT"],
    "drop and add another type": ["DROP COLUMN t", "ADD COLUMN t INT AFTER id"],
    "an option": ["SET TBLPROPERTIES ('file-index.bitmap.columns' = 't')"],
}
_KINDS: Final = {
    "append": "",
    "deleting": "'deletion-vectors.enabled' = 'true'",
    "merged": "'primary-key' = 'part,id', 'bucket' = '2'",
    "vectors": "'primary-key' = 'part,id', 'bucket' = '2', 'deletion-vectors.enabled' = 'true'",
}
_STATEMENTS: Final = (
    "INSERT INTO {t} SELECT id + 1000, k, concat('n', id), t, x, part FROM {t} WHERE s = 's7' OR k = 3",
    "DELETE FROM {t} WHERE s = 's8'",
    "DELETE FROM {t} WHERE id IN (SELECT id + 1 FROM {t} WHERE s = 's41')",
    "UPDATE {t} SET t = 'updated', x = x + 1 WHERE s = 's7' OR k < 5",
    """
    MERGE INTO {t} AS a USING (SELECT * FROM {t} WHERE s IN ('s11', 's12', 's13')) AS b
    ON a.id = b.id AND a.part = b.part AND a.s < 's5'
    WHEN MATCHED AND b.s = 's12' THEN DELETE WHEN MATCHED THEN UPDATE SET t = concat(b.t, '!')
    """,
    """
    MERGE INTO {t} AS a USING (SELECT id + 2000 AS id, k, s, t, x, part FROM {t} WHERE s LIKE 's2%') AS b
    ON a.id = b.id AND a.part = b.part WHEN NOT MATCHED THEN INSERT *
    """,
    """
    INSERT OVERWRITE {t} PARTITION (part = 'p1')
    SELECT id, k, s, t, x FROM {t} WHERE part = 'p1' AND s <> 's21'
    """,
    "CALL {c}.sys.compact(table => 'db.{n}', where => 'part = \"p0\"')",
    "INSERT INTO {t} SELECT * FROM {t} VERSION AS OF 1 WHERE s = 's8'",
    "CALL {c}.sys.compact(table => 'db.{n}')",
    "DELETE FROM {t} WHERE part = 'p0'",
    "TRUNCATE TABLE {t}",
)


class Writable(NamedTuple):
    """A warehouse with a database ``db``, and a service that may answer with versions of a minute ago."""

    uri: str
    spark: SqlSpark
    warehouse: Path

    def session(self) -> SqlSession:
        return self.spark.session(self.warehouse, self.uri)

    def create(self, session: SqlSession, table: str, options: str = "") -> None:
        every = ", ".join(filter(None, (_INDEX, options)))
        session.sql(
            f"CREATE TABLE {table} (id INT NOT NULL, k INT, s STRING, t STRING, x FLOAT, "
            f"part STRING NOT NULL) PARTITIONED BY (part) TBLPROPERTIES ({every})",
            f"INSERT INTO {table} " + _ROWS.format(first=0, last=100),
        )


@pytest.fixture(scope="module")
def writable(spark: SqlSpark, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writable]:
    warehouse = tmp_path_factory.mktemp("changes")
    settings = Settings.load(warehouses={"main": str(warehouse)}, max_staleness_ms=60_000)
    with listening(create_app(settings), lifespan="on") as started:
        found = Writable(str(started.base_url).rstrip("/"), spark, warehouse)
        found.session().sql("CREATE DATABASE plain.db")
        yield found


def planned(spark: SqlSpark) -> int:
    return spark.outcomes()["planned"]


def is_equal(session: SqlSession, *queries: str) -> bool:
    """Whether both catalogs have equal rows, or both refuse."""
    return all(each.equal and each.only is None for each in session.compare(*queries))


@pytest.mark.parametrize("change", _SCHEMA_CHANGES)
def test_a_schema_that_another_session_changes(writable: Writable, change: str) -> None:
    name = "schema_" + change.replace(" ", "_")
    other, session, late = (writable.session() for _ in range(3))
    writable.create(other, f"plain.db.{name}")
    asked = [f"SELECT * FROM {{c}}.db.{name} WHERE {where}" for where in _WHERES]
    assert is_equal(session, *asked)

    for each in _SCHEMA_CHANGES[change]:
        other.sql(f"ALTER TABLE plain.db.{name} {each}")
    assert is_equal(session, *asked)
    other.sql(
        f"INSERT INTO plain.db.{name} BY NAME SELECT CAST(id AS INT) AS id, CAST(id * 7 % 100 AS INT) AS k, "
        "concat('s', id) AS s, CAST(id AS FLOAT) AS x, 'p1' AS part FROM range(100, 120)"
    )

    before = planned(writable.spark)
    assert is_equal(session, *asked)
    assert is_equal(late, *asked)
    assert planned(writable.spark) > before


@pytest.mark.parametrize("kind", _KINDS)
def test_statements_that_write(writable: Writable, kind: str) -> None:
    session = writable.session()
    for catalog in ("plain", "indexed"):
        writable.create(session, f"{catalog}.db.{kind}_{catalog}", _KINDS[kind])

    for statement in _STATEMENTS:
        for catalog in ("plain", "indexed"):
            table = f"{catalog}.db.{kind}_{catalog}"
            named = (
                statement.replace("{t}", table).replace("{n}", f"{kind}_{catalog}").replace("{c}", catalog)
            )
            session.sql(named)
        theirs, ours = writable.session().sql(
            *(f"SELECT * FROM plain.db.{kind}_{catalog}" for catalog in ("plain", "indexed"))
        )
        assert theirs == ours, statement
        queries = [f"SELECT * FROM {{c}}.db.{kind}_indexed WHERE {where}" for where in _WHERES[:2]]
        assert all(each.is_right() for each in session.compare(*queries)), statement


def test_a_session_sees_its_own_commits(writable: Writable) -> None:
    session = writable.session()
    writable.create(session, "indexed.db.own")
    before = planned(writable.spark)

    for number in range(3):
        session.sql(f"INSERT INTO indexed.db.own VALUES ({200 + number}, 1, 'mine', 't', 0, 'p0')")
        assert len(session.sql("SELECT id FROM indexed.db.own WHERE s = 'mine'")[0]) == number + 1
    session.sql("DELETE FROM indexed.db.own WHERE id = 200")
    assert len(session.sql("SELECT id FROM indexed.db.own WHERE s = 'mine'")[0]) == 2

    assert planned(writable.spark) - before >= 4


def test_tables_views_and_caches_that_are_made_of_a_query(writable: Writable) -> None:
    session = writable.session()
    writable.create(session, "plain.db.source")
    before = planned(writable.spark)

    for catalog in ("plain", "indexed"):
        read = f"SELECT * FROM {catalog}.db.source WHERE s IN ('s7', 's9')"
        session.sql(
            f"CREATE TABLE {catalog}.db.made_{catalog} AS {read}",
            f"CREATE TEMP VIEW view_{catalog} AS {read}",
            f"CREATE GLOBAL TEMP VIEW view_{catalog} AS {read}",
            f"CACHE TABLE cached_{catalog} AS {read}",
            f"CREATE OR REPLACE TABLE {catalog}.db.replaced_{catalog} AS {read}",
        )
    assert planned(writable.spark) - before >= 2
    # An insert through one catalog makes the cache of that one alone anew.
    session.sql("INSERT INTO plain.db.source VALUES (300, 3, 's9', 't', 0, 'p0')", "CLEAR CACHE")

    made = ("{c}.db.made_{c}", "{c}.db.replaced_{c}", "view_{c}", "global_temp.view_{c}", "cached_{c}")
    found = [
        each
        for table in made
        for where in ("TRUE", "s = 's7'", "k > 40 AND t > 't'")
        for each in session.compare(f"SELECT * FROM {table} WHERE {where}")
    ]
    assert not [each for each in found if not each.equal or each.error]
    assert all(each.rows for each in found)


@pytest.mark.parametrize("kind", _KINDS)
def test_compaction_and_expiry_between_analysis_and_action(writable: Writable, kind: str) -> None:
    name = f"waiting_{kind}"
    other, session = writable.session(), writable.session()
    writable.create(other, f"plain.db.{name}", _KINDS[kind])
    other.sql(f"INSERT INTO plain.db.{name} VALUES (7, 1, 's7', 'again', 0, 'p1')")
    session.analyze(f"SELECT * FROM {{c}}.db.{name} WHERE s = 's7'")
    before = writable.spark.outcomes()

    other.sql(
        f"INSERT INTO plain.db.{name} VALUES (107, 1, 's7', 'later', 0, 'p1')",
        f"CALL plain.sys.compact(table => 'db.{name}')",
        f"DELETE FROM plain.db.{name} WHERE k = 0",
        f"CALL plain.sys.expire_snapshots(table => 'db.{name}', retain_max => 1, retain_min => 1)",
    )
    plain, indexed = session.run_analyzed()

    assert plain == indexed
    assert any("later" in row for row in indexed)
    after = writable.spark.outcomes()
    # Of two files that compaction leaves, most may be kept.
    assert sum(after[name] - before[name] for name in ("planned", "not_selective")) > 0


def test_a_table_that_is_made_anew(writable: Writable) -> None:
    other, session = writable.session(), writable.session()
    writable.create(other, "plain.db.anew")
    query = "SELECT * FROM indexed.db.anew WHERE s = 's7'"
    assert len(session.sql(query)[0]) == 1

    other.sql("DROP TABLE plain.db.anew")
    writable.create(other, "plain.db.anew")
    other.sql("INSERT INTO plain.db.anew VALUES (500, 1, 's7', 't', 0, 'p0')")

    assert len(writable.session().sql(query)[0]) == 2


def test_a_branch_and_a_tag_that_change(writable: Writable) -> None:
    other, session = writable.session(), writable.session()
    writable.create(other, "plain.db.named")
    other.sql(
        "CALL plain.sys.create_tag(table => 'db.named', tag => 'now')",
        "CALL plain.sys.create_branch('db.named', 'side', 'now')",
    )
    asked = [
        f"SELECT * FROM {table} WHERE {where}"
        for table in ("{c}.db.named VERSION AS OF 'now'", "{c}.db.`named$branch_side`", "{c}.db.named")
        for where in _WHERES[:4]
    ]
    assert is_equal(session, *asked)

    other.sql(
        "INSERT INTO plain.db.`named$branch_side` VALUES (600, 1, 's7', 'branch', 0, 'p0')",
        "INSERT INTO plain.db.named VALUES (700, 1, 's7', 'main', 0, 'p0')",
        "CALL plain.sys.delete_tag(table => 'db.named', tag => 'now')",
        "CALL plain.sys.create_tag(table => 'db.named', tag => 'now')",
    )
    assert is_equal(session, *asked)
    other.sql("CALL plain.sys.rollback(table => 'db.named', version => '1')")
    assert is_equal(session, *asked)
    other.sql("INSERT INTO plain.db.named VALUES (800, 1, 's7', 'after', 0, 'p0')")
    assert is_equal(session, *asked)
    assert is_equal(writable.session(), *asked)
