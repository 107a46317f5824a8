"""Indexes of whole tables: what is built is what the engine built, and hides no row."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.cli.spark_submit import run_job
from app.errors import JobError, RequestError
from app.jobs.build_index import build_index, commit_replacements
from app.jobs.job_table import JobTable
from app.planning.request.requests import PlanRequest
from app.table.commits import Changes, CommitKind
from app.table.manifests.manifest_entry import FileKind
from app.table.schema.partition import partition_json
from tests import golden_cases
from tests.containers import meanings, types_of
from tests.copied_tables import files_below, open_table
from tests.golden_cases import GoldenWarehouse
from tests.jobs.new_tables import make_table
from tests.jobs.running_jobs import Jobs, job_environment, live_names, table
from tests.spark.environment import spark_python
from tests.tables import golden_ref, open_service

NO_SPARK: Any = None

# One Spark for all of them, where tests run side by side.
pytestmark = [pytest.mark.spark]


@pytest.mark.parametrize(
    "name",
    [
        "append_sidecar",
        "map_index",
        pytest.param("append_dv32", marks=pytest.mark.long),
        pytest.param("append_avro", marks=pytest.mark.long),
    ],
)
def test_indexes_are_built_as_the_engine_built_them(
    jobs: Jobs, golden: GoldenWarehouse, tmp_path: Path, name: str
) -> None:
    directory = golden.copy(name, tmp_path)
    before = {entry.file.file_name: entry for entry in open_table(tmp_path, name).entries()}
    type_of = types_of(open_table(tmp_path, name).table.resolve().schema.fields)

    dropped = jobs.run("drop_index", tmp_path, table(name))
    assert live_names(tmp_path, name) == set(before)
    built = jobs.run("build_index", tmp_path, table(name))

    assert dropped["dropped"] == built["built"] == len(before)
    assert live_names(tmp_path, name) == set(before)
    assert built["row_count"] == sum(entry.file.row_count for entry in before.values())
    for entry in open_table(tmp_path, name).entries():
        old = before[entry.file.file_name]
        if old.file.embedded_index is not None:
            assert entry.file.embedded_index is not None
            # What follows tells the entry from the one that was removed.
            embedded = entry.file.embedded_index[: len(old.file.embedded_index)]
            assert meanings(embedded, type_of) == meanings(old.file.embedded_index, type_of)
        assert len(entry.file.extra_files) == len(old.file.extra_files)
        for new_side, old_side in zip(entry.file.extra_files, old.file.extra_files, strict=True):
            assert new_side != old_side
            (new_file,), (old_file,) = (list(directory.rglob(side)) for side in (new_side, old_side))
            assert meanings(new_file.read_bytes(), type_of) == meanings(old_file.read_bytes(), type_of)

    there = files_below(directory)
    again = jobs.run("build_index", tmp_path, table(name))
    assert (again["snapshot_id"], again["unchanged"]) == (None, len(before))
    assert files_below(directory) == there


@pytest.mark.parametrize(
    "name", ["evolve_append", "pk_merge", pytest.param("dyn_bucket", marks=pytest.mark.long)]
)
def test_advised_indexes_hide_no_row(jobs: Jobs, golden: GoldenWarehouse, tmp_path: Path, name: str) -> None:
    golden.copy(name, tmp_path)
    names = live_names(tmp_path, name)

    built = jobs.run("build_index", tmp_path, table(name), advised=True)
    audited = jobs.run("audit", tmp_path, table(name))

    assert built["built"] + built["unchanged"] + built["skipped"] == len(names)
    assert built["built"]
    assert live_names(tmp_path, name) == names
    assert audited["problems"] == []
    assert audited["indexed"] >= built["built"]
    assert all(column["checked"] == column["distinct"] for column in audited["columns"])


def test_indexes_may_come_and_go_as_often_as_somebody_likes(
    jobs: Jobs, golden: GoldenWarehouse, tmp_path: Path
) -> None:
    """Readers drop a file for good once it was removed as what it is; each time it must be another one."""
    name = "append_embedded"
    golden.copy(name, tmp_path)
    names = live_names(tmp_path, name)
    for _ in range(2):
        assert jobs.run("drop_index", tmp_path, table(name))["dropped"] == len(names)
        assert jobs.run("drop_index", tmp_path, table(name))["snapshot_id"] is None
        assert live_names(tmp_path, name) == names
        assert jobs.run("audit", tmp_path, table(name))["indexed"] == 0
        assert jobs.run("build_index", tmp_path, table(name))["built"] == len(names)
        assert live_names(tmp_path, name) == names
    audited = jobs.run("audit", tmp_path, table(name))
    assert (audited["indexed"], audited["problems"]) == (len(names), [])


def test_only_files_without_an_index_of_some_partitions(
    jobs: Jobs, golden: GoldenWarehouse, tmp_path: Path
) -> None:
    name = "append_partitioned"
    golden.copy(name, tmp_path)
    resolved = open_table(tmp_path, name).table.resolve()
    entries = open_table(tmp_path, name).entries()
    partition = partition_json(entries[0].partition, resolved.schema)
    inside = [entry.file.file_name for entry in entries if entry.partition == entries[0].partition]
    options = {"file-index.bitmap.columns": "shelf", "file-index.in-manifest-threshold": "1 mb"}

    jobs.run("drop_index", tmp_path, table(name))
    built = jobs.run("build_index", tmp_path, table(name), partitions=[partition], options=options)
    rest = jobs.run("build_index", tmp_path, table(name), missing_only=True, options=options)

    assert (built["built"], built["embedded"]) == (len(inside), len(inside))
    assert rest["built"] == len(entries) - len(inside)


def indexes(report: dict[str, Any]) -> dict[str, tuple[int, int, int]]:
    """By kind and column: in how many files an index was built, kept and taken off."""
    return {
        f"{each['kind']} {each['column']}": (each["built"], each["kept"], each["taken_off"])
        for each in report["indexes"]
    }


def test_given_indexes_are_added_to_those_of_the_table(jobs: Jobs, tmp_path: Path) -> None:
    own = {"file-index.bitmap.columns": "city", "file-index.bloom-filter.columns": "city"}
    make_table(tmp_path, "t", {"city": "STRING", "counter": "INT"}, options=own)
    query = "SELECT concat('c', id % 3) AS city, CAST(id AS INT) AS counter FROM range(20)"
    jobs.run("upsert", tmp_path, table("t"), paths=[], query=query)
    files = len(live_names(tmp_path, "t"))
    given = {"file-index.range-bitmap.columns": "counter", "file-index.bitmap.columns": "counter"}

    added = jobs.run("build_index", tmp_path, table("t"), options=given)
    assert added["options"] == own | given | {"file-index.bitmap.columns": "city,counter"}
    assert indexes(added) == {
        "bitmap city": (0, files, 0),
        "bitmap counter": (files, 0, 0),
        "bloom-filter city": (0, files, 0),
        "range-bitmap counter": (files, 0, 0),
    }
    again = jobs.run("build_index", tmp_path, table("t"), options=given)
    assert again["snapshot_id"] is None
    assert set(indexes(again).values()) == {(0, files, 0)}


@pytest.fixture
def bare_counters(jobs: Jobs, tmp_path: Path) -> Path:
    """Return a table whose options name no index, with two files, which have none.

    Even numbers are in one, odd ones in the other, so that bounds decide nothing.
    """
    make_table(tmp_path, "t", {"city": "STRING", "counter": "INT"})
    for first in (0, 1):
        query = f"SELECT concat('c', id) city, CAST(id AS INT) counter FROM range({first}, 40, 2, 1)"  # noqa: S608 - numbers
        jobs.run("upsert", tmp_path, table("t"), paths=[], query=query)
    return tmp_path


@pytest.fixture
def counters(jobs: Jobs, bare_counters: Path) -> Path:
    """Return the table with bitmaps on both columns."""
    given = {"file-index.bitmap.columns": "city,counter"}
    jobs.run("build_index", bare_counters, table("t"), options=given)
    return bare_counters


def files_left(root: Path, condition: str) -> int:
    service = open_service(root)
    kept = service.plan(golden_ref("t"), PlanRequest(filter=condition)).summary.files_kept
    service.close()
    return kept


@pytest.mark.parametrize("rebuild", [False, True])
def test_what_no_option_names_stays(jobs: Jobs, counters: Path, rebuild: bool) -> None:
    """An index that an earlier run was given is not an option of the table."""
    given = {"file-index.range-bitmap.columns": "counter"}

    found = jobs.run("build_index", counters, table("t"), options=given, rebuild=rebuild)

    assert indexes(found) == {
        "bitmap city": (0, 2, 0),
        "bitmap counter": (0, 2, 0),
        "range-bitmap counter": (2, 0, 0),
    }
    assert [each["declared"] for each in found["indexes"]] == [False, False, True]
    assert files_left(counters, "city = 'c30'") == 1
    assert jobs.run("audit", counters, table("t"))["problems"] == []


def test_indexes_lie_where_the_options_say(jobs: Jobs, counters: Path) -> None:
    """Moving them needs no index to be named, and reads no data."""
    for path in counters.rglob("*.parquet"):
        path.rename(path.with_suffix(".away"))
    given = {"file-index.in-manifest-threshold": "1 mb"}

    moved = jobs.run("build_index", counters, table("t"), options=given)
    again = jobs.run("build_index", counters, table("t"), options=given)

    assert (moved["embedded"], again["snapshot_id"]) == (2, None)
    assert indexes(moved) == indexes(again) == {"bitmap city": (0, 2, 0), "bitmap counter": (0, 2, 0)}
    assert files_left(counters, "city = 'c30'") == 1


def test_an_index_is_taken_off_by_name(jobs: Jobs, counters: Path) -> None:
    off = {"take_off": [["city", "bitmap"]]}

    found = jobs.run("build_index", counters, table("t"), **off)
    again = jobs.run("build_index", counters, table("t"), **off)
    last = jobs.run("build_index", counters, table("t"), take_off=[["counter", "bitmap"]])

    assert indexes(found) == {"bitmap city": (0, 0, 2), "bitmap counter": (0, 2, 0)}
    assert again["snapshot_id"] is None
    assert indexes(last) == {"bitmap counter": (0, 0, 2)}
    assert jobs.run("audit", counters, table("t"))["indexed"] == 0
    assert files_left(counters, "counter = 30") == 2
    with pytest.raises(RequestError, match="has no option file-index"):
        jobs.run("build_index", counters, table("t"))


def test_an_index_that_is_larger_than_its_data_is_not_committed(jobs: Jobs, counters: Path) -> None:
    """Without ``items`` a bloom filter has room for a million values."""
    given = {"file-index.bloom-filter.columns": "city"}
    before = files_below(counters)

    with pytest.raises(JobError) as refused:
        jobs.run("build_index", counters, table("t"), options=given)
    assert files_below(counters) == before

    assert "the bloom-filter of 'city' takes 1,198,142 bytes beside" in str(refused.value)
    assert "make room for 20 values" in str(refused.value)
    fitting = jobs.run(
        "build_index", counters, table("t"), options={**given, "file-index.bloom-filter.city.items": "20"}
    )
    assert indexes(fitting)["bloom-filter city"] == (2, 0, 0)
    large = {"file-index.bloom-filter.columns": "counter"}
    assert (
        jobs.run("build_index", counters, table("t"), options=large, anyway=True)["index_bytes"] > 1_198_142
    )


@pytest.mark.parametrize("table_of_counters", ["bare_counters", "counters"])
def test_bloom_filters_too_large_are_refused_before_spark_is_asked(
    request: pytest.FixtureRequest, table_of_counters: str
) -> None:
    """Their size is known from the options, and the error has the options to add."""
    root: Path = request.getfixturevalue(table_of_counters)
    given = {"file-index.bloom-filter.columns": "city,counter"}

    with pytest.raises(JobError, match="takes 1,198,142 bytes beside") as refused:
        build_index(NO_SPARK, JobTable.open(str(root), table("t")), options=given)

    assert refused.value.__notes__ == [
        "--option file-index.bloom-filter.city.items=20",
        "--option file-index.bloom-filter.counter.items=20",
    ]


def test_files_with_large_bloom_filters_are_left_alone_when_the_job_runs_again(
    jobs: Jobs, counters: Path
) -> None:
    given = {"file-index.bloom-filter.columns": "city"}
    jobs.run("build_index", counters, table("t"), options=given, anyway=True)

    again = jobs.run("build_index", counters, table("t"), options=given)

    assert indexes(again)["bloom-filter city"] == (0, 2, 0)


def test_files_that_others_removed_are_left_out(golden: GoldenWarehouse, tmp_path: Path) -> None:
    name = "append_dv32"
    golden.copy(name, tmp_path)
    opened = open_table(tmp_path, name)
    entries = opened.entries()
    pairs = [(entry, replace(entry, file=replace(entry.file, embedded_index=b"new"))) for entry in entries]
    removed = replace(entries[0], kind=FileKind.DELETE)
    opened.committer.commit(Changes(CommitKind.OVERWRITE, (removed,)))

    snapshot_id, overtaken = commit_replacements(opened.committer, pairs)

    assert overtaken == [entries[0]]
    assert snapshot_id == opened.snapshot()["id"]
    assert {entry.file.embedded_index for entry in opened.entries()} == {b"new"}


# One Spark for all of them, where tests run side by side.


def test_an_audit_names_an_index_that_hides_a_row(
    jobs: Jobs, golden: GoldenWarehouse, tmp_path: Path
) -> None:
    name = "append_dv32"
    golden.copy(name, tmp_path)
    opened = open_table(tmp_path, name)
    one, other = opened.entries()[:2]
    wrong = replace(one, file=replace(one.file, embedded_index=other.file.embedded_index))
    broken = replace(other, file=replace(other.file, embedded_index=b"no index"))
    commit_replacements(opened.committer, [(one, wrong), (other, broken)])

    audited = jobs.run("audit", tmp_path, table(name), sample=20)

    found = {problem["path"].rpartition("/")[2] for problem in audited["problems"]}
    assert found == {one.file.file_name, other.file.file_name}
    assert any(problem["lost"] for problem in audited["problems"])

    jobs.run("build_index", tmp_path, table(name), rebuild=True)
    assert jobs.run("audit", tmp_path, table(name))["problems"] == []


@pytest.mark.long
def test_the_command_tells_by_its_status_what_an_audit_found(
    jobs: Jobs, golden: GoldenWarehouse, tmp_path: Path
) -> None:
    del jobs  # says whether Spark can run
    name = "append_dv32"
    golden.copy(name, tmp_path)
    opened = open_table(tmp_path, name)
    one, other = opened.entries()[:2]
    wrong = replace(one, file=replace(one.file, embedded_index=other.file.embedded_index))
    commit_replacements(opened.committer, [(one, wrong)])
    program = Path(run_job.__file__)

    finished = subprocess.run(  # noqa: S603 - fixed words
        [
            *(str(spark_python()), str(program), "audit", table(name), "--warehouse", str(tmp_path)),
            *("--master", "local[1]", "--sample", "5", "--json"),
        ],
        env=job_environment(),
        check=False,
        capture_output=True,
        text=True,
    )

    assert finished.returncode == 1, finished.stderr
    document = json.loads(finished.stdout.splitlines()[-1])
    assert document["passed"] is False
    assert f"{one.file.file_name}: " in finished.stderr
    assert "Traceback" not in finished.stderr


# One Spark for all of them, where tests run side by side.


@pytest.mark.parametrize("name", ["append_partitioned", "append_dv32", "empty"])
def test_plans_of_many_manifests_are_those_of_the_service(
    jobs: Jobs, golden: GoldenWarehouse, tmp_path: Path, name: str
) -> None:
    """Also with manifests that remove what others add."""
    golden.copy(name, tmp_path)
    opened = open_table(tmp_path, name)
    for entry in opened.entries()[::3]:
        commit_replacements(
            opened.committer, [(entry, replace(entry, file=replace(entry.file, embedded_index=None)))]
        )
    service = open_service(tmp_path)
    filters = [
        query["filter_sql"]
        for query in golden_cases.expected(name)["queries"]
        if not (query["tag"] or query["snapshot_id"] or query["topn"] or query["limit"] or query["branch"])
    ]
    for condition in filters[1 :: max(1, len(filters) // 2)]:
        expected = service.plan(golden_ref(name), PlanRequest(filter=condition))

        found = jobs.run("plan", tmp_path, table(name), filter=condition)

        assert sorted(file["path"] for file in found["files"]) == sorted(file.path for file in expected.files)
        assert found["files_total"] == expected.summary.files_total
        assert found["rows_total"] == expected.summary.rows_total
        assert found["rows_selected"] == expected.summary.rows_selected, condition
        assert found["skipped_by"] == {str(step): n for step, n in expected.summary.skipped_by.items()}
    service.close()
