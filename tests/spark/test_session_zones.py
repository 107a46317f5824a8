"""A session's dates and timestamps: our rows are those that Spark's session of the same time zone reads."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow.parquet
import pytest

from app.planning.request.requests import PlanRequest, TableRef
from app.planning.service import IndexService
from tests.spark.served_tables import Written
from tests.spark.sessions import Spark, SparkError, SparkSession
from tests.tables import open_service

pytestmark = [pytest.mark.spark, pytest.mark.long]

ZONES: Final = ("America/New_York", "Asia/Kolkata", "America/Sao_Paulo", "-03:30")
MOMENTS: Final = (
    "2025-03-09 01:30:00",
    "2025-03-09 02:30:00",  # never shown in New York
    "2025-03-09 03:00:00",
    "2025-11-02 01:30:00",  # shown twice in New York
    "2025-11-02 02:00:00",
    "2018-11-04 00:00:00",  # never shown in Sao Paulo
    "2018-11-04 00:30:00",
)
OTHER_CONDITIONS: Final = (
    "ltz < '2025-03-09'",
    "ltz = '2025-03-09'",
    "ltz >= DATE '2018-11-04' AND ltz < DATE '2018-11-05'",
    "ltz = '2025-03-09 02:30:00+05:30'",
    "ltz <= TIMESTAMP '2025-11-02 01:30:00 America/New_York'",
    "ltz BETWEEN '2025-03-09 01:00:00' AND TIMESTAMP_NTZ '2025-03-09 04:00:00'",
    "ltz IN (DATE '2025-03-09', TIMESTAMP '2025-11-02 01:30:00')",
    "ltz NOT IN (DATE '2025-03-09', TIMESTAMP '2025-11-02 01:30:00')",
    "ltz IN ('2025-11-02 01:30:00', '2025-03-09 00:00:00')",
    "d = TIMESTAMP '2018-11-04 00:00:00'",
    "d <= TIMESTAMP '2018-11-04 01:00:00'",
    "d = CAST(TIMESTAMP '2025-03-09 03:00:00Z' AS DATE)",
    "d IN (DATE '2025-03-09', TIMESTAMP '2025-11-02 00:00:00')",
    "ntz IN (DATE '2025-03-09', TIMESTAMP '2025-11-02 01:30:00')",
    "ntz NOT IN (DATE '2025-03-09', TIMESTAMP '2025-11-02 01:30:00')",
    "ntz = CAST(TIMESTAMP '2025-03-09 03:00:00Z' AS TIMESTAMP_NTZ)",
    "NOT (ltz < '2025-03-09 02:30:00' OR ntz >= TIMESTAMP '2025-03-09 02:30:00')",
    "p = '2025-03-09'",
    "p >= TIMESTAMP '2025-03-09 01:00:00'",
)
CONDITIONS: Final = (
    *(
        f"{column} {symbol} {kind} '{moment}'"
        for moment in MOMENTS
        for column in ("ltz", "ntz", "d")
        for symbol, kind in (("<", "TIMESTAMP"), ("=", "TIMESTAMP"), (">=", "TIMESTAMP_NTZ"))
    ),
    *(f"ltz {symbol} '{moment}'" for moment in MOMENTS for symbol in ("=", "<=")),
    *OTHER_CONDITIONS,
)


class Times(NamedTuple):
    spark: Spark
    service: IndexService


@pytest.fixture(scope="module")
def times(spark: Spark) -> Iterator[Times]:
    """Ten minutes apart around the changes of clocks, in files of about a hundred rows with indexes."""
    writer = spark.session("UTC")
    writer.sql("CREATE DATABASE zones")
    writer.sql(
        "CREATE TABLE zones.times (id BIGINT, d DATE, ntz TIMESTAMP_NTZ, ltz TIMESTAMP, p DATE) "
        "PARTITIONED BY (p) TBLPROPERTIES ('file.format'='parquet', "
        "'file-index.in-manifest-threshold'='1 MB', 'file-index.range-bitmap.columns'='ntz,ltz', "
        "'file-index.bitmap.columns'='d')"
    )
    # 2025-03-08, 2025-11-01 and 2018-11-03, each with the two days behind it.
    writer.sql(
        "INSERT INTO zones.times SELECT /*+ REPARTITION_BY_RANGE(12, id) */ id, CAST(at AS DATE), "
        "CAST(at AS TIMESTAMP_NTZ), at, CAST(at AS DATE) FROM (SELECT start * 1000L + step AS id, "
        "timestamp_seconds(start + step * 600) AS at FROM range(0, 432) AS steps(step) "
        "CROSS JOIN (VALUES (1741392000), (1761955200), (1541203200)) AS starts(start))"
    )
    service = open_service(spark.warehouse, time_zone=None)
    yield Times(spark, service)
    service.close()


def selected(times: Times, condition: str, zone: str | None) -> tuple[set[int], bool]:
    """The ids of the selected rows, and whether all of them are proven to match."""
    request = PlanRequest(filter=condition, time_zone=zone)
    plan = times.service.plan(TableRef("golden", "zones", "times"), request)
    ids: set[int] = set()
    for file in plan.files:
        found = pyarrow.parquet.read_table(
            times.spark.warehouse / file.path, columns=["id"], partitioning=None
        )
        column = found["id"].to_pylist()
        positions = range(len(column)) if file.selection is None else file.selection
        ids.update(column[at] for at in positions)
    return ids, not any(file.residual for file in plan.files)


def matching(session: SparkSession) -> dict[str, set[int]]:
    """For each condition the ids of the rows that match, all of them in one query."""
    tests = ", ".join(f"coalesce({condition}, FALSE)" for condition in CONDITIONS)
    rows = session.sql(f"SELECT id, array({tests}) AS found FROM zones.times")  # noqa: S608 - our own conditions
    return {
        condition: {row["id"] for row in rows if row["found"][number]}
        for number, condition in enumerate(CONDITIONS)
    }


@pytest.mark.connector
@pytest.mark.parametrize("zone", ZONES)
def test_the_rows_are_those_of_the_session(times: Times, zone: str) -> None:
    expected = matching(times.spark.session(zone))
    for condition, wanted in expected.items():
        ids, exact = selected(times, condition, zone)
        assert wanted <= ids, condition
        assert not exact or ids == wanted, condition

        somewhere, exact = selected(times, condition, None)
        assert wanted <= somewhere, condition
        assert not exact or somewhere == wanted, condition


@pytest.mark.connector
def test_most_of_it_is_proven(times: Times) -> None:
    exact = [selected(times, condition, "America/New_York")[1] for condition in CONDITIONS]

    assert sum(exact) >= len(CONDITIONS) - 12


@pytest.mark.connector
@pytest.mark.parametrize("condition", OTHER_CONDITIONS)
def test_the_connector_reads_the_same_rows(times: Times, condition: str) -> None:
    query = f"SELECT id FROM zones.times WHERE {condition}"  # noqa: S608 - our own conditions
    read = {row["id"] for row in times.spark.session("America/New_York").sql(query)}

    ids, exact = selected(times, condition, "America/New_York")

    assert read <= ids
    assert not exact or read == ids


CALLS: Final = {
    "startswith(name, 'b')": "startswith",
    "`StartsWith` /* ( */ (name, 'b')": "startswith",
    "id BETWEEN 3 AND 4": "between",
}


@pytest.mark.connector
def test_a_condition_that_names_a_hidden_function_skips_nothing(written: Written) -> None:
    session, table = written.session, "main.reading.named"
    session.sql("CREATE TABLE reading.named (id INT, name STRING) TBLPROPERTIES ('file.format'='parquet')")
    session.sql("INSERT INTO reading.named VALUES (1, 'a'), (2, 'ab')")
    session.sql("INSERT INTO reading.named VALUES (3, 'b'), (4, 'bc')")
    asked = [{"where": where} for where in CALLS]

    usual = session.read(written.url, table, *asked)
    for name in ("startswith", "between", "of_mine"):
        session.register_true(name)
    hidden = session.read(written.url, table, *asked)
    funnels = [
        session.explain(written.url, table, where=where) for where in (*CALLS, "of_mine(name) AND id > 2")
    ]

    assert [len(rows) for rows in usual] == [2, 2, 2]
    assert [len(rows) for rows in hidden] == [4, 4, 4]
    # What the service knows nothing of keeps files, and the rest of the condition skips some.
    skips = [any(line.startswith("statistics") for line in lines) for lines in funnels]
    assert skips == [False, False, False, True]


def test_each_session_has_its_time_zone(spark: Spark) -> None:
    new_york, kolkata = spark.session("America/New_York"), spark.session("Asia/Kolkata")
    midnight = "SELECT date_format(timestamp_seconds(1740787200), 'yyyy-MM-dd HH:mm') AS shown"
    assert new_york.sql(midnight) == [{"shown": "2025-02-28 19:00"}]
    assert kolkata.sql(midnight) == [{"shown": "2025-03-01 05:30"}]


@pytest.mark.connector
def test_tables_lie_in_the_warehouse_and_are_there_for_every_session(spark: Spark) -> None:
    writer, reader = spark.session(), spark.session("Asia/Kolkata")
    writer.sql("CREATE DATABASE sessions")
    writer.sql("CREATE TABLE sessions.numbers (id INT, name STRING) TBLPROPERTIES ('file.format'='parquet')")
    writer.sql("INSERT INTO sessions.numbers VALUES (1, 'one'), (2, NULL)")
    assert reader.sql("SELECT * FROM sessions.numbers ORDER BY id") == [
        {"id": 1, "name": "one"},
        {"id": 2, "name": None},
    ]
    assert (spark.warehouse / "sessions.db" / "numbers" / "snapshot").is_dir()


def test_what_spark_refuses_is_an_error_with_its_message(spark: Spark) -> None:
    with pytest.raises(SparkError, match="nowhere"):
        spark.session().sql("SELECT * FROM nowhere.numbers")
