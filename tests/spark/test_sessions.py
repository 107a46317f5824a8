"""The sessions that other tests here compare with: each has a time zone of its own and sees all tables."""

from __future__ import annotations

import pytest

from tests.spark.sessions import Spark, SparkError

pytestmark = [pytest.mark.spark, pytest.mark.shared]


def test_each_session_has_its_time_zone(spark: Spark) -> None:
    new_york, kolkata = spark.session("America/New_York"), spark.session("Asia/Kolkata")
    midnight = "SELECT date_format(timestamp_seconds(1740787200), 'yyyy-MM-dd HH:mm') AS shown"
    assert new_york.sql(midnight) == [{"shown": "2025-02-28 19:00"}]
    assert kolkata.sql(midnight) == [{"shown": "2025-03-01 05:30"}]


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
