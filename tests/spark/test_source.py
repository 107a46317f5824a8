"""The data source ``paimon_index``: its rows are the connector's, and its errors are one sentence."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from app.main import create_app
from app.settings import Settings
from tests import golden_cases, tokens
from tests.api.conftest import listening
from tests.client.scripted import nowhere
from tests.golden_cases import GoldenWarehouse
from tests.spark.environment import NEWEST, spark_python
from tests.spark.served_tables import REFUSED, TIMED, ZONES, Golden, Written, chosen, columns_of
from tests.spark.sessions import CLIENT, SparkError

pytestmark = [pytest.mark.spark, pytest.mark.long]

MERGED: Final = ("pk_merge", "dyn_bucket")
IN_ONE_ZONE: Final = (
    *("append_sidecar", "append_orc", "append_partitioned", "pk_dv", "evolve_pk_dv", "pk_first_row"),
    *("map_index", "empty", "append_avro"),
)
DECIDED: Final = ("append_embedded", "append_dv32", "append_part_types")
"""Tables of which indexes, statistics and partitions decide some conditions."""


def listed(columns: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in columns)


def differs(query: dict[str, Any]) -> bool:
    """Whether the engine refuses a query or finds other rows than Spark's meaning has."""
    return bool(query.get("engine_error") or query.get("engine_differs"))


@pytest.mark.connector
@pytest.mark.parametrize(
    ("table", "zone"),
    [
        *((table, zone) for table in TIMED if table not in MERGED for zone in ZONES),
        *((table, "UTC") for table in IN_ONE_ZONE),
    ],
)
def test_rows_of_a_condition_that_prunes_are_the_connectors(tables: Golden, table: str, zone: str) -> None:
    session, columns = tables.session(zone), columns_of(table)
    wheres = [query["filter_sql"] for query in chosen(table, zone) if not differs(query)]
    shared = {"url": tables.url, "columns": listed(columns)}
    options = [shared if where is None else {**shared, "prune": where} for where in wheres]

    ours = session.load(f"main.golden.{table}", *zip(options, wheres, strict=True))

    read = f"SELECT {listed(columns)} FROM main.golden.{table} WHERE "  # noqa: S608 - our own
    assert ours == session.exactly(*(read + (where or "TRUE") for where in wheres))


@pytest.mark.connector
@pytest.mark.parametrize("table", DECIDED)
def test_a_condition_gives_its_rows_or_an_error(tables: Golden, table: str) -> None:
    session, columns = tables.session("Asia/Kolkata"), columns_of(table)
    shared = {"url": tables.url, "columns": listed(columns)}
    found, undecided = {}, 0
    for query in golden_cases.expected(table)["queries"][1::7]:
        where = query["filter_sql"]
        others = (query["tag"], query["branch"], query["topn"], query["limit"], query["snapshot_id"])
        if where is None or any(others) or differs(query):
            continue
        try:
            (found[where],) = session.load(f"main.golden.{table}", ({**shared, "where": where}, None))
        except SparkError as error:
            assert "UndecidedConditionError" in str(error)  # noqa: PT017 - either is right
            undecided += 1

    read = f"SELECT {listed(columns)} FROM main.golden.{table} WHERE "  # noqa: S608 - our own
    assert list(found.values()) == session.exactly(*(read + where for where in found))
    assert found
    assert undecided


@pytest.mark.connector
def test_columns_in_another_order(tables: Golden) -> None:
    session = tables.session()
    options = {"url": tables.url, "columns": "BATCH_NO, `score`"}

    (ours,) = session.load("main.golden.append_dv32", (options, None))

    assert [ours] == session.exactly("SELECT batch_no, score FROM main.golden.append_dv32")


@pytest.mark.connector
def test_versions_are_pinned(tables: Golden) -> None:
    numbers = [version["at"]["snapshot_id"] for version in golden_cases.expected("versions")["versions"]]
    pinned = [number for number in numbers if number is not None]
    session = tables.session()

    ours = session.load(
        "main.golden.versions",
        *(({"url": tables.url, "snapshot_id": str(number)}, None) for number in pinned),
    )

    assert ours == session.exactly(
        *(f"SELECT * FROM main.golden.versions VERSION AS OF {number}" for number in pinned)  # noqa: S608 - our own
    )


@pytest.mark.connector
def test_a_view_stays_with_its_snapshot_until_it_is_made_again(written: Written) -> None:
    session = written.session
    session.sql(
        "CREATE TABLE reading.viewed (id INT, `at` TIMESTAMP) TBLPROPERTIES ('file.format'='parquet', "
        "'deletion-vectors.enabled'='true')"
    )
    session.sql("INSERT INTO reading.viewed SELECT id, timestamp_seconds(id * 3600) FROM range(0, 100)")
    session.sql("DELETE FROM reading.viewed WHERE id % 10 = 3")
    view = (
        "CREATE OR REPLACE TEMPORARY VIEW viewed USING paimon_index OPTIONS "
        f"(path 'main.reading.viewed', url '{written.url}', "
        "prune \"`at` >= '1969-12-31T20:00:00-05:00'\")"
    )
    session.sql(view)
    session.sql("DELETE FROM reading.viewed WHERE id > 20")
    query = "SELECT count(*) AS count, min(id) AS least FROM viewed WHERE `at` >= '1969-12-31 20:00:00'"

    before = session.sql(query)
    session.sql(view)
    after = session.sql(query)

    # 20:00 in New York is one hour after the first row.
    assert before == [{"count": 89, "least": 1}]
    assert after == [{"count": 18, "least": 1}]


@pytest.mark.connector
def test_what_one_query_asks_is_not_kept_for_the_next(written: Written) -> None:
    session = written.session
    session.sql("CREATE TABLE reading.ten (a INT, b STRING) TBLPROPERTIES ('file.format'='parquet')")
    session.sql("INSERT INTO reading.ten SELECT id, CAST(id AS STRING) FROM range(0, 10)")
    session.sql(
        "CREATE OR REPLACE TEMPORARY VIEW ten USING paimon_index "
        f"OPTIONS (path 'main.reading.ten', url '{written.url}')"
    )

    counts = [
        session.sql(f"SELECT count(*) AS n FROM ten {rest}")[0]["n"]  # noqa: S608 - our own
        for rest in ("", "WHERE a = 3", "", "WHERE a = 3 OR b = '5'", "x JOIN ten y ON x.a = y.a")
    ]

    assert counts == [10, 1, 10, 2, 10]


@pytest.mark.connector
def test_char_columns_are_padded_and_compared_as_spark_does(written: Written) -> None:
    session = written.session
    session.sql("CREATE TABLE reading.padded (id INT, c CHAR(4)) TBLPROPERTIES ('file.format'='parquet')")
    session.sql("INSERT INTO reading.padded VALUES (1, 'c3'), (2, 'c3  '), (3, 'c33'), (4, NULL), (5, 'é')")
    wheres = ["c = 'c3'", "c IN ('c3', 'é')", "c LIKE 'c3'", "c LIKE 'c3%'", "c > 'c3'", "c <=> 'c3'"]

    ours = session.load(
        "main.reading.padded", *(({"url": written.url, "prune": where}, where) for where in wheres)
    )

    assert ours == session.exactly(*(f"SELECT * FROM reading.padded WHERE {where}" for where in wheres))  # noqa: S608 - our own
    assert len(ours[0]) == 2


WRONG: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "no url": ({"url": None}, "ValueError: paimon_index needs option url"),
    "unknown option": ({"were": "score = 1"}, "ValueError: paimon_index has no option were; it has branch"),
    "both conditions": ({"where": "score = 1", "prune": "score = 1"}, "one of the options where and prune"),
    "no number": ({"snapshot_id": "last"}, "ValueError: option snapshot_id of paimon_index is a number"),
    "unknown column": ({"columns": "nothing"}, "ValueError: there is no column nothing; the table has"),
    "no names": ({"columns": "score, , moment"}, "ValueError: option columns of paimon_index lists names"),
    "condition of an unknown column": ({"prune": "nothing = 1"}, "ServiceError: 422 filter"),
    "option that is gone": ({"time_zone": "UTC"}, "ValueError: paimon_index has no option time_zone"),
    "service down": ({"url": "nowhere"}, "UnavailableError: .* cannot be reached"),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_error_is_one_sentence(tables: Golden, case: str) -> None:
    changed, message = WRONG[case]
    options = {"url": tables.url, **changed}
    if options["url"] == "nowhere":
        options["url"] = nowhere()

    with pytest.raises(SparkError, match=f"AnalysisException: .*{message}") as raised:
        tables.session().load(
            "main.golden.append_dv32", ({name: text for name, text in options.items() if text}, None)
        )

    assert "Traceback" not in str(raised.value)


@pytest.mark.parametrize("table", [*REFUSED, *MERGED])
def test_what_is_not_read_exactly_is_refused(tables: Golden, table: str) -> None:
    reason = REFUSED.get(table, r"merged by key, which paimon_index\.spark\.read_table does")

    with pytest.raises(SparkError, match=f"UnsupportedTableError: .*{reason}.*paimon-spark"):
        tables.session().load(f"main.golden.{table}", ({"url": tables.url}, None))


_PLANS: Final = """
import base64, json, sys
from pyspark import cloudpickle
from paimon_index.spark.source import PaimonIndexSource

source = PaimonIndexSource(json.loads(sys.argv[1]))
schema = source.schema()
print(base64.b64encode(cloudpickle.dumps((source, schema))).decode())
"""
_READS: Final = """
import base64, json, sys
from pyspark import cloudpickle

source, schema = cloudpickle.loads(base64.b64decode(sys.stdin.read()))
reader = source.reader(schema)
tasks = reader.partitions()
sent = cloudpickle.dumps((source, reader))
_, again = cloudpickle.loads(sent)
rows = sum(batch.num_rows for task in tasks for batch in again.read(task))
print(json.dumps([rows, b"a-secret" in sent, b"bucket-0" in sent, "paimon_index" in sys.modules]))
"""


def test_tasks_need_nothing_of_the_client_and_get_no_token(tables: Golden) -> None:
    options = {"path": "main.golden.append_dv32", "url": tables.url, "token": "a-secret"}
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}

    planned = subprocess.run(  # noqa: S603 - our own program
        [str(spark_python()), "-c", _PLANS, json.dumps(options)],
        check=True,
        stdout=subprocess.PIPE,
        env=environment | {"PYTHONPATH": str(CLIENT)},
    ).stdout
    read = subprocess.run(  # noqa: S603 - our own program
        [str(spark_python()), "-c", _READS],
        check=True,
        input=planned,
        stdout=subprocess.PIPE,
        env=environment,
    ).stdout

    rows = golden_cases.expected("append_dv32")["queries"][0]["matching_count"]
    assert json.loads(read) == [rows, False, False, False]


def test_a_token_is_sent(tables: Golden, golden: GoldenWarehouse, tmp_path: Path) -> None:
    path = tokens.write(tmp_path / "tokens.json", tokens.entry("spark", "a-secret-of-spark"))
    settings = Settings.load(warehouses={"main": str(golden.root)}, tokens_file=str(path))
    with listening(create_app(settings), lifespan="on") as started:
        url = str(started.base_url)
        (rows,) = tables.session().load(
            "main.golden.versions", ({"url": url, "token": "a-secret-of-spark"}, None)
        )
        with pytest.raises(SparkError, match="ServiceError: 401 unauthorized"):
            tables.session().load("main.golden.versions", ({"url": url}, None))

    assert rows


_PROGRAM: Final = """
import json

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, InputPartition


class TenReader(DataSourceReader):
    def __init__(self):
        self.wanted = []

    def pushFilters(self, filters):
        for each in filters:
            if isinstance(each, EqualTo):
                self.wanted.append(each.value)
            yield each

    def partitions(self):
        return [InputPartition(number) for number in range(10) if not self.wanted or number in self.wanted]

    def read(self, partition):
        yield (partition.value,)


class Ten(DataSource):
    @classmethod
    def name(cls):
        return "ten"

    def schema(self):
        return "a int"

    def reader(self, schema):
        return TenReader()


settings = {
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
spark.dataSource.register(Ten)
rows = spark.read.format("ten").load()
print(json.dumps([rows.count(), rows.where("a = 3").count(), rows.count()]))
"""


@pytest.mark.xfail(strict=True, reason="Spark keeps filters that were pushed for later scans")
def test_filters_of_one_query_do_not_stay_for_the_next(tmp_path: Path) -> None:
    python = str(spark_python(NEWEST))
    program = tmp_path / "pushed.py"
    program.write_text(_PROGRAM)
    environment = os.environ | {"PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}

    done = subprocess.run(  # noqa: S603 - our own program
        [python, str(program)], check=False, capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    if done.returncode:
        pytest.fail(done.stderr)
    counts = json.loads(done.stdout.splitlines()[-1])

    assert counts == [10, 1, 10]


WHERES: Final = ("TRUE", "s.e IS NULL", "s IS NOT NULL AND s.e IS NULL", "s.e = 5", "get(list, 0).e IS NULL")
COLUMNS: Final = (None, ["s"], ["id", "list", "m"])


@pytest.mark.connector
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_fields_that_were_added_are_null(written: Written, file_format: str) -> None:
    session, table = written.session, "main.reading.nested"
    session.sql(
        "CREATE TABLE reading.nested (id INT, s STRUCT<a: INT, b: STRING>, list ARRAY<STRUCT<a: INT>>, "
        f"m MAP<STRING, STRUCT<a: INT>>) TBLPROPERTIES ('file.format'='{file_format}')"
    )
    session.sql(
        "INSERT INTO reading.nested VALUES (1, named_struct('a', 1, 'b', 'x'), array(named_struct('a', 1), "
        "NULL), map('k', named_struct('a', 1))), (2, NULL, NULL, NULL), "
        "(3, named_struct('a', NULL, 'b', NULL), array(), map('k', NULL))"
    )
    for added in ("s.e INT AFTER a", "list.element.e STRING", "m.value.e STRUCT<f: INT>"):
        session.sql(f"ALTER TABLE reading.nested ADD COLUMN {added}")
    session.sql(
        "INSERT INTO reading.nested VALUES (4, named_struct('a', 4, 'e', 5, 'b', 'y'), array(named_struct("
        "'a', 4, 'e', 'z')), map('k', named_struct('a', 4, 'e', named_struct('f', 6))))"
    )
    asked = [{"where": where, "columns": columns} for where in WHERES for columns in COLUMNS]

    auto, rows = (
        session.read(written.url, table, *({**each, "reader": reader} for each in asked))
        for reader in ("auto", "rows")
    )
    loaded = session.load(table, *(({"url": written.url}, where) for where in WHERES))

    shown = [", ".join(columns or "*") for columns in COLUMNS]
    read = "SELECT {} FROM reading.nested WHERE {}"
    expected = session.exactly(*(read.format(names, where) for where in WHERES for names in shown))
    assert auto == expected
    assert rows == expected
    assert loaded == expected[:: len(COLUMNS)]
    assert [len(each) for each in loaded] == [4, 3, 2, 1, 3]


def test_a_python_that_lacks_this_package_is_named(tmp_path: Path) -> None:
    """Spark's own message would be a traceback from the process that makes sources."""
    other = tmp_path / "python-elsewhere"
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    python = str(spark_python())
    program = "import sys; from paimon_index.spark.refusals import check_python; check_python(sys.argv[1])"

    def checked(executable: str) -> str:
        done = subprocess.run(  # noqa: S603 - our own program
            [python, "-c", program, executable],
            check=False,
            capture_output=True,
            text=True,
            env=os.environ | {"PYTHONPATH": str(CLIENT)},
        )
        return done.stderr.strip().rpartition("\n")[2]

    assert checked(python) == ""
    assert f"in {other}, which has no paimon_index: set PYSPARK_PYTHON={python} before" in checked(str(other))
