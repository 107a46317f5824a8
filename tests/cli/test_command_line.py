"""The command line as its user runs it."""

import io
import json
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import typer.main

from app import __version__
from app.cli import program
from app.cli.output import print_line, print_table, printable
from tests.advice.indexed_tables import events, grown, indexed_table
from tests.cli.commands import PROGRAM, WAREHOUSE, run
from tests.examples import share
from tests.golden_cases import GoldenWarehouse

FEE_FILES = [
    "data-a5ef52ca-e60b-494e-bf0d-5b2b3907bf12-0.parquet",
    "data-59c0f0da-4dbd-4b78-8ab7-35e61872058d-0.parquet",
    "data-0c045eb1-3832-4e3a-95c7-820bb5d6e6ae-0.parquet",
]


def test_cache_prune_counts_and_removes(tmp_path: Path) -> None:
    old = tmp_path / "1" / ("0" * 64)
    old.parent.mkdir()
    old.write_bytes(b"12345")
    os.utime(old, (0, 0))
    variables = {"PAIMON_INDEX_SHARED_CACHE": str(tmp_path)}

    tried = run("cache", "prune", "--older-than", "30", "--dry-run", **variables)
    assert tried.stdout == "1 entries of 5 bytes would be removed, 0 of 0 bytes left\n"
    assert old.exists()
    key = {"PAIMON_INDEX_SHARED_CACHE_KEY": "0123456789abcdef"}
    done = run("cache", "prune", "--older-than", "30", "--json", **variables, **key)
    assert json.loads(done.stdout) == {"removed": 1, "removed_bytes": 5, "left": 0, "left_bytes": 0}
    assert not old.exists()
    refused = run("cache", "prune", "--older-than", "30")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "PAIMON_INDEX_SHARED_CACHE" in refused.stderr


def test_plan_as_json_is_the_services_answer() -> None:
    done = run(
        "plan", "demo.sessions", "--warehouse", f"main={WAREHOUSE}", "--filter", "fee = 58.43", "--json"
    )

    answer = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(file["file_name"] for file in answer["files"]) == sorted(FEE_FILES)
    assert answer["next_page_token"] is None


def test_plan_as_a_table_names_every_file_whole() -> None:
    done = run("plan", "demo.sessions", "--warehouse", str(WAREHOUSE), "--filter", "fee = 58.43")

    assert done.returncode == 0, done.stderr
    assert "3 of 10 files, 8 of" in done.stdout
    assert all(name in done.stdout for name in FEE_FILES)


def test_plan_tells_files_by_uris() -> None:
    options = ("--warehouse", str(WAREHOUSE), "--filter", "fee = 58.43", "--uris")

    done = run("plan", "demo.sessions", *options)
    answer = json.loads(run("plan", "demo.sessions", *options, "--json").stdout)

    assert all(f"file://{WAREHOUSE}/demo.db/sessions/" in done.stdout for _ in FEE_FILES)
    assert sorted(file["path"].rpartition("/")[2] for file in answer["files"]) == sorted(FEE_FILES)
    assert all((Path(file["path"].removeprefix("file://"))).parent.is_dir() for file in answer["files"])


def test_a_table_and_its_schemas_are_described() -> None:
    table = ("demo.sessions", "--warehouse", str(WAREHOUSE))

    described = json.loads(run("describe", *table, "--snapshot-id", "1", "--json").stdout)
    listed = json.loads(run("schemas", *table, "--json").stdout)
    one = run("schemas", *table, "--schema-id", "0", "--json")

    assert (described["snapshot"]["id"], described["table"]) == (1, "sessions")
    assert json.loads(one.stdout) == listed["schemas"][0]
    for done in (run("describe", *table), run("schemas", *table), run("schemas", *table, "--schema-id", "0")):
        assert (done.returncode, done.stderr) == (0, "")
        assert "DECIMAL(12, 2)" in done.stdout
    assert "no schema 7" in run("schemas", *table, "--schema-id", "7").stderr


def test_plan_takes_json_filters_and_explains() -> None:
    leaf = {
        "kind": "LEAF",
        "transform": {"name": "FIELD_REF", "fieldRef": {"name": "fee", "type": "DECIMAL(12, 2)"}},
        "function": "EQUAL",
        "literals": ["58.43"],
    }
    options = ("--filter", json.dumps(leaf), "--explain", "--json")

    answer = json.loads(run("plan", "demo.sessions", "--warehouse", f"file://{WAREHOUSE}", *options).stdout)

    assert len(answer["files"]) == 3
    assert len(answer["skipped_files"]) == 7


def test_an_explained_plan_tells_groups_and_lists_files_where_asked() -> None:
    options = ("--warehouse", str(WAREHOUSE), "--filter", "fee = 58.43", "--explain")

    explained = run("plan", "demo.sessions", *options).stdout
    listed = run("plan", "demo.sessions", *options, "--files").stdout

    assert re.search(r"^3 files are kept, matched: .*\nstep ", explained, re.MULTILINE)
    assert re.search(r"^7 files are skipped by file_index: .*, and 4 more\nstep ", explained, re.MULTILINE)
    assert listed.startswith(explained)
    assert len(re.findall(r"^data-\S+ +0 ", listed.removeprefix(explained), re.MULTILINE)) == 10


def test_plan_takes_the_first_rows_of_an_order() -> None:
    options = ("--order-by", "sessions.rank_no:desc:last", "--top", "1", "--json")

    done = run("plan", "demo.sessions", "--warehouse", str(WAREHOUSE), *options)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["summary"]["files_kept"] < 10


def test_the_warehouse_may_come_from_the_environment() -> None:
    configured = json.dumps({"main": str(WAREHOUSE)})

    by_default = run("lookup", "demo.users", "--hash", "1", PAIMON_INDEX_WAREHOUSES=configured)
    by_name = run("plan", "demo.sessions", "--warehouse", "main", PAIMON_INDEX_WAREHOUSES=configured)

    assert by_default.returncode == 1
    assert "partition" in by_default.stderr
    assert by_name.returncode == 0, by_name.stderr


def test_deletions() -> None:
    options = ("--file", "data-2dc337a7-a232-4ec3-8b9a-eb986f9dbff1-0.parquet")

    table = run("deletions", "demo.visits", "--warehouse", str(WAREHOUSE), *options)
    answer = run("deletions", "demo.visits", "--warehouse", str(WAREHOUSE), *options, "--json")

    assert "[[2,4],[14,15]," in table.stdout
    assert json.loads(answer.stdout)["deletions"][0]["cardinality"] == 17


def test_lookup() -> None:
    options = (
        "--partition",
        '{"dte": "2024-01-01"}',
        "--key",
        '{"uid": 999999967}',
        "--key",
        '{"uid": 1000014967}',
    )

    table = run("lookup", "demo.users", "--warehouse", str(WAREHOUSE), *options)
    answer = run("lookup", "demo.users", "--warehouse", str(WAREHOUSE), *options, "--json")

    assert re.search(r'\{"uid":999999967\} +210304340 +0', table.stdout)
    assert re.search(r'\{"uid":1000014967\} +2099020797 +-', table.stdout)
    assert [found["bucket"] for found in json.loads(answer.stdout)["buckets"]] == [0, None]


def test_index_files_are_inspected_and_evaluated_without_a_warehouse() -> None:
    files = sorted(str(file) for file in (WAREHOUSE / "demo.db" / "sessions" / "bucket-0").glob("*.index"))

    inspected = run("inspect", files[0], "--column", "rank_no=INT")
    evaluated = run(
        "evaluate",
        *files,
        "--column",
        "rank_no=INT",
        "--filter",
        "rank_no = 4956",
        "--json",
    )

    assert re.search(r"^rank_no +range-bitmap ", inspected.stdout, re.MULTILINE), inspected.stderr
    results = json.loads(evaluated.stdout)["results"]
    assert [result["name"] for result in results] == files
    assert [result["selection"] for result in results if result["decision"] == "keep"] == [[[12, 13]]]


def test_index_files_of_a_warehouse(golden: GoldenWarehouse) -> None:
    file = min(golden.table("append_dv32").glob("index/index-*"))

    done = run("inspect", str(file.relative_to(golden.root)), "--warehouse", str(golden.root), "--json")

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("plan", "demo.sessions"), "--warehouse is missing"),
        (("plan", "sessions", "--warehouse", str(WAREHOUSE)), "not DATABASE.TABLE"),
        (("plan", "demo.nowhere", "--warehouse", str(WAREHOUSE)), "nowhere"),
        (("plan", "demo.sessions", "--warehouse", str(WAREHOUSE), "--filter", "nowhere = 1"), "nowhere"),
        (("plan", "demo.sessions", "--warehouse", str(WAREHOUSE), "--filter", "{"), "--filter is not JSON"),
        (("plan", "demo.sessions", "--warehouse", str(WAREHOUSE), "--selection", "bits"), "selection"),
        (("plan", "demo.sessions", "--warehouse", str(WAREHOUSE), "--top", "1"), "--order-by"),
        (("plan", "demo.sessions", "--warehouse", str(WAREHOUSE), "--snapshot-id", "4711"), "4711"),
        (("lookup", "demo.users", "--warehouse", str(WAREHOUSE)), "either --key or --hash"),
        (("evaluate", "nowhere.index", "--column", "id"), "NAME=TYPE"),
        (("evaluate", "nowhere.index", "--column", "id="), "NAME=TYPE"),
        (("inspect", "nowhere.index"), "nowhere.index"),
        (("serve",), "no warehouse is configured"),
        (("serve", "--warehouse", "config=/tmp"), "'config' is reserved"),
        (("serve", "--warehouse", "main=nowhere://x"), "'main' cannot be opened"),
        (("serve", "--warehouse", f"main={WAREHOUSE}", "--port", "70000"), "PAIMON_INDEX_PORT"),
    ],
)
def test_errors_are_one_line(arguments: tuple[str, ...], message: str) -> None:
    done = run(*arguments)

    assert done.returncode == 1
    assert done.stdout == ""
    assert re.fullmatch(r"error: [^\n]*\n", done.stderr)
    assert message in done.stderr


@pytest.mark.parametrize(
    "arguments", [("plan",), ("nowhere",), ("plan", "a.b", "--nowhere"), ("plan", "a.b", "--limit", "x")]
)
def test_wrong_usage(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).returncode == 2


def test_version() -> None:
    done = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=False)  # noqa: S603 - ours

    assert (done.returncode, done.stdout) == (0, f"{__version__}\n")


def test_openapi_prints_the_file_in_the_tree() -> None:
    assert run("openapi").stdout == (WAREHOUSE.parents[1] / "openapi.yaml").read_text()


@pytest.mark.parametrize(
    ("line", "completed"),
    share(
        [
            ("paimon-index plan --order", {"--order-by"}),
            ("paimon-index de", {"deletions", "demo", "describe"}),
            ("paimon-index job build", {"build-index"}),
        ],
        3,
    ),
)
def test_bash_completes_commands_and_options(line: str, completed: set[str]) -> None:
    script = run(_PAIMON_INDEX_COMPLETE="source_bash").stdout
    asked = f"COMP_WORDS=({line}); COMP_CWORD={line.count(' ')}; _paimon_index_completion paimon-index"
    bash = ["bash", "-c", f"{script}\n{asked}\nprintf '%s\\n' \"${{COMPREPLY[@]}}\""]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    done = subprocess.run(  # noqa: S603 - our own program
        bash, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )

    assert set(done.stdout.split()) == completed, done.stderr


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_are_told_what_completes_a_line(shell: str) -> None:
    given = {
        "_PAIMON_INDEX_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": "paimon-index de",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }

    told = run(**given).stdout

    assert "deletions" in told
    assert "describe" in told
    assert "doctor" not in told


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:
    listed = run("--help", COLUMNS="200").stdout

    for name, command in typer.main.get_command(program).commands.items():  # type: ignore[attr-defined] # a click group
        line = next(line for line in listed.splitlines() if line.startswith(f"│ {name} "))
        assert line.strip("│ ").removeprefix(name).strip() == command.get_short_help_str(200)


def test_the_list_of_commands_loads_none_of_them() -> None:
    loaded = "import sys; from app.cli import main; sys.argv[1:] = ['--help']; sys.excepthook = print\n"
    loaded += "try: main()\nfinally: print(sorted({'fastapi', 'numpy', 'pyarrow'} & set(sys.modules)))"

    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", loaded], capture_output=True, text=True, check=False
    )

    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("job", "table", "message"),
    [
        (("delete", "--where", "1 = 1"), "pk_dv", "has a primary key"),
        (("plan", "--filter", "nothing = 1"), "append_dv32", "there is no column 'nothing'"),
    ],
)
def test_jobs_refuse_a_condition_before_spark_starts(
    golden: GoldenWarehouse, job: tuple[str, ...], table: str, message: str
) -> None:
    name, *options = job

    done = run(
        "job", name, f"golden.{table}", "--warehouse", str(golden.root), *options, "--master", "nowhere"
    )

    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr


def test_counts_and_facets_without_data() -> None:
    table = ("demo.sessions", "--warehouse", str(WAREHOUSE))

    counted = run("count", *table, "--filter", "fee = 58.43")
    facets = run("count", *table, "--by", "grade", "--top", "2")
    between = run("count", *table, "--of", "min:memo")
    wrong = run("count", *table, "--of", "sum:")
    bare = run("aggregate", *table, "--of", "fee")

    assert counted.stdout.split() == ["count", "8"]
    assert facets.stdout.splitlines()[0].split() == ["grade", "count"]
    assert "more groups" in facets.stdout
    assert "10 of 10 files leave the answer open" in between.stdout
    assert (wrong.returncode, "FUNCTION:COLUMN" in wrong.stderr) == (1, True)
    assert (bare.returncode, "write sum:fee" in bare.stderr) == (1, True)


def test_advice_and_what_if() -> None:
    table = ("demo.sessions", "--warehouse", str(WAREHOUSE))

    advised = run("advise", *table)
    tried = run("what-if", *table, "--index", "memo=bloom-filter,items=200", "--filter", "memo = '7'")
    neither = run("advise")

    assert (advised.returncode, advised.stderr) == (0, "")
    assert "make room for 130 values" in advised.stdout
    assert "too little for any index to matter" in advised.stdout
    assert "saves " in advised.stdout
    assert "together:" not in advised.stdout
    assert (tried.returncode, tried.stderr) == (0, "")
    assert re.search(r"^memo = '7' .* memo +bloom-filter ", tried.stdout, re.MULTILINE)
    assert (neither.returncode, "--data" in neither.stderr) == (1, True)


def test_advice_ends_with_lines_to_paste(tmp_path: Path) -> None:
    files = grown([events(300, first) for first in (0, 300)])
    indexed_table(tmp_path, files, {"file-index.bloom-filter.columns": "city"})

    advised = run("advise", "golden.made0", "--warehouse", str(tmp_path))

    assert advised.stdout.partition("together:\n")[2].splitlines() == [
        "  ALTER TABLE `golden`.`made0` SET TBLPROPERTIES ('file-index.bloom-filter.city.items' = '300');",
        f"  paimon-index job build-index golden.made0 --warehouse file://{tmp_path} --rebuild",
    ]


def test_a_command_that_is_gone_says_what_to_do_instead() -> None:
    done = run("orphans", "db.t", "--older-than", "1d")

    assert done.returncode == 2
    assert "sys.remove_orphan_files(table => 'db.t')" in done.stderr
    assert "the action remove_orphan_files" in done.stderr


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("data-1.parquet", "data-1.parquet"),
        ("Größe 日本", "Größe 日本"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("one\nerror: two\r", "one\\nerror: two\\r"),
        ("\x9b31m", "\\x9b31m"),
        ("txt.\u202eexe", "txt.\\u202eexe"),
        ("\ud800", "\\ud800"),
        ("webhdfs://user:pix_SECRET@host:9870/w", "webhdfs://***@host:9870/w"),
        ("s3://lake/user@host", "s3://lake/user@host"),
        ("abfss://container@account.dfs/w", "abfss://container@account.dfs/w"),
    ],
)
def test_what_is_printed_moves_no_cursor_and_names_no_password(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_tables_and_lines_are_printable(capsys: pytest.CaptureFixture[str]) -> None:
    print_line("line \x1b[31m")
    print_table(("name",), [("cell \x1b[31m",), ({"member": "\x1b"},)])

    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert printed.count("x1b[31m") == 2


def test_a_terminal_without_a_character_is_given_its_number() -> None:
    written = io.BytesIO()
    terminal = io.TextIOWrapper(written, encoding="ascii", write_through=True)
    with redirect_stdout(terminal):
        print_line("databases größe, 日本")
        print_table(("name",), [("größe",)])

    assert written.getvalue().decode().split() == [
        "databases", "gr\\xf6\\xdfe,", "\\u65e5\\u672c", "name", "gr\\xf6\\xdfe"
    ]  # fmt: skip


def test_lines_of_a_cell_stand_below_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("found",), [(("one", "tw\no"),)])

    assert [line.strip() for line in capsys.readouterr().out.splitlines()] == ["found", "one", r"tw\no"]
