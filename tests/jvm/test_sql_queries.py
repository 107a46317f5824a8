"""SQL of all shapes over tables that Spark writes: planned by the service, it has the rows of the engine."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from app.main import create_app
from app.settings import Settings
from tests import golden_cases
from tests.api.conftest import listening
from tests.golden_cases import GoldenWarehouse
from tests.jvm.sql_sessions import Compared, SqlSession, SqlSpark
from tests.spark.served_tables import ELSEWHERE, TIMED, ZONES, columns_of

pytestmark = [pytest.mark.jvm, pytest.mark.connector]

_COLUMNS: Final = """
    id INT NOT NULL, b BOOLEAN, ti TINYINT, si SMALLINT, bi BIGINT, f FLOAT, d DOUBLE, num DECIMAL(12, 2),
    big DECIMAL(38, 10), s STRING, c CHAR(8), v VARCHAR(12), bin BINARY, dt DATE, ts TIMESTAMP,
    ntz TIMESTAMP_NTZ, items ARRAY<INT>, m MAP<STRING, INT>, st STRUCT<x: INT, y: STRING>, part STRING
"""
_INDEXES: Final = """
    'file-index.bloom-filter.columns' = 'ti,si,bi,f,d,s,c,v,bin,dt,ts,ntz,m[k]',
    'file-index.bitmap.columns' = 'b,ti,s,c,dt', 'file-index.range-bitmap.columns' = 'si,f,d,num,v,ts,ntz',
    'file-index.bsi.columns' = 'bi,num', 'file-index.bloom-filter.items' = '500'
"""
# A row for each number; the numbers of a file are near each other, those of some columns are not.
_ROWS: Final = """
    SELECT {hint} CAST(id AS INT), IF(id % 7 = 0, NULL, id < 100), CAST(id / 4 AS TINYINT),
    IF(id % 13 = 0, NULL, CAST(id * 37 % 480 AS SMALLINT)), id * 100000000000,
    CASE WHEN id % 101 = 0 THEN float('NaN') WHEN id = 200 THEN float('-0.0') WHEN id = 300 THEN 0.0F
      ELSE CAST(id / 4 AS FLOAT) END,
    CASE WHEN id = 33 THEN double('NaN') WHEN id = 44 THEN double('-Infinity') WHEN id = 55 THEN -0.0D
      ELSE id / 8.0D END,
    CAST(id * 1.1 AS DECIMAL(12, 2)), CAST(id * 1000000000000.5 AS DECIMAL(38, 10)),
    CASE WHEN id % 11 = 0 THEN NULL WHEN id % 50 = 0 THEN '' WHEN id = 7 THEN 'a%b_\\\\c'
      WHEN id = 8 THEN 'Ö\\'日本'
      ELSE format_string('s%04d', id) END,
    concat('c', CAST(id / 40 AS INT)), concat('v', CAST(id / 20 AS INT), IF(id % 20 = 0, ' ', '')),
    encode(concat('b', id), 'utf-8'), date_add(DATE '2025-03-01', CAST(id / 24 AS INT)),
    timestamp_seconds(1741305600 + id * 1800),
    CAST(timestamp_seconds(1741305600 + id * 1800) AS TIMESTAMP_NTZ),
    array(CAST(id AS INT), 1), map('k', CAST(id / 9 AS INT)),
    named_struct('x', CAST(id AS INT), 'y', concat('y', id)),
    concat('p', CAST(id / 160 AS INT)) FROM range({first}, {last})
"""
_TABLES: Final = {
    "append": "'file-index.in-manifest-threshold' = '1 MB'",
    "sides": "'deletion-vectors.enabled' = 'true', 'file-index.in-manifest-threshold' = '1 B'",
    "merged": "'primary-key' = 'id', 'bucket' = '3', 'num-sorted-run.compaction-trigger' = '20'",
    "vectors": "'primary-key' = 'id', 'bucket' = '3', 'deletion-vectors.enabled' = 'true'",
}
_VALUES: Final = {
    "id": ("77", "80", "-1"),
    "b": ("TRUE", "FALSE"),
    "ti": ("CAST(17 AS TINYINT)", "19", "1000"),
    "si": ("170S", "171"),
    "bi": ("7700000000000", "5"),
    "f": ("25.5F", "25.6F", "float('NaN')"),
    "d": ("9.625D", "double('NaN')", "9.7"),
    "num": ("84.70", "84.705", "85"),
    "big": ("77000000000038.5", "1"),
    "s": ("'s0077'", "'s0079'", "''", "'a%b_\\\\c'", "'Ö\\'日本'"),
    "c": ("'c3'", "'c3      '", "'c33'"),
    "v": ("'v3 '", "'v3'", "'v4'"),
    "bin": ("X'623737'", "X'00'"),
    "dt": ("DATE '2025-03-09'", "'2025-03-10'", "TIMESTAMP '2025-03-09 01:00:00'"),
    "ts": ("TIMESTAMP '2025-03-09 02:30:00'", "'2025-03-10'", "TIMESTAMP_NTZ '2025-03-09 03:00:00'"),
    "ntz": ("TIMESTAMP_NTZ '2025-03-09 02:30:00'", "DATE '2025-03-10'", "TIMESTAMP '2025-03-09 03:00:00'"),
    "st.x": ("77", "80"),
    "items[0]": ("77", "80"),
    "m['k']": ("8", "9"),
    "part": ("'p1'", "'p9'"),
}
_TIMED: Final = ("dt", "ts", "ntz")
_FORMS: Final = (
    "{column} = {value}",
    "{column} <> {value}",
    "{column} < {value}",
    "NOT ({column} < {value})",
    "{column} <=> {value}",
    "{column} IN ({value}, {other})",
    "{column} NOT IN ({value}, {other})",
    "{column} BETWEEN {value} AND {other}",
    "{column} IS NULL OR {column} = {value}",
    "part = 'p0' AND {column} <= {value}",
)
_CONDITIONS: Final = (
    "s LIKE 's00%'",
    "s LIKE '%77'",
    "s LIKE 'a\\\\%b\\\\_%'",
    "s NOT LIKE 's%'",
    "startswith(s, 's007')",
    "upper(s) = 'S0077'",
    "s > 's0470' OR s < 's0005'",
    "s = 's0077' OR si = 170",
    "s = 's0077' AND si = 409",
    "s = 's0077' OR s IS NULL",
    "coalesce(s, 'none') = 'none'",
    "id + 1 = 78",
    "CAST(id AS STRING) = '77'",
    "id = '77'",
    "bi > id",
    "st IS NULL",
    "st.y = 'y77'",
    "array_contains(items, 77)",
    "size(m) = 1 AND m['k'] = 8",
    "date_trunc('DAY', ts) = '2025-03-09'",
    "year(dt) = 2025 AND day(dt) = 9",
    "NOT (id > 5 AND s <> 's0470')",
    "id IN (" + ", ".join(map(str, range(0, 480, 9))) + ")",
    "si = NULL",
    "TRUE",
    "id = 77 AND id = 78",
)
_SHAPES: Final = (
    "SELECT a.id, b.s FROM {t} a JOIN {t} b ON a.id = b.id WHERE a.s = 's0077'",
    "SELECT a.id, b.s FROM {t} a LEFT JOIN {t} b ON a.id = b.si AND b.ti = 3 WHERE a.id < 30",
    "SELECT a.id FROM {t} a FULL JOIN {c}.db.merged b ON a.si = b.si WHERE a.s = 's0077' OR b.s = 's0078'",
    "SELECT id FROM {t} a LEFT SEMI JOIN {c}.db.append b ON a.si = b.id AND b.s = 's0077'",
    "SELECT id FROM {t} a LEFT ANTI JOIN {c}.db.append b ON a.si = b.id AND b.v = 'v3'",
    "SELECT id FROM {t} WHERE si IN (SELECT si FROM {c}.db.append WHERE s IN ('s0077', 's0099'))",
    "SELECT id FROM {t} WHERE si NOT IN (SELECT id FROM {c}.db.append WHERE id < 20) AND ti = 12",
    "SELECT id FROM {t} a WHERE EXISTS (SELECT 1 FROM {c}.db.append b WHERE b.id = a.si AND b.s = 's0077')",
    "SELECT id FROM {t} a WHERE NOT EXISTS (SELECT 1 FROM {c}.db.append b WHERE b.id = a.id AND b.ti < 100)",
    "SELECT id FROM {t} WHERE id = (SELECT max(id) FROM {c}.db.append WHERE s = 's0077')",
    "SELECT id, (SELECT count(*) FROM {c}.db.append b WHERE b.si = a.si AND ti < 9) FROM {t} a WHERE ti = 12",
    "WITH few AS (SELECT * FROM {t} WHERE si < 20) SELECT x.id, y.s FROM few x JOIN few y ON x.ti = y.ti",
    "SELECT count(*), sum(bi), min(s), max(ts) FROM {t} WHERE s = 's0077'",
    "SELECT count(*) FROM {t}",
    "SELECT count(*), min(id), max(id) FROM {t} WHERE part = 'p1'",
    "SELECT part, count(*), count(DISTINCT c), sum(num) FROM {t} WHERE si < 99 GROUP BY 1 HAVING sum(id) > 1",
    "SELECT c, v, count(*) FROM {t} WHERE ti > 100 GROUP BY ROLLUP (c, v)",
    "SELECT id, row_number() OVER (PARTITION BY part ORDER BY id) FROM {t} WHERE si < 40",
    "SELECT DISTINCT c FROM {t} WHERE si IN (1, 2, 3)",
    "SELECT id, s FROM {t} ORDER BY id LIMIT 5",
    "SELECT id, s FROM {t} WHERE si < 200 ORDER BY num DESC, id LIMIT 7",
    "SELECT id FROM {t} WHERE ts > '2025-03-10' ORDER BY ts LIMIT 3 OFFSET 2",
    "SELECT count(*) FROM (SELECT id FROM {t} WHERE si < 300 LIMIT 4)",
    "SELECT id FROM {t} WHERE s = 's0077' UNION ALL SELECT id FROM {t} WHERE s = 's0078'",
    "SELECT id FROM {t} WHERE si < 50 EXCEPT SELECT id FROM {t} WHERE ti < 50",
    "SELECT id FROM {t} WHERE si < 50 INTERSECT SELECT id FROM {t} WHERE ti < 50",
    "SELECT x FROM {t} LATERAL VIEW explode(items) e AS x WHERE s = 's0077'",
    "SELECT st.y, m['k'] FROM {t} WHERE st.x = 77",
    "SELECT id FROM {t} VERSION AS OF 1 WHERE s = 's0077'",
    "SELECT id, s FROM {t} VERSION AS OF 'first' WHERE si < 20",
    "SELECT id, s FROM {t} TIMESTAMP AS OF '2999-01-01' WHERE si < 20",
    "SELECT id FROM {t} VERSION AS OF 1 WHERE id NOT IN (SELECT id FROM {t} WHERE ti >= 0)",
    "SELECT id, s FROM {c}.db.`{n}$branch_side` WHERE si < 20",
    "SELECT id, s FROM {c}.db.`{n}$ro` WHERE si < 20",
    "SELECT id, s FROM {c}.db.`{n}$audit_log` WHERE si < 20",
    "SELECT snapshot_id, commit_kind FROM {c}.db.`{n}$snapshots` WHERE snapshot_id > 1",
    "SELECT file_path, record_count FROM {c}.db.`{n}$files` WHERE record_count > 1",
    "SELECT * FROM {c}.db.`{n}$tags`",
    "SELECT * FROM {c}.db.`{n}$options`",
    "SELECT * FROM {c}.db.`{n}$schemas`",
    "SELECT partition, record_count FROM {c}.db.`{n}$partitions`",
    "SELECT * FROM {c}.db.`{n}$manifests`",
    "SELECT * FROM paimon_incremental_query('{c}.db.{n}', 1, 2) WHERE si < 100",
    "SELECT input_file_name() <> '', id FROM {t} WHERE s = 's0077'",
    "SELECT __paimon_file_path, __paimon_row_index, id FROM {t} WHERE s = 's0077'",
    "SELECT id FROM {t} TABLESAMPLE (100 PERCENT) WHERE s = 's0077'",
)
_READ_OPTIONS: Final = (
    ("scan.snapshot-id", "1"),
    ("scan.tag-name", "first"),
    ("scan.version", "1"),
    ("scan.timestamp-millis", "4102444800000"),
    ("scan.mode", "latest-full"),
    ("scan.mode", "compacted-full"),
    ("scan.fallback-branch", "side"),
    ("branch", "side"),
    ("incremental-between", "1,2"),
    ("deletion-vectors.merge-on-read", "true"),
    ("file-index.read.enabled", "false"),
    ("read.batch-size", "7"),
    ("source.split.target-size", "1 kb"),
    ("scan.plan-sort-partition", "true"),
    ("query-auth.enabled", "true"),
    ("consumer-id", "me"),
)


class Written(NamedTuple):
    uri: str
    spark: SqlSpark
    warehouse: Path

    def session(self, zone: str = "UTC", **settings: str) -> SqlSession:
        named = {f"spark.paimon.{name}": value for name, value in settings.items()}
        return self.spark.session(self.warehouse, self.uri, zone, named)


@pytest.fixture(scope="module")
def written(spark: SqlSpark, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    warehouse = tmp_path_factory.mktemp("queries")
    with listening(create_app(Settings.load(warehouses={"main": str(warehouse)})), lifespan="on") as started:
        tables = Written(str(started.base_url).rstrip("/"), spark, warehouse)
        session = tables.session()
        session.sql("CREATE DATABASE plain.db")
        for name, options in _TABLES.items():
            write(session, name, options)
        yield tables


def write(session: SqlSession, name: str, options: str) -> None:
    """Twelve files or more in three snapshots, of which the first has a tag, and a branch with other rows."""
    table = f"plain.db.{name}"
    hint = "/*+ REPARTITION_BY_RANGE(12, id) */"
    session.sql(
        f"CREATE TABLE {table} ({_COLUMNS}) TBLPROPERTIES ({options}, {_INDEXES})",
        f"INSERT INTO {table} " + _ROWS.format(hint=hint, first=0, last=400),
        f"CALL plain.sys.create_tag(table => 'db.{name}', tag => 'first', snapshot => 1)",
        f"CALL plain.sys.create_branch('db.{name}', 'side', 'first')",
        f"INSERT INTO plain.db.`{name}$branch_side` " + _ROWS.format(hint="", first=500, last=510),
        f"INSERT INTO {table} " + _ROWS.format(hint=hint, first=380, last=480),
        f"DELETE FROM {table} WHERE si BETWEEN 50 AND 70 OR s = 's0099'",
    )


def conditions(columns: Iterator[str] | tuple[str, ...] = tuple(_VALUES)) -> list[str]:
    return [
        form.format(
            column=column, value=values[number % len(values)], other=values[(number + 1) % len(values)]
        )
        for column in columns
        for values in [_VALUES[column]]
        for number, form in enumerate(_FORMS)
    ] + [f"{column} = {value}" for column in columns for value in _VALUES[column][1:]]


@pytest.mark.parametrize("table", _TABLES)
def test_conditions_on_columns_of_all_types(written: Written, table: str) -> None:
    asked = [*conditions(), *_CONDITIONS][list(_TABLES).index(table) :: len(_TABLES) // 2]
    outcomes: Counter[str] = Counter()

    compared = [
        each
        for start in range(0, len(asked), 40)
        for each in written.session().compare(
            *(f"SELECT * FROM {{c}}.db.{table} WHERE {where}" for where in asked[start : start + 40]),
            outcomes=outcomes,
        )
    ]

    assert not [each for each in compared if not each.is_right()]
    assert outcomes["planned"] > len(asked) / 5
    assert sum(each.files[1] < each.files[0] for each in compared) > len(asked) / 10


@pytest.mark.parametrize("table", _TABLES)
@pytest.mark.parametrize("zero", ["f = 0.0F", "f = -0.0F", "d = 0.0D", "d IN (-0.0D, 9.625D)"])
def test_zero_is_found_whatever_its_sign(written: Written, table: str, zero: str) -> None:
    """The engine alone skips files by indexes that know the other sign, so it is no judge."""
    column, _, value = zero.partition(" ")
    everything = f"SELECT * FROM plain.db.{table} WHERE abs({column}) {value.replace('-', '')}"

    found, expected = written.session().sql(f"SELECT * FROM indexed.db.{table} WHERE {zero}", everything)

    assert found == expected
    assert found


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
@pytest.mark.parametrize("table", ["append", "merged"])
def test_times_are_those_of_the_session(written: Written, table: str, zone: str) -> None:
    asked = [f"SELECT id FROM {{c}}.db.{table} WHERE {where}" for where in conditions(_TIMED)]

    compared = written.session(zone).compare(*asked)

    assert not [each for each in compared if not each.is_right()]
    assert sum(each.rows for each in compared) > len(asked)


@pytest.mark.parametrize("table", _TABLES)
def test_queries_of_all_shapes(written: Written, table: str) -> None:
    session = written.session()
    asked = [shape.replace("{t}", f"{{c}}.db.{table}").replace("{n}", table) for shape in _SHAPES]

    compared = [each for query in asked for each in session.compare(query)]

    assert not [each for each in compared if not each.is_right()]
    assert sum(each.error is None for each in compared) >= len(asked) - 3
    assert sum(each.files[1] < each.files[0] for each in compared) > len(asked) / 10


@pytest.mark.parametrize(("option", "value"), _READ_OPTIONS)
def test_what_a_session_sets_is_in_force(written: Written, option: str, value: str) -> None:
    session = written.session(**{option: value})
    asked = [
        f"SELECT * FROM {{c}}.db.{table} WHERE {where}"
        for table in _TABLES
        for where in ("s = 's0385'", "si < 25")
    ]

    compared = [each for query in asked for each in session.compare(query)]

    assert not [each for each in compared if not each.is_right()]
    assert any(each.error is None for each in compared) or option in {"branch", "query-auth.enabled"}


_ONE_JOB: Final = 40
_SOME: Final = 10
"""One of so many queries is run by `make jvm`, and all of them by tests that are ``long``."""
# A task for each query, whatever the table says of splits.
_SETTINGS: Final = {"spark.paimon.source.split.target-size": "128 mb"}
_CASES: Final = [
    (table, zone)
    for table in golden_cases.tables()
    for zone in ZONES
    if table not in ELSEWHERE and (zone == "UTC" or table in TIMED)
]


@pytest.fixture(scope="module")
def totals(record_testsuite_property: Any) -> Iterator[Counter[str]]:
    """Yield what was counted over all tables; ``--junit-xml`` writes it down."""
    counted: Counter[str] = Counter()
    yield counted
    for name, count in counted.items():
        record_testsuite_property(name, count)
    assert counted["planned"] > counted["queries"] / 4
    assert counted["files"] < counted["files of the engine"]


def queries(table: str) -> list[str]:
    """All with a condition of SQL: of a version all columns, of the latest those that Spark has types for."""
    shown = ", ".join(f"`{name}`" for name in columns_of(table))
    found = []
    for query in golden_cases.expected(table)["queries"]:
        if query["filter_sql"] is None or query["topn"] or query["limit"]:
            continue
        source = f"{{c}}.golden.`{table}`"
        if query["branch"] is not None:
            source = f"{{c}}.golden.`{table}$branch_{query['branch']}`"
        version = query["snapshot_id"] or (query["tag"] and f"'{query['tag']}'")
        select = (
            f"SELECT * FROM {source} VERSION AS OF {version}" if version else f"SELECT {shown} FROM {source}"
        )
        found.append(f"{select} WHERE {query['filter_sql']}")
    return found


class Compare(NamedTuple):
    golden: GoldenWarehouse
    uri: str
    spark: SqlSpark
    totals: Counter[str]

    def queries(self, asked: list[str], zone: str) -> list[Compared]:
        session = self.spark.session(self.golden.root, self.uri, zone, _SETTINGS)
        compared = [
            each
            for start in range(0, len(asked), _ONE_JOB)
            for each in session.compare(*asked[start : start + _ONE_JOB], outcomes=self.totals)
        ]
        self.totals["queries"] += len(compared)
        self.totals["errors"] += sum(each.error is not None for each in compared)
        self.totals["files of the engine"] += sum(each.files[0] for each in compared)
        self.totals["files"] += sum(each.files[1] for each in compared)
        self.totals["fewer"] += sum(each.files[1] < each.files[0] for each in compared)
        return compared


@pytest.fixture
def compare(golden: GoldenWarehouse, uri: str, spark: SqlSpark, totals: Counter[str]) -> Compare:
    return Compare(golden, uri, spark, totals)


@pytest.mark.parametrize("table", [table for table, zone in _CASES if zone == "UTC"])
def test_some_queries_have_their_rows_from_no_more_files(compare: Compare, table: str) -> None:
    offset = golden_cases.tables().index(table)
    compared = compare.queries(queries(table)[offset % _SOME :: _SOME], ZONES[offset % len(ZONES)])

    assert not [each for each in compared if not each.is_right()]


@pytest.mark.long
@pytest.mark.parametrize(("table", "zone"), _CASES)
def test_every_query_has_its_rows_from_no_more_files(compare: Compare, table: str, zone: str) -> None:
    compared = compare.queries(queries(table), zone)

    assert not [each for each in compared if not each.is_right()]
