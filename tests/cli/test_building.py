"""``paimon-index build``, ``verify`` and ``advise`` as their user runs them."""

import json
import re
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from app.building.columns import DataFormat
from app.cli import main
from app.file_index.stacked_index import FileIndex
from tests.cli.commands import run
from tests.containers import meanings, types_of
from tests.data_files import write_data_file
from tests.golden_cases import GoldenWarehouse, indexed_files

ROWS = 2_000
OPTIONS = (
    "--option",
    "file-index.bitmap.columns=city,id",
    "--option",
    "file-index.bloom-filter.columns=city",
    "--option",
    "file-index.bloom-filter.city.items=50",
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    table = pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "city": [None if row % 9 == 0 else f"city {row % 40}" for row in range(ROWS)],
            "tags": [["a"]] * ROWS,
        }
    )
    return write_data_file(tmp_path / "part-0.parquet", table, DataFormat.PARQUET)


def test_builds_and_verifies_an_index_file(data: Path) -> None:
    built = run("build", "--data", str(data), *OPTIONS)
    verified = run("verify", "--data", str(data))

    target = data.with_name("part-0.parquet.index")
    assert (built.returncode, built.stderr) == (0, "")
    assert re.search(r"city +bloom-filter +\d+", built.stdout)
    assert f"index: {target}\nrows: 2000\nbytes: {target.stat().st_size}\n" in built.stdout
    assert (verified.returncode, verified.stderr) == (0, "")
    assert re.search(r"id +bitmap +\d+ +2000 +2000 .* right", verified.stdout)
    assert re.search(r"city +bloom-filter +\d+ +40 +40 .* right", verified.stdout)
    assert sorted(path.name for path in data.parent.iterdir()) == ["part-0.parquet", "part-0.parquet.index"]


def test_prints_json(data: Path) -> None:
    target = data.with_name("small.index")
    option = ("--option", "file-index.bloom-filter.columns=city", "--option")

    built = run(
        "build",
        "--data",
        str(data),
        *option,
        "file-index.bloom-filter.city.items=50",
        "--out",
        str(target),
        "--json",
    )
    verified = run("verify", "--data", str(data), "--index", str(target), "--sample", "5", "--json")

    size = target.stat().st_size
    assert json.loads(built.stdout) == {
        "data": str(data),
        "index": str(target),
        "rows": ROWS,
        "bytes": size,
        "in_manifest": True,
        "indexes": [{"column": "city", "type": "bloom-filter", "bytes": size - 56}],
    }
    answer = json.loads(verified.stdout)
    (entry,) = answer["indexes"]
    assert (answer["passed"], answer["rows"], answer["bytes"], answer["unused_bytes"]) == (
        True,
        ROWS,
        size,
        0,
    )
    assert (entry["distinct_values"], entry["checked_values"], entry["problem"]) == (40, 5, None)
    assert 0 < entry["bloom_filter"]["false_positive_rate"] < 1


def test_says_that_the_engine_would_put_it_into_the_manifest(data: Path) -> None:
    threshold = ("--option", "file-index.in-manifest-threshold=1 mb")

    assert "into the manifest" in run("build", "--data", str(data), *OPTIONS, *threshold).stdout


def test_a_damaged_bit_that_loses_a_row_is_named(data: Path) -> None:
    run("build", "--data", str(data), *OPTIONS)
    target = data.with_name("part-0.parquet.index")
    content = bytearray(target.read_bytes())
    entries = FileIndex.read(bytes(content)).entries["city"]
    (bloom,) = (entry for entry in entries if entry.kind == "bloom-filter")
    # Some bits must be set; the highest of a byte that has any is one of them.
    at = next(at for at in range(bloom.start + 4, bloom.end) if content[at])
    content[at] &= content[at] - 1
    target.write_bytes(content)

    done = run("verify", "--data", str(data))
    answer = json.loads(run("verify", "--data", str(data), "--json").stdout)

    assert done.returncode == 1
    assert "loses rows" in done.stdout
    problem = next(each["problem"] for each in answer["indexes"] if each["problem"])
    assert problem["lost"]
    assert problem["value"] == f"city {problem['row'] % 40}"
    assert done.stderr == (
        f"error: {target}: bloom-filter index of column 'city': = \"{problem['value']}\" leaves out row "
        f'{problem["row"]}, whose value is "{problem["value"]}"\n'
    )


@pytest.mark.parametrize("table", ["append_orc", "append_avro", "all_types_orc", "map_index"])
def test_types_and_options_come_from_a_schema_file(
    golden: GoldenWarehouse, tmp_path: Path, table: str
) -> None:
    each = next(indexed_files(golden, table))
    schema = golden.table(table) / "schema" / f"schema-{each.schema.id}"
    target = tmp_path / "data.index"
    arguments = ("--data", str(each.path), "--schema", str(schema))

    built = run("build", *arguments, "--out", str(target))
    verified = run("verify", *arguments, "--index", str(target))

    assert (built.returncode, built.stderr) == (0, "")
    type_of = types_of(each.schema.fields)
    assert meanings(target.read_bytes(), type_of) == meanings(each.index, type_of)
    assert (verified.returncode, verified.stderr) == (0, "")


def test_types_that_a_file_does_not_tell_can_be_given(golden: GoldenWarehouse, tmp_path: Path) -> None:
    each = next(indexed_files(golden, "append_orc"))
    arguments = ("build", "--data", str(each.path), "--option", "file-index.bsi.columns=seen_at")
    target = ("--out", str(tmp_path / "data.index"))

    without = run(*arguments, *target)
    given = run(*arguments, *target, "--column", f"seen_at={each.schema.by_name['seen_at'].type}")

    assert without.returncode == 1
    assert "does not tell the precision of a timestamp" in without.stderr
    assert (given.returncode, given.stderr) == (0, "")


def test_advises(data: Path) -> None:
    done = run("advise", "--data", str(data))
    answer = json.loads(run("advise", "--data", str(data), "--json").stdout)

    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"city +STRING +40 +223 +bitmap +\d+ +few values", done.stdout)
    assert re.search(r"tags +list<\w+: string> +- +- +- +0 +no index takes this type", done.stdout)
    assert f"\nbytes: {data.stat().st_size}\n" in done.stdout
    assert "'file-index.bitmap.columns' = 'city'," in done.stdout
    assert answer["options"] == {"file-index.bitmap.columns": "city", "file-index.range-bitmap.columns": "id"}
    assert [column["index"] for column in answer["columns"]] == ["range-bitmap", "bitmap", None]
    assert answer["index_bytes"] == sum(column["index_bytes"] for column in answer["columns"])


def test_a_file_that_is_there_is_kept_unless_forced(data: Path) -> None:
    target = data.with_name("part-0.parquet.index")
    target.write_bytes(b"old")

    refused = run("build", "--data", str(data), *OPTIONS)
    assert refused.returncode == 1
    assert "exists: choose another name with --out, or replace it with --force" in refused.stderr
    assert target.read_bytes() == b"old"

    assert run("build", "--data", str(data), *OPTIONS, "--force").returncode == 0
    assert "is the data file" in run("build", "--data", str(data), "--out", str(data), "--force").stderr
    assert FileIndex.read(target.read_bytes()).entries


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "there is nothing to index: set file-index.<type>.columns"),
        (("--option", "file-index.bitmap.columns"), "--option takes NAME=VALUE"),
        (("--option", "a=1", "--option", "a=2"), "--option a is given twice"),
        (("--option", "file-index.bitmap.columns=nowhere"), "there is no column 'nowhere'"),
        (("--option", "file-index.bsi.columns=city"), "bsi does not take column 'city' of type STRING"),
        (("--option", "file-index.bitmap.columns=tags"), "no index does"),
        (("--column", "nowhere=INT"), "--column nowhere: "),
        (("--column", "id=NUMBER("), "--column id: unexpected text"),
        (("--schema", "nowhere"), "nowhere: there is no such file"),
        (
            (*OPTIONS, "--column", "city=INT"),
            "column 'city': expected values of type INT, found Arrow's string",
        ),
        ((*OPTIONS, "--out", "/nowhere/data.index"), "/nowhere/data.index cannot be written: No such file"),
        ((*OPTIONS, "--out", "/proc/data.index"), "/proc/data.index cannot be written: "),
    ],
)
def test_errors_are_one_line_and_leave_nothing(
    data: Path,
    arguments: tuple[str, ...],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["paimon-index", "build", "--data", str(data), *arguments])

    with pytest.raises(SystemExit) as exited:
        main()

    output = capsys.readouterr()
    assert (exited.value.code, output.out) == (1, "")
    assert re.fullmatch(r"error: [^\n]*\n", output.err)
    assert message in output.err
    assert list(data.parent.iterdir()) == [data]


@pytest.mark.parametrize("command", ["build", "verify", "advise"])
def test_a_missing_data_file_is_named(tmp_path: Path, command: str) -> None:
    index = tmp_path / "nowhere.parquet.index"
    if command == "verify":
        index.write_bytes(b"")

    done = run(command, "--data", str(tmp_path / "nowhere.parquet"))

    assert done.returncode == 1
    assert done.stderr == f"error: {tmp_path}/nowhere.parquet: there is no such file\n"


def test_an_index_file_that_is_none_is_named(data: Path) -> None:
    index = data.with_name("other.index")
    index.write_bytes(b"no index file at all")

    done = run("verify", "--data", str(data), "--index", str(index))

    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {index} at byte 0: expected the magic of a file index")
