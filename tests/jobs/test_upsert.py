"""Rows are written once for each key, keys keep their buckets, and what fails leaves the table as it is."""

import datetime as dt
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from app.bucket_index import BucketFunction, hash_index
from app.errors import JobError, RequestError, UnsupportedFormatError
from app.planning.request.requests import PlanRequest
from app.table.manifests.manifest_entry import FileSource
from app.types import parse_type
from tests.bucket_index.plain_buckets import bucket_of, key_hash
from tests.copied_tables import files_below, open_table
from tests.jobs.new_tables import buckets_of_keys, make_table, merged_rows, stored_rows
from tests.jobs.running_jobs import Jobs, table
from tests.tables import golden_ref, open_service

# One Spark for all of them, where tests run side by side.
pytestmark = [pytest.mark.spark]

BIGINT = parse_type("BIGINT")
INDEXED = {
    "file-index.bitmap.columns": "v",
    "file-index.bloom-filter.columns": "s",
    "file-index.bloom-filter.s.items": "100",
    "file-index.in-manifest-threshold": "150 b",
}
COLUMNS = {"p": "STRING NOT NULL", "k": "BIGINT NOT NULL", "v": "INT", "s": "STRING"}
DYNAMIC: dict[str, Any] = {
    "keys": ("p", "k"),
    "partitions": ("p",),
    "options": {"dynamic-bucket.target-row-num": "40", **INDEXED},
}


def query(first: int, end: int, version: int) -> str:
    """Rows of keys in two partitions; each key comes twice, first with another value."""
    return (
        f"SELECT p, k, CAST(CASE WHEN old THEN -1 ELSE {version} END AS INT) AS v, concat('s', k) AS s "  # noqa: S608
        f"FROM (SELECT concat('p', id % 2) AS p, id AS k FROM range({first}, {end}, 1, 3)) "
        "LATERAL VIEW explode(array(true, false)) AS old"
    )


def test_few_rows_go_to_few_buckets_however_many_partitions_spark_shuffles_to(
    jobs: Jobs, tmp_path: Path
) -> None:
    make_table(tmp_path, "t", COLUMNS, keys=("p", "k"), partitions=("p",))
    jobs.configure({"spark.sql.shuffle.partitions": "200"})

    report = jobs.run("upsert", tmp_path, table("t"), paths=[], query=query(0, 100, 1))

    jobs.configure({"spark.sql.shuffle.partitions": "2"})
    assert (report["rows_written"], report["buckets"]) == (100, 2)  # one in each of two partitions


def hashes_by_bucket(root: Path, name: str) -> dict[tuple[bytes, int], set[int]]:
    opened = open_table(root, name)
    resolved = opened.table.resolve()
    paths = opened.table.data_paths(resolved).paths
    found = {}
    for entry in opened.table.metadata.index_entries(resolved):
        hashes = hash_index.read_whole(opened.warehouse.read(paths.index_file(entry)), entry.file).tolist()
        assert len(set(hashes)) == len(hashes)
        found[entry.partition, entry.bucket] = set(hashes)
    return found


def test_keys_keep_their_dynamic_buckets(jobs: Jobs, tmp_path: Path) -> None:
    make_table(tmp_path, "t", COLUMNS, **DYNAMIC)

    first = jobs.run("upsert", tmp_path, table("t"), paths=[], query=query(0, 200, 1))
    before = buckets_of_keys(tmp_path, "t")
    second = jobs.run("upsert", tmp_path, table("t"), paths=[], query=query(100, 400, 2), parallelism=3)
    after = buckets_of_keys(tmp_path, "t")

    assert (first["snapshot_id"], first["rows_read"], first["rows_written"]) == (1, 400, 200)
    assert (second["snapshot_id"], second["rows_written"], second["keys_added"]) == (2, 300, 200)
    assert first["keys_added"] == 200
    assert all(len(buckets) == 1 for buckets in after.values())
    assert {key: after[key] for key in before} == before
    rows = {row["k"]: (row["p"], row["v"], row["s"]) for row in merged_rows(tmp_path, "t")}
    assert rows == {k: (f"p{k % 2}", 1 if k < 100 else 2, f"s{k}") for k in range(400)}
    for row in stored_rows(tmp_path, "t"):
        assert row["partition"] == (row["p"].encode(),)
        assert row["_KEY_k"] == row["k"]
    hashes = hashes_by_bucket(tmp_path, "t")
    assert {(bucket, each) for (_, bucket), some in hashes.items() for each in some} == {
        (next(iter(buckets)), key_hash([key[1]], [BIGINT])) for key, buckets in after.items()
    }
    assert max(map(len, hashes.values())) <= 40
    document = open_table(tmp_path, "t").snapshot()
    assert (document["commitKind"], document["deltaRecordCount"], document["totalRecordCount"]) == (
        "APPEND",
        300,
        500,
    )
    assert jobs.run("audit", tmp_path, table("t"))["problems"] == []


@pytest.mark.long
def test_what_entries_say_lets_plans_leave_files_out(jobs: Jobs, tmp_path: Path) -> None:
    make_table(tmp_path, "t", COLUMNS, **DYNAMIC)
    jobs.run("upsert", tmp_path, table("t"), paths=[], query=query(0, 200, 1))
    jobs.run("upsert", tmp_path, table("t"), paths=[], query=query(0, 200, 2))
    entries = open_table(tmp_path, "t").entries()

    last: dict[tuple[bytes, int], int] = {}
    for entry in entries:
        file = entry.file
        assert (file.level, file.file_source, entry.total_buckets) == (0, FileSource.APPEND, -1)
        assert file.embedded_index is not None or file.extra_files == (f"{file.file_name}.index",)
        assert file.min_sequence_number == last.get((entry.partition, entry.bucket), -1) + 1
        last[entry.partition, entry.bucket] = file.max_sequence_number
        assert file.max_sequence_number - file.min_sequence_number + 1 == file.row_count
    service = open_service(tmp_path)
    for text, is_there in (
        ("k = 77", True),
        ("s = 's77'", True),
        ("v = 2", True),
        ("v = 1", True),
        ("k = 500", False),
        ("v = 3", False),
    ):
        plan = service.plan(golden_ref("t"), PlanRequest(filter=text))
        kept = {file.file_name for file in plan.files}
        assert bool(kept) == is_there, text
        if text.startswith(("k", "s")) and is_there:
            assert len(kept) < len(entries), text
    service.close()


TYPES: dict[str, Any] = {
    "k": "INT NOT NULL",
    "b": "BOOLEAN",
    "i8": "TINYINT",
    "i16": "SMALLINT",
    "f": "FLOAT",
    "d": "DOUBLE NOT NULL",
    "d9": "DECIMAL(9, 2)",
    "d18": "DECIMAL(18, 3)",
    "d38": "DECIMAL(38, 10)",
    "c": "CHAR(4)",
    "vc": "VARCHAR(5)",
    "bin": "BYTES",
    "day": "DATE",
    "ts3": "TIMESTAMP(3)",
    "ts6": "TIMESTAMP(6)",
    "ltz3": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "ltz6": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "a": {"type": "ARRAY", "element": {"type": "ARRAY", "element": "INT NOT NULL"}},
    "m": {"type": "MAP", "key": "STRING NOT NULL", "value": "DECIMAL(5, 1)"},
    "r": {
        "type": "ROW",
        "fields": [{"id": 101, "name": "x", "type": "INT"}, {"id": 102, "name": "y", "type": "STRING"}],
    },
}
TYPED_QUERY = """
SELECT CAST(id AS TINYINT) k, true b, 7Y i8, -7S i16, 1.5F f, CAST('NaN' AS DOUBLE) d, 1.25BD d9, -3.5BD d18,
    12345678901234567890.0123456789BD d38, 'ab' c, 'ab' vc, X'00ff' bin, DATE '1969-12-31' day,
    TIMESTAMP_NTZ '1969-12-31 23:59:59.999999' ts3, TIMESTAMP_NTZ '1969-12-31 23:59:59.999999' ts6,
    TIMESTAMP '2026-11-01 00:00:00.123456' ltz3, TIMESTAMP '2026-11-01 00:00:00.123456' ltz6,
    array(array(1, 2), null) a, map('a', CAST(1.5 AS DECIMAL(5, 1))) m, named_struct('x', 1, 'y', 'two') r
FROM range(3)
UNION ALL SELECT 3Y, null, null, null, null, 0.0D, null, null, null, null, null, null, null, null, null, null,
    null, null, null, null
"""


@pytest.mark.long
@pytest.mark.parametrize("keys", [(), ("k",)])
def test_values_of_every_type_come_back(jobs: Jobs, tmp_path: Path, keys: tuple[str, ...]) -> None:
    options = {"bucket": "1", "bucket-key": "k", "file-index.range-bitmap.columns": "ts3,d9,ltz6"}
    make_table(tmp_path, "t", TYPES, keys=keys, options=options)

    jobs.run("upsert", tmp_path, table("t"), paths=[], query=TYPED_QUERY)

    rows = sorted(stored_rows(tmp_path, "t"), key=lambda row: int(row["k"]))
    assert [row["k"] for row in rows] == [0, 1, 2, 3]
    assert {name for name, value in rows[3].items() if value is None} == set(TYPES) - {"k", "d"}
    found = rows[1]
    assert (found["b"], found["i8"], found["i16"], found["f"]) == (True, 7, -7, 1.5)
    assert (found["d9"], found["d18"]) == (Decimal("1.25"), Decimal("-3.5"))
    assert found["d38"] == Decimal("12345678901234567890.0123456789")
    assert (found["c"], found["vc"], found["bin"]) == ("ab  ", "ab", b"\x00\xff")
    assert (found["day"], found["ts3"]) == (
        dt.date(1969, 12, 31),
        dt.datetime.fromisoformat("1969-12-31T23:59:59.999"),
    )
    assert found["ts6"] == dt.datetime.fromisoformat("1969-12-31T23:59:59.999999")
    instant = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
    assert (found["ltz3"], found["ltz6"]) == (
        instant.replace(microsecond=123000),
        instant.replace(microsecond=123456),
    )
    assert (found["a"], found["m"], found["r"]) == (
        [[1, 2], None],
        [("a", Decimal("1.5"))],
        {"x": 1, "y": "two"},
    )
    assert jobs.run("audit", tmp_path, table("t"))["problems"] == []
    service = open_service(tmp_path)
    for text in ("d9 = 1.25", "ts3 < TIMESTAMP_NTZ '1970-01-01 00:00:00'", "d38 > 1", "vc = 'ab'", "b"):
        plan = service.plan(golden_ref("t"), PlanRequest(filter=text))
        assert plan.files, text
    assert not service.plan(golden_ref("t"), PlanRequest(filter="d9 > 2")).files
    service.close()


@pytest.mark.long
def test_rows_tell_what_becomes_of_them_and_a_sequence_field_orders_them(jobs: Jobs, tmp_path: Path) -> None:
    columns = {"k": "STRING NOT NULL", "at": "INT", "v": "STRING"}
    make_table(tmp_path, "t", columns, keys=("k",), options={"bucket": "2", "sequence.field": "at"})
    values = (
        "('a', 5, 'new', '+I'), ('a', 3, 'old', '+U'), ('b', 1, 'b', '+I'), ('b', 2, 'b', '-D'), "
        "('c', NULL, 'c', '+I')"
    )

    report = jobs.run(
        "upsert",
        tmp_path,
        table("t"),
        paths=[],
        query=f"SELECT * FROM VALUES {values} AS t(k, at, v, what)",  # noqa: S608
        row_kind_column="what",
    )

    assert {row["k"]: row["v"] for row in merged_rows(tmp_path, "t")} == {"a": "new", "c": "c"}
    assert (report["rows_written"], report["keys_added"]) == (3, None)
    assert sum(entry.file.delete_row_count or 0 for entry in open_table(tmp_path, "t").entries()) == 1


@pytest.mark.long
def test_the_first_row_of_a_key_wins_under_first_row(jobs: Jobs, tmp_path: Path) -> None:
    options = {"bucket": "1", "merge-engine": "first-row"}
    make_table(tmp_path, "t", {"k": "INT NOT NULL", "v": "INT"}, keys=("k",), options=options)
    report = jobs.run(
        "upsert",
        tmp_path,
        table("t"),
        paths=[],
        query="SELECT CAST(id % 7 AS INT) k, CAST(id AS INT) v FROM range(0, 25000, 1, 1)",
    )
    assert [(row["k"], row["v"]) for row in stored_rows(tmp_path, "t")] == [(at, at) for at in range(7)]
    assert report["waits_for_compaction"]


@pytest.mark.long
@pytest.mark.parametrize("keys", [(), ("k",)])
@pytest.mark.parametrize("function", ["default", "mod"])
def test_fixed_buckets_are_those_of_the_bucket_function(
    jobs: Jobs, tmp_path: Path, function: str, keys: tuple[str, ...]
) -> None:
    options = {"bucket": "3", "bucket-key": "k", "bucket-function.type": function, "target-file-size": "1 kb"}
    make_table(tmp_path, "t", {"v": "INT", "k": "BIGINT NOT NULL"}, keys=keys, options=options)
    for _ in range(2):
        jobs.run(
            "upsert", tmp_path, table("t"), paths=[], query="SELECT id k, CAST(id AS INT) v FROM range(500)"
        )

    rows = stored_rows(tmp_path, "t")
    assert len(rows) == 1000
    for row in rows:
        assert row["bucket"] == bucket_of(BucketFunction(function), [row["k"]], [BIGINT], 3)
    entries = open_table(tmp_path, "t").entries()
    assert {entry.total_buckets for entry in entries} == {3}
    for bucket in range(3):
        spans = sorted(
            (entry.file.min_sequence_number, entry.file.max_sequence_number)
            for entry in entries
            if entry.bucket == bucket
        )
        assert [start for start, _ in spans] == [0, *(end + 1 for _, end in spans[:-1])]


def test_append_tables_take_rows_from_files(jobs: Jobs, tmp_path: Path) -> None:
    columns = {"p": "DATE", "v": "INT", "s": "STRING"}
    make_table(tmp_path, "t", columns, partitions=("p",))
    source = tmp_path / "rows.csv"
    source.write_text("s,p,v\na,2026-11-01,1\n,,2\nc,2026-11-01,3\n")

    report = jobs.run(
        "upsert", tmp_path, table("t"), paths=[str(source)], data_format="csv", options={"header": "true"}
    )

    assert (report["rows_written"], report["files"]) == (3, 2)
    found = [(row["p"], row["v"], row["s"]) for row in stored_rows(tmp_path, "t")]
    assert sorted(found, key=lambda row: int(row[1])) == [
        (dt.date(2026, 11, 1), 1, "a"),
        (None, 2, None),
        (dt.date(2026, 11, 1), 3, "c"),
    ]
    again = jobs.run(
        "upsert",
        tmp_path,
        table("t"),
        paths=[],
        query="SELECT p, v, s FROM VALUES (DATE '2026-11-01', 1, '') AS t(p, v, s) WHERE v > 1",
    )
    assert (again["snapshot_id"], again["files"]) == (None, 0)


@pytest.mark.long
def test_what_does_not_fit_leaves_the_table_as_it_is(jobs: Jobs, tmp_path: Path) -> None:
    columns = {"k": "INT NOT NULL", "v": "VARCHAR(3)", "w": "INT NOT NULL"}
    directory = make_table(tmp_path, "t", columns, keys=("k",), options={"bucket": "-1"})
    jobs.run("upsert", tmp_path, table("t"), paths=[], query="SELECT 1 k, 'a' v, 1 w")
    before = files_below(directory)
    refused: list[tuple[type[Exception], str, str]] = [
        (RequestError, "lack column 'w'", "SELECT 1 k, 'a' v"),
        (RequestError, "no column 'x'", "SELECT 1 k, 'a' v, 1 w, 1 x"),
        (RequestError, "column 'k' is INT NOT NULL, and bigint does not fit", "SELECT 1L k, 'a' v, 1 w"),
        (
            JobError,
            "upsert golden.t: column 'k' is a column of the primary key, and 1 rows",
            "SELECT int(null) k, 'a' v, 1 w",
        ),
        (JobError, "column 'w' is NOT NULL", "SELECT 1 k, 'a' v, int(null) w"),
        (JobError, "a value has length 4", "SELECT 1 k, 'four' v, 1 w"),
        # Most rows are written before the last one fails.
        (
            JobError,
            "Spark gave up: .*",
            "SELECT int(id) k, 'a' v, int(assert_true(id < 90000) IS NULL) w FROM range(90001)",
        ),
    ]
    for kind, message, rows in refused:
        with pytest.raises(kind, match=message):
            jobs.run("upsert", tmp_path, table("t"), paths=[], query=rows)
        assert files_below(directory) == before, message


REFUSED: list[tuple[str, dict[str, str], tuple[str, ...], dict[str, str]]] = [
    ("keys may move between partitions", {"p": "INT", "k": "INT NOT NULL"}, ("k",), {}),
    ("rows wait for their bucket", {"k": "INT NOT NULL"}, ("k",), {"bucket": "-2"}),
    ("changelog-producer=input", {"k": "INT NOT NULL"}, ("k",), {"changelog-producer": "input"}),
    ("data files are orc", {"k": "INT"}, (), {"file.format": "orc"}),
    ("rows are numbered", {"k": "INT"}, (), {"row-tracking.enabled": "true"}),
    ("ordered by column 'k' of type DOUBLE", {"k": "DOUBLE NOT NULL"}, ("k",), {}),
    ("key column 'k' is CHAR", {"k": "CHAR(3) NOT NULL"}, ("k",), {}),
    ("column 'v' has type TIME", {"v": "TIME(0)"}, (), {}),
]


def test_tables_that_are_not_written_here_are_refused(jobs: Jobs, tmp_path: Path) -> None:
    for number, (message, columns, keys, options) in enumerate(REFUSED):
        name, partitions = f"t{number}", tuple(each for each in columns if each == "p")
        directory = make_table(tmp_path, name, columns, keys=keys, partitions=partitions, options=options)
        before = files_below(directory)
        with pytest.raises(UnsupportedFormatError, match=message):
            jobs.run("upsert", tmp_path, table(name), paths=[], query="SELECT 1 k")
        assert files_below(directory) == before
    make_table(
        tmp_path,
        "sum",
        {"k": "INT NOT NULL", "v": "INT"},
        keys=("k",),
        options={"bucket": "1", "merge-engine": "aggregation"},
    )
    with pytest.raises(JobError, match=r"merge engine of table golden\.sum would merge"):
        jobs.run("upsert", tmp_path, table("sum"), paths=[], query="SELECT 1 k, int(id) v FROM range(2)")


@pytest.mark.long
def test_two_jobs_at_once_lose_no_row_and_give_no_key_two_buckets(
    jobs: Jobs, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    make_table(tmp_path, "t", COLUMNS, **DYNAMIC)
    other = Jobs.start(tmp_path_factory.mktemp("other"))
    try:
        # The other one starts Spark before both begin.
        make_table(tmp_path, "warm", {"v": "INT"})
        other.run("upsert", tmp_path, table("warm"), paths=[], query="SELECT 1 v")
        for first in (0, 100):
            with ThreadPoolExecutor(2) as threads:
                running = [
                    threads.submit(
                        each.run,
                        "upsert",
                        tmp_path,
                        table("t"),
                        paths=[],
                        query=query(first + shift, first + shift + 150, version),
                    )
                    for each, shift, version in ((jobs, 0, 1), (other, 50, 2))
                ]
                assert len({thread.result()["snapshot_id"] for thread in running}) == 2
    finally:
        other.stop()

    assert all(len(buckets) == 1 for buckets in buckets_of_keys(tmp_path, "t").values())
    assert {row["k"] for row in merged_rows(tmp_path, "t")} == set(range(300))
    listed = [each for some in hashes_by_bucket(tmp_path, "t").values() for each in some]
    assert sorted(listed) == sorted(key_hash([k], [BIGINT]) for k in range(300))
    sequences: dict[tuple[bytes, int], list[int]] = {}
    for entry in open_table(tmp_path, "t").entries():
        span = range(entry.file.min_sequence_number, entry.file.max_sequence_number + 1)
        sequences.setdefault((entry.partition, entry.bucket), []).extend(span)
    assert all(len(set(numbers)) == len(numbers) for numbers in sequences.values())
