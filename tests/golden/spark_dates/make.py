"""Asks Spark for dates and truncated times around changes of clocks: ``answers.json`` and ``functions.json``.

Run it in an environment with pyspark 4.0 and Java 17, from any directory::

    python tests/golden/spark_dates/make.py

Each case is a zone and a clock near which it changes. Of each condition the file has what Spark finds in any of its
modes, with a character a row: ``1`` true, ``0`` false, ``-`` NULL. The modes are: as Spark is, without the
optimizer's rule that compares the column itself, and without ANSI.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
from importlib import import_module
from pathlib import Path
from typing import Any

CASES = (
    ("America/New_York", "2025-03-09 02:00"),
    ("America/New_York", "2025-11-02 02:00"),
    ("America/Sao_Paulo", "2018-11-04 00:00"),
    ("America/Sao_Paulo", "2018-02-18 00:00"),
    ("America/St_Johns", "2006-10-29 00:01"),
    ("America/Havana", "2020-11-01 01:00"),
    ("Asia/Gaza", "2019-10-26 01:00"),
    ("Pacific/Apia", "2011-12-30 00:00"),
    ("Europe/Paris", "1969-12-31 23:00"),
    ("+05:30", "2021-01-01 00:00"),
)
CONDITIONS = (
    "date({c}) = '{d}'",
    "CAST({c} AS DATE) <> DATE '{d}'",
    "to_date({c}) < '{d}'",
    "DATE '{d}' < date({c})",
    "date({c}) <= date('{d}')",
    "NOT (date({c}) >= '{d}')",
    "date({c}) <=> DATE '{d}'",
    "date({c}) IN ('{d}', '{e}')",
    "date({c}) NOT IN (DATE '{d}', DATE '{e}')",
    "date({c}) BETWEEN '{e}' AND '{d}'",
    "date({c}) NOT BETWEEN '{e}' AND '{d}'",
    "date({c}) > DATE '{d}' - INTERVAL 1 DAY",
    "date({c}) >= date_sub(DATE '{d}', 1 + 1)",
    "date({c}) < DATE '{d}' - INTERVAL '1' MONTH",
    "date({c}) >= TIMESTAMP '{d} 00:30:00'",
    "date({c}) = TIMESTAMP_NTZ '{d} 00:00:00'",
    "date({c}) IS NULL",
    "year({c}) = {y}",
    "year({c}) <> {y}",
    "year({c}) > {y} - 1",
    "year({c}) <= {y}.5",
    "year({c}) IN ({y}, '1999')",
    "year({c}) NOT IN ({y}e0, '1999')",
    "year({c}) BETWEEN {y} AND {y} + 1",
    "{c} IN (TIMESTAMP '{t}', '1999-01-01')",
    "{c} NOT IN (TIMESTAMP_NTZ '{t}', '1999-01-01')",
)
FUNCTIONS = (
    "date_trunc('day', {c}) = '{d}'",
    "date_trunc('DD', {c}) <> '{d} 00:30:00'",
    "date_trunc('day', {c}) < TIMESTAMP '{d}'",
    "DATE '{d}' <= Date_Trunc('day', {c})",
    "NOT (date_trunc('day', {c}) > TIMESTAMP_NTZ '{d} 00:00:00')",
    "date_trunc('day', {c}) <=> '{d}'",
    "date_trunc('day', {c}) IN (DATE '{d}', TIMESTAMP '{e}')",
    "date_trunc('day', {c}) NOT IN (DATE '{d}', DATE '{e}')",
    "date_trunc('day', {c}) IN ('{d}', '{e}')",
    "date_trunc('day', {c}) BETWEEN '{e}' AND '{d}'",
    "date_trunc('day', {c}) NOT BETWEEN '{e}' AND '{d} 12:00:00'",
    "date_trunc('week', {c}) <= '{d}'",
    "date_trunc('month', {c}) = '{m}'",
    "date_trunc('MM', {c}) > '{d}'",
    "date_trunc('quarter', {c}) < '{d}'",
    "date_trunc('year', {c}) >= '{y}-01-01'",
    "date_trunc('hour', {c}) = '{t}'",
    "date_trunc('hour', {c}) < '{t}'",
    "date_trunc('minute', {c}) > TIMESTAMP '{t}'",
    "date_trunc('decade', {c}) = '{t}'",
    "year({c}) = {y} AND month({c}) = {n}",
    "year({c}) = {y} AND NOT (month({c}) >= {n})",
    "month({c}) NOT IN ({n}, 1) AND year({c}) = {y}",
    "{c}::date = '{d}'::date",
)
TEXTS = (
    "substring(s, 1, 7) = '{m:.7}'",
    "substr(s, -2) <> '01'",
    "substring(s, 0, 4) < '{y}'",
    "left(s, 7) IN ('{d:.7}', '{e:.7}')",
    "NOT (left(s, 10) <=> '{d}')",
    "to_date(s) > '{d}'",
    "s::date NOT BETWEEN '{e}' AND '{d}'",
    "to_date(s, 'yyyy-MM-dd') = DATE '{d}'",
    "date_format(s, 'yyyyMM') >= '{y}10'",
    "date_format(d, 'yyyy-MM-dd') = '{d}'",
    "date_format(d, 'dd') <> '01'",
    "year(s) = {y}",
    "month(s) > {n}",
    "month(d) = {n}",
    "substring(d, 1, 7) = '{m:.7}'",
    "n > '{d}T00:30:00Z'",
    "n BETWEEN '{e} 00:00:00-03:00' AND '{d}T00:00:00Z'",
    "n <> '{t}+01:00'",
)
MODES = (
    {"spark.sql.ansi.enabled": "true"},
    {
        "spark.sql.ansi.enabled": "true",
        "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.UnwrapCastInBinaryComparison",
    },
    {"spark.sql.ansi.enabled": "false"},
)
MINUTES = (0, 30, 59, 60, 120, 300, 1380, 1440, 1500)
EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock
ROW = (
    "i, timestamp_micros(instant) AS z, date_from_unix_date(day) AS d, date_from_unix_date(day)::string AS s, TIMESTAMP_NTZ '1970-01-01 00:00:00' + "
    "(clock div 86400000000) * INTERVAL '1' DAY + (clock % 86400000000) * INTERVAL '0.000001' SECOND AS n"
)


def conditions(around: dt.datetime, forms: tuple[str, ...]) -> list[str]:
    """The conditions for a change of clocks, of each column: ``n`` without time zone, ``z`` with, ``d`` a date."""
    days = [(around + dt.timedelta(days=each)).date() for each in (0, -1)]
    clocks = [around - dt.timedelta(minutes=each) for each in (30, 0)]
    columns = "d" if forms == TEXTS else "nzd"
    return [
        each.format(
            c=column,
            d=days[at % 2].isoformat(),
            e=days[1 - at % 2].isoformat(),
            m=days[0].replace(day=1).isoformat(),
            y=around.year,
            n=around.month,
            t=clocks[at % 2].isoformat(" "),
        )
        for column in columns
        for at, each in enumerate(forms, ord(column))
        if column != "d" or forms != CONDITIONS or "{t}" not in each
    ]


def rows(spark: Any, around: dt.datetime) -> list[tuple[int, int, int, int]]:
    """Number, clock, instant and day of each row; clocks and instants in microseconds."""
    middle = (around - EPOCH) // dt.timedelta(microseconds=1)
    shown = spark.sql(f"SELECT unix_micros(TIMESTAMP '{around.isoformat(' ')}')").collect()[0][0]
    aside = sorted({sign * each * 60_000_000 + off for each in MINUTES for sign in (-1, 1) for off in (-1, 0)})
    return [
        (at, middle + each, shown + each, middle // 86_400_000_000 - 3 + at % 7)
        for at, each in enumerate(aside)
    ]


def main() -> None:
    logging.disable()
    builder = import_module("pyspark.sql").SparkSession.builder
    spark = builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    for name, forms in (("answers", (CONDITIONS,)), ("functions", (FUNCTIONS, TEXTS))):
        cases = ",\n".join(json.dumps(case(spark, zone, clock, forms)) for zone, clock in CASES)
        text = f'{{"spark": "{spark.version}", "cases": [\n{cases}\n]}}\n'
        (Path(__file__).parent / f"{name}.json").write_text(text)


def case(spark: Any, zone: str, clock: str, forms: tuple[tuple[str, ...], ...]) -> dict[str, Any]:
    """What Spark finds around a change of clocks in a zone."""
    around = dt.datetime.fromisoformat(clock)
    spark.conf.set("spark.sql.session.timeZone", zone)
    made = rows(spark, around)
    table = spark.createDataFrame(made, "i INT, clock LONG, instant LONG, day INT")
    table.createOrReplaceTempView("made")
    table = spark.sql(f"SELECT {ROW} FROM made").localCheckpoint()
    asked = [condition for each in forms for condition in conditions(around, each)]
    answers: dict[str, set[str]] = {each: set() for each in asked}
    for mode in MODES:
        for name in ("spark.sql.ansi.enabled", "spark.sql.optimizer.excludedRules"):
            spark.conf.set(name, mode.get(name, ""))
        got = table.orderBy("i").selectExpr(*(f"({each}) AS c{at}" for at, each in enumerate(asked))).collect()
        for at, each in enumerate(asked):
            answers[each].add("".join({True: "1", False: "0", None: "-"}[row[at]] for row in got))
    values = {"n": [row[1] for row in made], "z": [row[2] for row in made], "d": [row[3] for row in made]}
    return {"zone": zone, "values": values, "answers": {each: sorted(told) for each, told in answers.items()}}


if __name__ == "__main__":
    main()
