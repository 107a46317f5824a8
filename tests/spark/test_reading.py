"""Tables as ``paimon_index.spark`` reads them: rows are the connector's, and as many as golden files tell."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from app.main import create_app
from app.settings import Settings
from tests import golden_cases
from tests.api.conftest import listening
from tests.client.scripted import nowhere
from tests.golden_cases import GoldenWarehouse
from tests.spark.served_tables import READ, REFUSED, TIMED, ZONES, Golden, Written, chosen, columns_of
from tests.spark.sessions import SparkError

pytestmark = [pytest.mark.spark, pytest.mark.long]

READERS: Final = ("auto", "rows")


@pytest.mark.parametrize("table", READ)
def test_as_many_rows_are_read_as_the_engine_has(tables: Golden, table: str) -> None:
    # Spark compares to the microsecond, and golden files count to the nanosecond.
    queries = [query for query in chosen(table, "UTC") if "9 " not in str(query["filter_sql"])]
    columns = columns_of(table)
    asked = [{"where": query["filter_sql"], "columns": columns} for query in queries]
    auto, rows = (
        tables.session().read(
            tables.url, f"main.golden.{table}", *({**each, "reader": reader} for each in asked)
        )
        for reader in READERS
    )

    assert auto == rows
    if golden_cases.expected(table)["merge_engine"] is None:
        assert list(map(len, auto)) == [query["matching_count"] for query in queries]


@pytest.mark.connector
@pytest.mark.parametrize(
    ("table", "zone"), [(table, zone) for table in READ for zone in ZONES if table in TIMED or zone == "UTC"]
)
def test_rows_are_those_that_the_connector_reads(tables: Golden, table: str, zone: str) -> None:
    session = tables.session(zone)
    columns = columns_of(table)
    shown = ", ".join(f"`{name}`" for name in columns)
    queries = chosen(table, zone)
    wheres = [query["filter_sql"] for query in queries]

    readable = {
        query["name"]: f"SELECT {shown} FROM main.golden.{table} WHERE {where or 'TRUE'}"  # noqa: S608 - our own
        for query, where in zip(queries, wheres, strict=True)
        if not query.get("engine_error")
    }
    expected = dict(zip(readable, session.exactly(*readable.values()), strict=True))
    asked = [{"where": where, "columns": columns} for where in wheres]
    auto, rows = (
        session.read(tables.url, f"main.golden.{table}", *({**each, "reader": reader} for each in asked))
        for reader in READERS
    )

    assert auto == rows
    for query, ours in zip(queries, auto, strict=True):
        theirs = expected.get(query["name"])
        assert theirs in (ours, None) or query.get("engine_differs"), query["name"]


@pytest.mark.parametrize("table", REFUSED)
def test_what_is_not_read_exactly_is_refused(tables: Golden, table: str) -> None:
    with pytest.raises(SparkError, match=f"UnsupportedTableError.*{REFUSED[table]}.*paimon-spark"):
        tables.session().read(tables.url, f"main.golden.{table}", {})


def test_a_column_that_spark_has_no_type_for_can_be_left_out(tables: Golden) -> None:
    with pytest.raises(SparkError, match=r"UnsupportedTableError.*c_time.*columns=\["):
        tables.session().read(tables.url, "main.golden.all_types", {})


def test_an_unknown_column_is_an_error(tables: Golden) -> None:
    with pytest.raises(SparkError, match="ValueError: there is no column nothing; the table has"):
        tables.session().read(tables.url, "main.golden.append_dv32", {"columns": ["nothing"]})


def test_an_unknown_column_of_a_condition_is_sparks_answer(tables: Golden) -> None:
    with pytest.raises(SparkError, match=r"AnalysisException: .*`nothing` cannot be resolved"):
        tables.session().read(tables.url, "main.golden.append_dv32", {"where": "nothing = 1"})


def test_one_column_of_all_rows(tables: Golden) -> None:
    expected = golden_cases.expected("append_dv32")["queries"][0]["matching_count"]
    for reader in READERS:
        (rows,) = tables.session().read(
            tables.url, "main.golden.append_dv32", {"columns": ["BATCH_NO"], "reader": reader}
        )
        assert len(rows) == expected


@pytest.mark.connector
@pytest.mark.parametrize("reader", READERS)
def test_versions_are_pinned(tables: Golden, reader: str) -> None:
    ids = [version["at"]["snapshot_id"] for version in golden_cases.expected("versions")["versions"]]
    numbers = [number for number in ids if number is not None]
    assert numbers
    session = tables.session()

    ours = session.read(
        tables.url, "main.golden.versions", *({"snapshot_id": number, "reader": reader} for number in numbers)
    )

    assert ours == session.exactly(
        *(f"SELECT * FROM main.golden.versions VERSION AS OF {number}" for number in numbers)  # noqa: S608 - our own
    )


@pytest.mark.connector
@pytest.mark.parametrize(
    ("version", "name"),
    [({"tag": "v2"}, "versions VERSION AS OF 'v2'"), ({"branch": "dev"}, "`versions$branch_dev`")],
)
def test_tags_and_branches_are_read(tables: Golden, version: dict[str, str], name: str) -> None:
    session, table = tables.session(), "main.golden.versions"

    ours = session.read(tables.url, table, *({**version, "reader": reader} for reader in READERS))
    ours += session.read(nowhere(), table, {**version, "on_unavailable": "scan"})
    ours += session.load(table, ({"url": tables.url, **version}, None))

    assert ours == session.exactly(f"SELECT * FROM main.golden.{name}") * 4  # noqa: S608 - our own
    assert ours[0] != session.read(tables.url, table, {})[0]
    assert session.explain(tables.url, table, **version)[-1].startswith("files read as")


@pytest.mark.parametrize(
    "qualifier", ["versions", "golden.versions", "`main`.Golden.`versions`", "other.golden.versions"]
)
def test_columns_are_qualified_as_the_service_takes_them(tables: Golden, qualifier: str) -> None:
    ours, known = (
        tables.session().read(tables.url, "main.golden.versions", {"where": f"{before}load_dt IS NOT NULL"})
        for before in (f"{qualifier}.", "")
    )

    assert ours == known
    assert ours[0]


def test_columns_are_qualified_by_a_branch(tables: Golden) -> None:
    asked = [
        {"where": f"{before}load_dt IS NOT NULL", "branch": "dev"}
        for before in ("", "versions.", "`versions$branch_dev`.", "golden.`versions$branch_dev`.")
    ]

    plain, *others = tables.session().read(tables.url, "main.golden.versions", *asked)

    assert others == [plain] * 3
    assert plain


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"reader": "row"}, "ValueError: reader is 'auto' or 'rows', found 'row'"),
        ({"on_unavailable": "scam"}, "ValueError: on_unavailable is 'error' or 'scan', found 'scam'"),
        ({"columns": "id"}, r"TypeError: columns is a list of names, such as \['id'\]"),
        ({"columns": [5]}, "TypeError: columns is a list of names, found a int in it"),
        ({"in_lists": [5]}, r"TypeError: in_lists has keys by column, .* found a list"),
        (
            {"where": 5},
            "TypeError: where is a condition as text, as after WHERE, or an expression of Spark, found int",
        ),
        ({"deadline_seconds": 1e-9}, r"DeadlineError: .* allow more \(deadline_seconds\)"),
    ],
)
def test_arguments_are_checked(tables: Golden, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(SparkError, match=message):
        tables.session().read(tables.url, "main.golden.versions", arguments)


@pytest.mark.connector
def test_the_connector_stands_in_for_a_service_that_is_down(tables: Golden) -> None:
    session = tables.session()
    number = golden_cases.expected("versions")["earliest_snapshot_id"]
    where = "load_dt IS NOT NULL"
    asked = {"where": where, "columns": ["load_dt"], "on_unavailable": "scan"}

    ours = session.read(nowhere(), "main.golden.versions", asked, {**asked, "snapshot_id": number})

    shown = f"SELECT load_dt FROM main.golden.versions {{}} WHERE {where}"  # noqa: S608 - our own
    assert ours == session.exactly(shown.format(""), shown.format(f"VERSION AS OF {number}"))
    with pytest.raises(SparkError, match=r"UnavailableError: .* cannot be reached"):
        session.read(nowhere(), "main.golden.versions", {"where": where})


def test_files_that_spark_has_to_look_up_are_the_same(tables: Golden) -> None:
    """Without its cache of files, Spark's index cannot be given them."""
    name = "main.golden.append_partitioned"
    known = tables.session().read(tables.url, name, {})

    assert (
        tables.session(**{"spark.sql.hive.manageFilesourcePartitions": "false"}).read(tables.url, name, {})
        == known
    )


@pytest.mark.connector
@pytest.mark.parametrize(
    ("name", "value"),
    [("spark.sql.timestampType", "TIMESTAMP_NTZ"), ("spark.sql.parser.escapedStringLiterals", "true")],
)
def test_settings_that_change_what_a_condition_means(tables: Golden, name: str, value: str) -> None:
    usual, session = tables.session("America/New_York"), tables.session("America/New_York", **{name: value})
    table, where = (
        "main.golden.append_embedded",
        r"label LIKE 'x\_%' OR seen_at < TIMESTAMP '2000-01-01 00:00:00'",
    )

    (ours,) = session.read(tables.url, table, {"where": where})
    lines = [each.explain(tables.url, table, where=where) for each in (usual, session)]

    assert [ours] == session.exactly(f"SELECT * FROM {table} WHERE {where}")  # noqa: S608 - our own
    assert all(any(line.startswith("statistics") for line in funnel) for funnel in lines)


@pytest.mark.parametrize("reader", READERS)
def test_names_of_directories_are_taken_literally(
    tables: Golden, golden: GoldenWarehouse, tmp_path: Path, reader: str
) -> None:
    root = tmp_path / "a b%20[c]*{d}?#é"
    golden.copy("append_dv32", root)
    with listening(create_app(Settings.load(warehouses={"main": str(root)})), lifespan="on") as started:
        (rows,) = tables.session().read(
            str(started.base_url), "main.golden.append_dv32", {"where": "score = score", "reader": reader}
        )

    (known,) = tables.session().read(tables.url, "main.golden.append_dv32", {"where": "score = score"})
    assert rows == known
    assert rows


def test_the_funnel_is_printed(tables: Golden) -> None:
    session = tables.session()
    (query,) = [
        query for query in golden_cases.expected("append_dv32")["queries"] if query["name"] == "eq_session_no"
    ]

    lines = session.explain(tables.url, "main.golden.append_dv32", where=query["filter_sql"], reader="rows")

    shown = {line[:18].strip(): line[18:].split() for line in lines[1:]}
    everything = golden_cases.expected("append_dv32")["queries"][0]
    assert shown["considered"][0] == str(len(everything["planned_files"]))
    assert shown["rows selected"][0] == "1"
    assert "file_index" in shown
    assert lines[-1] == "files read as parquet by positions, in Python: 1"
    lines = session.explain(tables.url, "main.golden.pk_aggregation")
    assert "merge-engine aggregation" in lines[-1]


@pytest.mark.connector
@pytest.mark.parametrize("reader", READERS)
def test_char_columns_are_padded_and_compared_as_spark_does(written: Written, reader: str) -> None:
    session = written.session
    session.sql("CREATE TABLE reading.chars (id INT, c CHAR(4)) TBLPROPERTIES ('file.format'='parquet')")
    session.sql("INSERT INTO reading.chars VALUES (1, 'c3'), (2, 'c3  '), (3, 'c33'), (4, NULL), (5, 'abcd')")
    wheres = ["c = 'c3'", "c IN ('c3', 'abcd')", "c LIKE 'c3'", "c LIKE 'c3%'", "c > 'c3'", "c <=> 'c3'"]

    ours = session.read(
        written.url, "main.reading.chars", *({"where": where, "reader": reader} for where in wheres)
    )

    assert ours == session.exactly(*(f"SELECT * FROM reading.chars WHERE {where}" for where in wheres))  # noqa: S608 - our own
    assert len(ours[0]) == 2


@pytest.mark.connector
@pytest.mark.parametrize("reader", READERS)
def test_a_frame_stays_with_its_snapshot(written: Written, reader: str) -> None:
    session = written.session
    session.sql(
        "CREATE TABLE reading.kept (id INT, at TIMESTAMP) TBLPROPERTIES ('file.format'='parquet', "
        "'deletion-vectors.enabled'='true')"
    )
    session.sql("INSERT INTO reading.kept SELECT id, timestamp_seconds(id * 3600) FROM range(0, 100)")
    session.sql("DELETE FROM reading.kept WHERE id % 10 = 3")
    session.view(written.url, "main.reading.kept", where="at >= '1969-12-31 20:00:00'", reader=reader)
    session.sql("DELETE FROM reading.kept WHERE id > 20")

    (row,) = session.sql("SELECT count(*) AS count, min(id) AS least FROM read WHERE id <> 5")

    # 20:00 in New York is one hour after the first row.
    assert row == {"count": 88, "least": 1}


def test_few_small_files_are_one_partition(tables: Golden) -> None:
    """Whatever groups or counts their rows needs no stage of its own to bring them together."""
    session = tables.session()
    plans, files = [], []

    for where in ("part_day IS NULL", "shelf = 5"):
        session.view(tables.url, "main.golden.append_partitioned", where=where)
        ((plan,),) = (row.values() for row in session.sql("EXPLAIN SELECT count(*) FROM read"))
        plans.append(plan)
        files.append(len(session.sql("SELECT DISTINCT input_file_name() FROM read")))

    assert ["Exchange" in plan for plan in plans] == [False, True]
    assert 1 < files[0] < files[1]


@pytest.mark.connector
def test_few_rows_of_many_bytes_are_read_by_their_positions(written: Written) -> None:
    session, table = written.session, "main.reading.large"
    session.sql(
        "CREATE TABLE reading.large (id INT, filler STRING) TBLPROPERTIES ('file.format'='parquet', "
        "'file-index.bitmap.columns'='id')"
    )
    # Text that cannot be packed: more than Spark's reader has read before Python has started.
    session.sql("INSERT INTO reading.large SELECT id % 1000, randstr(1000, 7) FROM range(60000)")
    few, many = "id = 7", "id >= 7"

    (ours,) = session.read(written.url, table, {"where": few, "columns": ["id"]})
    last_lines = {where: session.explain(written.url, table, where=where)[-1] for where in (few, many)}

    assert [ours] == session.exactly(f"SELECT id FROM reading.large WHERE {few}")  # noqa: S608 - our own
    assert len(ours) == 60
    assert "by positions, in Python" in last_lines[few]
    assert "by Spark's vectorised reader" in last_lines[many]
    # A few rows of a row group take as long as all of it, so both cores have work.
    session.view(written.url, table, where=few)
    assert len(session.sql("SELECT DISTINCT task FROM (SELECT spark_partition_id() AS task FROM read)")) == 2


@pytest.mark.connector
def test_a_key_that_was_deleted_is_not_there(written: Written) -> None:
    session = written.session
    session.sql(
        "CREATE TABLE reading.versions (k INT NOT NULL, v STRING, w INT) TBLPROPERTIES ('primary-key'='k', "
        "'bucket'='1', 'write-only'='true', 'file.format'='parquet')"
    )
    session.sql("INSERT INTO reading.versions VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)")
    session.sql("INSERT INTO reading.versions VALUES (2, NULL, 5), (4, 'd', 4)")
    session.sql("DELETE FROM reading.versions WHERE k = 3")
    wheres = ["w = 2", "w >= 3", "v IS NULL", "k < 3", "k = 3"]

    ours = session.read(written.url, "main.reading.versions", *({"where": where} for where in wheres))

    assert ours == session.exactly(*(f"SELECT * FROM reading.versions WHERE {where}" for where in wheres))  # noqa: S608 - our own
    assert [len(rows) for rows in ours] == [0, 2, 1, 2, 0]
    session.sql("ALTER TABLE reading.versions SET TBLPROPERTIES ('ignore-delete'='true')")
    with pytest.raises(SparkError, match=r"UnsupportedTableError.*ignore-delete"):
        session.read(written.url, "main.reading.versions", {})


_NAME: Final = "main.reading.merged"
_OPTION: Final = "deletion-vectors.merge-on-read"
_WHERES: Final = (None, "score = 'new'", "score = 'old'", "score = 'newest'", "id = 3")


@pytest.fixture
def merged(written: Written) -> Iterator[Written]:
    """Yield a table with compacted files, of which a vector deletes rows, and newer ones in level 0."""
    session = written.session
    session.sql(
        "CREATE TABLE paimon.reading.merged (id INT NOT NULL, score STRING) "
        "TBLPROPERTIES ('primary-key'='id', "
        "'bucket'='1', 'deletion-vectors.enabled'='true', 'write-only'='true', 'num-levels'='4', "
        f"'{_OPTION}'='true')"
    )
    session.sql("INSERT INTO paimon.reading.merged SELECT id, 'old' FROM range(1, 9)")
    session.sql("CALL paimon.sys.compact(table => 'reading.merged')")
    session.sql("INSERT INTO paimon.reading.merged VALUES (2, 'new'), (4, 'new')")
    session.sql("CALL paimon.sys.compact(table => 'reading.merged', compact_strategy => 'minor')")
    session.sql("INSERT INTO paimon.reading.merged VALUES (3, 'newest'), (12, 'newest')")
    session.sql("DELETE FROM paimon.reading.merged WHERE id = 5")
    yield written
    session.sql("DROP TABLE paimon.reading.merged")


@pytest.mark.connector
def test_rows_are_those_that_the_connector_reads_merge_on_read(merged: Written) -> None:
    session = merged.session
    expected = session.exactly(
        *(f"SELECT * FROM paimon.reading.merged WHERE {where or 'TRUE'}" for where in _WHERES)  # noqa: S608 - our own
    )

    ours = session.read(merged.url, _NAME, *({"where": where} for where in _WHERES))

    assert [len(rows) for rows in ours] == [8, 2, 4, 2, 1]
    assert ours == expected


@pytest.mark.connector
@pytest.mark.parametrize(
    ("name", "is_refused"),
    [
        (f"spark.paimon.{_OPTION}", True),
        ("spark.paimon.*.reading.merged.scan.snapshot-id", True),
        ("spark.paimon.paimon.reading.other.scan.snapshot-id", False),
        ("spark.paimon.file-index.read.enabled", False),
    ],
)
def test_a_session_that_changes_what_the_table_shows_is_refused(
    merged: Written, name: str, is_refused: bool
) -> None:
    session = merged.session.spark.session("UTC", {name: "1"})

    if is_refused:
        with pytest.raises(SparkError, match=f"UnsupportedTableError.*session sets {re.escape(name)}"):
            session.read(merged.url, _NAME, {})
    else:
        assert [len(rows) for rows in session.read(merged.url, _NAME, {})] == [8]


@pytest.mark.connector
def test_rows_that_are_merged_and_deleted_are_not_read_by_position(merged: Written) -> None:
    with pytest.raises(SparkError, match=r"UnsupportedTableError.*deleted by position"):
        merged.session.read(merged.url, _NAME, {"reader": "rows"})
