"""Mistakes that people make, and what each is told: what is wrong with it, and what to do instead.

Every mistake is made as a stranger would, as a request to a running server or as a command, over the sample
warehouse. A message need not have the words of these tests, but it must tell the same.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests import tokens
from tests.api.conftest import Serve
from tests.cli.commands import WAREHOUSE, run

DATA: Final = WAREHOUSE / "demo.db/sessions/bucket-0/data-a5ef52ca-e60b-494e-bf0d-5b2b3907bf12-0.parquet"
DATABASES: Final = "/v1/main/databases"
SESSIONS: Final = f"{DATABASES}/demo/tables/sessions"
LOOKUP: Final = f"{DATABASES}/demo/tables/users/buckets/lookup"
INSPECT: Final = "/v1/main/index-files/inspect"
OPTIONS: Final = ("--warehouse", str(WAREHOUSE))
SECRET: Final = "pix_of_a_reader"  # noqa: S105 - of tests


@dataclass(frozen=True, slots=True)
class Servers:
    open: httpx.Client
    guarded: httpx.Client


@pytest.fixture(scope="module")
def servers(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    file = tokens.write(
        tmp_path_factory.mktemp("tokens") / "tokens",
        tokens.entry("reader", SECRET),
        tokens.entry("narrow", "pix_narrow", databases=["demos", "sales"]),
    )
    warehouses = {"main": str(WAREHOUSE)}
    with (
        serve(warehouses=warehouses) as opened,
        serve(warehouses=warehouses, tokens_file=str(file)) as guarded,
    ):
        yield Servers(opened, guarded)


@dataclass(frozen=True, slots=True)
class Made:
    """What a mistake led to: the HTTP or exit status, and the message."""

    status: int
    message: str


Mistake = Callable[[Servers], Made]


def problem(response: httpx.Response) -> Made:
    assert response.headers["content-type"] == "application/problem+json", response.text
    return Made(response.status_code, response.json()["detail"])


def get(path: str) -> Mistake:
    return lambda servers: problem(servers.open.get(path))


def post(path: str, body: object) -> Mistake:
    content = body if isinstance(body, str) else json.dumps(body)
    return lambda servers: problem(servers.open.post(path, content=content))


def plan(**body: Any) -> Mistake:
    return post(f"{SESSIONS}/plan", body)


def undecided(condition: str) -> Mistake:
    return warned(condition, files_skipped=0)


def never_true(condition: str) -> Mistake:
    return warned(condition, files_skipped=10)


def warned(condition: str, *, files_skipped: int) -> Mistake:
    def make(servers: Servers) -> Made:
        response = servers.open.post(f"{SESSIONS}/plan", json={"filter": condition})
        answer = response.json()
        assert answer["summary"]["files_skipped"] == files_skipped
        return Made(response.status_code, " ".join(answer["warnings"]))

    return make


def guarded(header: str | None, path: str = SESSIONS) -> Mistake:
    headers = {} if header is None else {"Authorization": header}
    return lambda servers: problem(servers.guarded.get(path, headers=headers))


def command(*arguments: str) -> Mistake:
    def make(_servers: Servers) -> Made:
        done = run(*arguments)
        assert not done.stdout, done.stdout
        return Made(done.returncode, done.stderr)

    return make


def build(option: str) -> Mistake:
    return command("build", "--data", str(DATA), "--out", "never.index", "--option", option)


WORDS_OF_LIBRARIES: Final = ("Input should", "Extra inputs", "Expecting value", "Not Found")
MISTAKES: Final[dict[str, tuple[Mistake, int, tuple[str, ...]]]] = {
    # What a name is spelled like, and what there is.
    "a column": (plan(filter="fe = 1"), 422, ("no column 'fe'", "did you mean 'fee'?", "owner")),
    "a column in capitals and misspelled": (plan(filter="OWNR = 'x'"), 422, ("did you mean 'owner'?",)),
    "a column that is like none": (plan(filter="zip = 1"), 422, ("no column 'zip'", "session_no, grade")),
    "a column of a list": (plan(in_lists={"rank": [1]}), 422, ("did you mean 'rank_no'?",)),
    "a column of an order": (
        plan(top_n={"order_by": [{"column": "chanel"}], "limit": 1}),
        422,
        ("did you mean 'channel'?",),
    ),
    "a column of a predicate as JSON": (
        plan(
            filter={
                "kind": "LEAF",
                "transform": {"name": "FIELD_REF", "fieldRef": {"name": "gradee", "type": "INT"}},
                "function": "EQUAL",
                "literals": [1],
            }
        ),
        422,
        ("did you mean 'grade'?",),
    ),
    "a table": (
        get(f"{DATABASES}/demo/tables/session"),
        404,
        ("no table demo.session", "'sessions'", "visits"),
    ),
    "a table of a plan": (
        post(f"{DATABASES}/demo/tables/Users/plan", {}),
        404,
        ("no table demo.Users", "did you mean 'users'?"),
    ),
    "a database": (
        get(f"{DATABASES}/dem/tables/sessions"),
        404,
        ("no database 'dem'", "did you mean 'demo'?"),
    ),
    "a database with its suffix": (
        post(f"{DATABASES}/demo.db/tables/sessions/plan", {}),
        404,
        ("no database 'demo.db'", "did you mean 'demo'?"),
    ),
    "a warehouse": (get("/v1/man/databases"), 404, ("no warehouse 'man'", "did you mean 'main'?")),
    "a path": (
        get("/v1/main/database/demo/tables/sessions"),
        404,
        ("nothing at /v1/main/database/", f"did you mean {SESSIONS}?", "/docs"),
    ),
    "a path without the version": (get("/main/databases"), 404, ("did you mean /v1/main/databases?",)),
    "a path with the word warehouses": (
        get("/v1/warehouses/main/databases/demo/tables/sessions/plan"),
        404,
        ("did you mean /v1/main/databases/demo/tables/sessions/plan?",),
    ),
    "a path with names alone": (
        get("/v1/main/demo/sessions/plan"),
        404,
        ("did you mean /v1/{warehouse}/databases/{database}/tables/{table}/plan?",),
    ),
    "a path with another word too many": (
        get("/v1/catalogs/main/databases/databases/tables"),
        404,
        ("did you mean /v1/{warehouse}/databases/{database}/tables?",),
    ),
    "another version": (get("/v2"), 404, ("did you mean /v1?",)),
    "the command line's word": (post(f"{SESSIONS}/count", {}), 404, (f"did you mean {SESSIONS}/aggregate?",)),
    "a path with a slash at its end": (get(f"{DATABASES}/"), 404, (f"did you mean {DATABASES}?",)),
    "an endpoint": (post(f"{SESSIONS}/plans", {}), 404, (f"did you mean {SESSIONS}/plan?",)),
    "a member": (plan(filtr="fee = 1"), 400, ("no member 'filtr'", "did you mean 'filter'")),
    "a member by another word": (plan(where="fee = 1"), 400, ("did you mean 'filter'?",)),
    "a member of a member": (
        plan(top_n={"orderby": [], "limit": 1}),
        400,
        ("top_n: there is no member 'orderby'", "did you mean 'order_by'?"),
    ),
    "a parameter": (get(f"{SESSIONS}?snapshot=1"), 400, ("no parameter 'snapshot'", "'snapshot_id'")),
    "a choice": (plan(selection="bitmaps"), 400, ("selection:", "none, count,", "did you mean 'bitmap'?")),
    "a time zone": (plan(time_zone="Berlin"), 400, ("no member 'time_zone'", "2025-08-01T12:30:00Z")),
    "an alias": (plan(alias="o"), 400, ("no member 'alias'", "qualified by the table's own name")),
    "a key's column": (
        post(LOOKUP, {"partition": {"dte": "2024-01-01"}, "keys": [{"id": 1}]}),
        422,
        ("'id' is not a key column", "did you mean 'uid'?"),
    ),
    "a partition's column": (
        post(LOOKUP, {"partition": {"dt": "2024-01-01"}, "keys": [{"uid": 1}]}),
        422,
        ('a partition of this table is {"dte": …}', "found dt"),
    ),
    # Filters.
    "WHERE": (plan(filter="WHERE fee = 1"), 422, ("condition alone", "what follows WHERE")),
    "a query": (
        plan(filter="SELECT * FROM sessions WHERE fee = 1"),
        422,
        ("condition alone", "what follows WHERE"),
    ),
    "an order behind the filter": (plan(filter="fee = 1 ORDER BY fee"), 422, ("condition alone", "top_n")),
    "a limit behind the filter": (plan(filter="fee = 1 LIMIT 3"), 422, ("condition alone", "'s limit")),
    "a semicolon": (plan(filter="fee = 1;"), 422, ("condition alone", "leave the semicolon away")),
    "a sign of named arguments": (
        plan(filter="fee => 5"),
        422,
        ("=> is not an operator", "did you mean >=?"),
    ),
    "AND as other languages have it": (plan(filter="fee = 5 && valid"), 422, ("did you mean AND?",)),
    "a list without parentheses": (plan(filter="owner IN 'a'"), 422, ("a list in brackets after IN",)),
    "a number as a date": (plan(filter="day = 20200101"), 422, ("is not a value of type DATE", "YYYY-MM-DD")),
    "a pattern for a number": (plan(filter="grade LIKE '5%'"), 422, ("tests strings, but grade is INT",)),
    # Conditions that decide nothing.
    "text without quotes": (
        undecided("owner = Berlin"),
        200,
        ("Berlin is not a value", "write text in quotes"),
    ),
    "a list of text without quotes": (
        undecided("owner IN (Berlin, Bonn)"),
        200,
        ("Berlin is not a value", "write text in quotes"),
    ),
    "a string of another database": (undecided("owner = N'a'"), 200, ("at position 0", "N is not a value")),
    "an operator of another database": (undecided("grade ~~ 1"), 200, ("at position 0", "not a comparison")),
    "a function of a column": (undecided("upper(owner) = 'A'"), 200, ("compare the column itself",)),
    "a sum": (undecided("grade + 1 > 5"), 200, ("not a comparison of a column",)),
    "a number with an exponent": (
        undecided("grade > 1e3"),
        200,
        ("exponent is a DOUBLE", "its digits"),
    ),
    "a number as text": (undecided("owner = 5"), 200, ("write the literal in quotes",)),
    "a comparison with NULL": (
        never_true("fee = NULL"),
        200,
        ("no row meets fee = NULL", "write fee IS NULL"),
    ),
    "NULL in a list": (
        never_true("rank_no NOT IN (1, NULL)"),
        200,
        ("no row meets NOT (rank_no IN (1, NULL))", "remove NULL from the list"),
    ),
    # Bodies.
    "no body": (post(f"{SESSIONS}/plan", ""), 400, ("body is empty", '{"filter":', "-d")),
    "a body that is no JSON": (post(f"{SESSIONS}/plan", "fee = 1"), 400, ("not JSON", '{"filter":')),
    "single quotes in JSON": (post(f"{SESSIONS}/plan", "{'filter': 'fee = 1'}"), 400, ("double quotes",)),
    "a list as the body": (post(f"{SESSIONS}/plan", []), 400, ("not a JSON object", '{"filter":')),
    "a number in quotes": (plan(limit="10"), 400, ("limit:", "whole number", '"10"')),
    "a number that is negative": (plan(limit=-1), 400, ("limit:", "at least 0", "-1")),
    "keys that are no objects": (
        post(LOOKUP, {"keys": [1]}),
        400,
        ("keys.0:", "an object, found 1", '[{"id": 1}'),
    ),
    "one key without a list": (post(LOOKUP, {"keys": {"uid": 1}}), 400, ("keys:", "a list, found an object")),
    "a partition as text": (
        post(LOOKUP, {"partition": "dte=2024-01-01", "keys": [{"uid": 1}]}),
        400,
        ("partition:", "an object", '{"dt":'),
    ),
    # Methods and tokens.
    "GET of a plan": (get(f"{SESSIONS}/plan"), 405, ("POST is", f"{SESSIONS}/plan -d '", '"filter"')),
    "GET of a look-up": (get(LOOKUP), 405, ("POST is", '"keys"')),
    "no token": (guarded(None), 401, ("token is needed", "Authorization: Bearer SECRET")),
    "a token without Bearer": (guarded(SECRET), 401, ("not of the form Bearer SECRET",)),
    "a token of another scheme": (guarded(f"Token {SECRET}"), 401, ("not of the form Bearer SECRET",)),
    "a database that a token may not use": (
        guarded("Bearer pix_narrow"),
        403,
        ("may not use database 'demo'", "it may use demos, sales"),
    ),
    # Versions.
    "a moment before the table": (
        plan(timestamp_millis=1_600_000_000_000),
        404,
        ("no snapshot as old", "oldest, snapshot 1, is of 1795230799994 ms", "2026-11-21T03:13:19"),
    ),
    "a moment in seconds": (plan(timestamp_millis=1_795_230_900), 404, ("milliseconds are expected",)),
    "a moment as text": (plan(timestamp_millis="2026-11-21"), 400, ("whole number", "1754006400000")),
    "a snapshot": (plan(snapshot_id=99), 404, ("no snapshot 99", "snapshots 1 to 3")),
    "a tag": (plan(tag="v1"), 404, ("no tag 'v1'", "no tags")),
    "a branch": (plan(branch="dev"), 404, ("no branch 'dev'", "no branches")),
    # Index files.
    "a data file to inspect": (
        post(INSPECT, {"path": str(DATA.relative_to(WAREHOUSE))}),
        400,
        ("a Parquet data file", f"{DATA.name}.index"),
    ),
    "an index file that is not there": (
        post(INSPECT, {"path": f"demo.db/sessions/bucket-0/{DATA.name.replace('-0.', '-1.')}.index"}),
        404,
        ("no file", f"did you mean '{DATA.name}.index'"),
    ),
    # Commands.
    "an option by another word": (
        command("plan", "demo.sessions", *OPTIONS, "--where", "fee = 1"),
        2,
        ("no option --where", "did you mean '--filter'?", "plan --help"),
    ),
    "an option": (command("plan", "demo.sessions", *OPTIONS, "--filtr", "fee = 1"), 2, ("'--filter'",)),
    "a number of an option": (
        command("plan", "demo.sessions", *OPTIONS, "--snapshot-id", "latest"),
        2,
        ("--snapshot-id", "whole number"),
    ),
    "a command": (command("pln", "demo.sessions"), 2, ("'pln'", "Did you mean 'plan'?")),
    "a filter of a job": (
        command("job", "delete", "demo.sessions", *OPTIONS, "--filter", "fee = 1"),
        2,
        ("did you mean '--where'?",),
    ),
    "a table of a command": (
        command("plan", "demo.session", *OPTIONS),
        1,
        ("no table demo.session", "did you mean 'sessions'?"),
    ),
    "a database of a command": (
        command("plan", "dmo.sessions", *OPTIONS),
        1,
        ("no database 'dmo'", "did you mean 'demo'?"),
    ),
    "a table without its database": (
        command("describe", "sessions", *OPTIONS),
        1,
        ("not DATABASE.TABLE", "databases here: demo"),
    ),
    "the directory of a table": (
        command("plan", str(WAREHOUSE / "demo.db" / "sessions"), "--filter", "fee = 1"),
        1,
        ("is a table's directory", f"give demo.sessions --warehouse {WAREHOUSE}"),
    ),
    "the warehouse before the database": (
        command("plan", "main.demo.sessions", "--warehouse", f"main={WAREHOUSE}"),
        1,
        ("omit 'main'", "give demo.sessions"),
    ),
    "no partition of a partitioned table": (
        command("lookup", "demo.users", *OPTIONS, "--key", '{"uid": 5}'),
        1,
        ('a partition of this table is {"dte": …}', "found none"),
    ),
    "a partition of a table without any": (
        command("lookup", "demo.sessions", *OPTIONS, "--key", '{"fee": 5}', "--partition", '{"dt": "x"}'),
        1,
        ("has no partitions", "leave dt away"),
    ),
    "the beginning of a kind of index": (
        command("what-if", "demo.sessions", *OPTIONS, "--index", "grade=bloom", "--filter", "grade = 1"),
        1,
        ("no index type 'bloom'", "did you mean 'bloom-filter'?"),
    ),
    "a directory as a data file": (
        command("build", "--data", str(WAREHOUSE), "--option", "file-index.bitmap.columns=fee"),
        1,
        ("is a directory", "give one data file"),
    ),
    "a place where no file can be": (
        command(
            *("build", "--data", str(DATA), "--out", "/proc/never.index"),
            *("--option", "file-index.bitmap.columns=grade"),
        ),
        1,
        ("/proc/never.index cannot be written", "choose another place with --out"),
    ),
    "a database as the warehouse": (
        command("plan", "demo.sessions", "--warehouse", str(WAREHOUSE / "demo.db")),
        1,
        ("warehouse has none", "directory that holds DATABASE.db"),
    ),
    "a warehouse that is not there": (
        command("plan", "demo.sessions", "--warehouse", f"{WAREHOUSE}s"),
        1,
        ("no directory or bucket", "check its URL"),
    ),
    "a key of a command that is no JSON": (
        command("lookup", "demo.users", *OPTIONS, "--key", "uid=5"),
        1,
        ("--key is not JSON", "'{\"id\": 1}'"),
    ),
    "a key of a command that is no object": (
        command("lookup", "demo.users", *OPTIONS, "--key", "5"),
        1,
        ("--key", "JSON object such as '{\"id\": 1}'"),
    ),
    "a partition of a command": (
        command("lookup", "demo.users", *OPTIONS, "--partition", "dte=2024-01-01", "--key", '{"uid": 5}'),
        1,
        ("--partition is not JSON", "JSON object such as"),
    ),
    "a data file to inspect by a command": (
        command("inspect", str(DATA)),
        1,
        ("a Parquet data file", f"{DATA.name}.index"),
    ),
    "a data file to evaluate": (
        command("verify", "--data", str(DATA), "--index", str(DATA)),
        1,
        ("magic of a file index", "found a Parquet file"),
    ),
    "a file of a command": (
        command("inspect", f"{DATA}.idx"),
        1,
        (f"no file {DATA}.idx", f"did you mean '{DATA.name}.index'"),
    ),
    "an option of a table": (
        build("file-index.bitmap.column=fee"),
        1,
        ("has no effect", "did you mean 'file-index.bitmap.columns'?"),
    ),
    "a kind of index": (build("file-index.bitmaps.columns=fee"), 1, ("did you mean 'bitmap'", "bsi")),
    "a column to index": (build("file-index.bitmap.columns=fees"), 1, ("did you mean 'fee'?", "owner")),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_with_what_to_do_instead(servers: Servers, name: str) -> None:
    mistake, status, meaning = MISTAKES[name]

    made = mistake(servers)

    assert made.status == status
    message = " ".join(made.message.split())
    assert [text for text in meaning if text not in message] == [], message
    assert [text for text in WORDS_OF_LIBRARIES if text in message] == []


def test_names_that_a_token_may_not_see_are_not_suggested(serve: Serve, tmp_path: Path) -> None:
    warehouses = {name: str(tmp_path / name) for name in ("main", "mains")}
    for warehouse in warehouses.values():
        for database in ("sale", "sales", "saleses"):
            shutil.copytree(WAREHOUSE / "demo.db", Path(warehouse) / f"{database}.db")
    file = tokens.write(
        tmp_path / "tokens",
        tokens.entry("narrow", "pix_narrow", databases=["salese", "saleses"]),
        tokens.entry("all", "pix_all", warehouses=["*"]),
        tokens.entry("lost", "pix_lost", warehouses=["main", "man"]),
    )
    with serve(warehouses=warehouses, tokens_file=str(file)) as client:

        def words(secret: str, path: str) -> set[str]:
            detail: str = client.get(path, headers=tokens.bearer(secret)).json()["detail"]
            return set(re.findall(r"\w+", detail))

        narrow = words("pix_narrow", "/v1/main/databases/salese/tables/users")
        wide = words("pix_all", "/v1/main/databases/salese/tables/users")
        elsewhere = words("pix_lost", "/v1/man/databases")

    assert narrow & {"sale", "sales", "saleses"} == {"saleses"}
    assert wide >= {"sale", "sales", "saleses"}
    assert elsewhere & {"main", "mains"} == {"main"}
