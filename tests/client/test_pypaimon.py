"""``paimon_index.pypaimon`` without pypaimon: what is asked, and what leaves the table as it was.

``test_pypaimon_reads.py`` reads tables with pypaimon.
"""

import io
import json
import socket
import threading
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paimon_index.pypaimon import UnplannedWarning, planned
from tests.client.scripted import Answer, ScriptedServer, nowhere, problem

SNAPSHOT = SimpleNamespace(id=3, delta_manifest_list="manifest-list-3-1")
ANSWER = {
    "snapshot_id": 3,
    "schema_id": 0,
    "delta_manifest_list": "manifest-list-3-1",
    "document": None,
    "summary": {"complete": True},
    "warnings": ["no file is pruned by fee LIKE '5%': it tests text"],
    "name": "n",
}
FEE = SimpleNamespace(method="equal", field="fee", literals=[5])


def table(options: dict[str, str] | None = None, given: dict[str, str] | None = None, **members: Any) -> Any:
    """Return what ``planned`` looks at of a table of pypaimon's, before it has an answer."""
    manager = SimpleNamespace(
        get_latest_snapshot=lambda: SNAPSHOT,
        get_snapshot_by_id=lambda number: SimpleNamespace(id=number, delta_manifest_list="of another"),
    )
    stated = {
        "table_path": "file:/data/warehouse/demo.db/sessions",
        "table_schema": SimpleNamespace(id=0),
        "fields": [SimpleNamespace(name="fee", type="INT NOT NULL")],
        "partition_keys": [],
        "options": SimpleNamespace(options=SimpleNamespace(to_map=lambda: options or {})),
        "_applied_dynamic_options": given or {},
        "current_branch": lambda: "main",
        "snapshot_manager": lambda: manager,
        "new_read_builder": lambda: None,
    }
    return SimpleNamespace(**{**stated, **members})


def archive(answer: Any = None, compression: int = zipfile.ZIP_STORED, **files: bytes) -> Answer:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", compression) as opened:
        for name, content in files.items():
            opened.writestr(name, content)
        if answer is not None:
            opened.writestr("answer.json", answer if isinstance(answer, bytes) else json.dumps(answer))
    return Answer(body=written.getvalue())


def unplanned(asked: Any, url: str, predicate: Any = FEE, **arguments: Any) -> str:
    """Why nothing is planned, after it was made sure of that."""
    arguments = {"warehouse": "main", **arguments}
    with pytest.warns(UnplannedWarning) as caught:
        assert planned(asked, predicate, url, **arguments) is asked
    assert caught[0].filename == __file__
    return str(caught[0].message)


def test_a_table_of_which_most_files_are_kept_is_as_it_was_without_a_warning(
    scripted: ScriptedServer,
) -> None:
    scripted.answers = [archive(ANSWER)]
    asked = table()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert planned(asked, FEE, scripted.url, warehouse="main", token="secret") is asked  # noqa: S106

    path, headers = scripted.requests[0]
    assert path == "/v1/main/databases/demo/tables/sessions/pruned-snapshot"
    assert headers["Authorization"] == "Bearer secret"


def test_indexes_that_were_not_read_in_time_are_told_of(scripted: ScriptedServer) -> None:
    scripted.answers = [
        archive({**ANSWER, "summary": {"complete": False}, "warnings": ["the time for indexes ran out"]})
    ]

    assert "ran out" in unplanned(table(), scripted.url)


@pytest.mark.parametrize(
    ("root", "url"),
    [
        ("file:/data/warehouse", "file:///data/warehouse/"),
        ("/data/warehouse", "file:/data/warehouse"),
        ("warehouse", f"file://{Path.cwd()}/warehouse"),
        ("s3a://b/w", "s3://b/w/"),
        ("hdfs://nodes/w", "hdfs://nodes/w"),
    ],
)
def test_the_warehouse_is_the_one_with_the_url_of_the_table(
    scripted: ScriptedServer, root: str, url: str
) -> None:
    urls = {"other": "s3://b/data/warehouse", "ours": url}
    scripted.answers = [Answer(body=json.dumps({"warehouse_urls": urls}).encode()), archive(ANSWER)]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        planned(table(table_path=f"{root}/demo.db/sessions"), FEE, scripted.url)

    assert scripted.requests[1][0].startswith("/v1/ours/")


def test_a_table_of_another_warehouse_is_as_it_was(scripted: ScriptedServer) -> None:
    scripted.answers = [Answer(body=b'{"warehouse_urls": {"other": "s3://b/w"}}')]

    assert "one of {'other': 's3://b/w'}" in unplanned(table(), scripted.url, warehouse=None)


def test_a_service_that_is_not_there_leaves_the_table_as_it_was() -> None:
    assert "cannot be reached" in unplanned(table(), nowhere())


def test_a_service_that_never_answers_leaves_the_table_as_it_was(scripted: ScriptedServer) -> None:
    scripted.answers = [Answer(silent=True)]

    assert "no answer" in unplanned(table(), scripted.url, timeout_seconds=0.1)


@contextmanager
def trickling() -> Iterator[str]:
    """Yield the URL of a server that sends a byte every now and then, until the block ends."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
                while not ended.wait(0.02):
                    connection.sendall(b"P")

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            ended.set()
            thread.join()


def test_an_answer_that_comes_byte_by_byte_is_not_waited_for() -> None:
    with trickling() as url:
        assert "no answer" in unplanned(table(), url, timeout_seconds=0.1)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (problem(424, "unsupported-format"), "424 unsupported-format"),
        (problem(400, "filter", column="fee"), "400 filter"),
        (problem(503, "overloaded"), "503 overloaded"),
        (Answer(302, b"", {"Location": "http://localhost:1/"}), "http-302"),
        (Answer(body=b"<html>"), "not a zip file"),
        (Answer(body=b""), "not a zip file"),
        (Answer(body=b"PK\1\2" * 20_001), "entries"),
        (Answer(body=archive(ANSWER).body[:-30]), "not a zip file"),
        (Answer(body=archive(ANSWER).body, announced=1_000), "was cut"),
        (archive(), "answer.json"),
        (archive(b"{"), "JSONDecodeError"),
        (archive(b"[" * 200_000), "RecursionError"),
        (archive(b"[]"), "TypeError"),
        (archive(b"{}"), "snapshot_id"),
        (archive(ANSWER, zipfile.ZIP_DEFLATED, bomb=bytes(1 << 20)), "none of the service's"),
        (archive({**ANSWER, "snapshot_id": 2}), "is read"),
        (archive({**ANSWER, "snapshot_id": 4}), "is read"),
        (archive({**ANSWER, "snapshot_id": "4"}), "TypeError"),
        (archive({**ANSWER, "snapshot_id": None, "delta_manifest_list": None}), "is read"),
        (archive({**ANSWER, "delta_manifest_list": "of another table"}), "is read"),
        (archive({**ANSWER, "schema_id": 1}), "is read"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_whatever_else_is_answered_leaves_the_table_as_it_was(
    scripted: ScriptedServer, answer: Answer, reason: str
) -> None:
    scripted.answers = [answer]

    assert reason in unplanned(table(), scripted.url)


def test_an_answer_of_too_many_bytes_is_not_read(
    scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paimon_index.pypaimon.planning._MOST_BYTES", 100)
    scripted.answers = [archive(ANSWER)]

    assert "more than 100 bytes" in unplanned(table(), scripted.url)


@pytest.mark.parametrize(
    "option",
    [
        *("scan.snapshot-id", "scan.tag-name", "scan.mode", "scan.fallback-branch", "branch", "consumer-id"),
        *("incremental-between-timestamp", "query-auth.enabled", "deletion-vectors.merge-on-read"),
        *("pk-btree.index.columns", "pk-full-text.index.columns"),
    ],
)
def test_an_option_by_which_something_else_is_read_is_not_asked_with(
    scripted: ScriptedServer, option: str
) -> None:
    assert f"the option {option} is in force" in unplanned(table({option: "1"}), scripted.url)
    assert scripted.requests == []


def test_an_option_of_a_copy_that_is_not_known_to_be_harmless_is_not_asked_with(
    scripted: ScriptedServer,
) -> None:
    scripted.answers = [archive({**ANSWER, "schema_id": 1})]

    assert "some.option" in unplanned(table(given={"some.option": "x"}), scripted.url)
    assert "scan.mode" in unplanned(table(given={"scan.mode": "latest"}), scripted.url)
    harmless = {"read.batch-size": "7", "scalar-index.search-mode": "full"}
    assert "is read" in unplanned(table({"data-evolution.enabled": "true"}, given=harmless), scripted.url)


def test_another_branch_or_snapshot_is_not_asked_about(scripted: ScriptedServer) -> None:
    assert "branch" in unplanned(table(current_branch=lambda: "b"), scripted.url)
    assert "version" in unplanned(table(_read_snapshot=SNAPSHOT), scripted.url)
    assert scripted.requests == []


def test_a_predicate_of_which_nothing_can_be_sent_is_not_asked(scripted: ScriptedServer) -> None:
    nothing = SimpleNamespace(method="equal", field="fee", literals=["5"])

    assert "no part of the predicate" in unplanned(table(), scripted.url, nothing)
    assert scripted.requests == []


def test_a_table_without_a_place_is_as_it_was() -> None:
    elsewhere = SimpleNamespace(new_read_builder=lambda: None)

    assert "table_path" in unplanned(elsewhere, "http://localhost")


@pytest.mark.parametrize(
    ("given", "error", "remedy"),
    [
        ({"table": "shop.events"}, TypeError, r"table is a str: .*catalog\.get_table"),
        ({"predicate": "id = 5"}, TypeError, r"predicate is a str: build it with .*new_predicate_builder"),
        ({"predicate": None}, TypeError, r"predicate is a NoneType: .*or read the table itself"),
        ({"url": None}, TypeError, r"a base URL is a text such as 'http://localhost:8080', found None"),
        ({"url": [8080]}, TypeError, r"a base URL is a text .*, found 8080"),
        ({"url": "nonsense"}, ValueError, r"'nonsense' is not a base URL: expected http"),
        ({"url": []}, ValueError, "no base URL is given"),
        ({"timeout_seconds": 0}, ValueError, r"timeout_seconds is a number of seconds above 0, found 0"),
        ({"timeout_seconds": float("nan")}, ValueError, "above 0, found nan"),
        ({"timeout_seconds": float("inf")}, ValueError, "above 0, found inf"),
        ({"timeout_seconds": "2"}, TypeError, "timeout_seconds is a number of seconds, found '2'"),
        ({"token": b"secret"}, TypeError, "the token is a text, found bytes"),
    ],
)
def test_arguments_that_nobody_could_plan_with_are_errors_at_once(
    scripted: ScriptedServer, given: dict[str, Any], error: type[Exception], remedy: str
) -> None:
    arguments = {"table": table(), "predicate": FEE, "url": scripted.url, **given}

    with pytest.raises(error, match=remedy) as raised:
        planned(**arguments)
    assert "secret" not in str(raised.value)
    assert scripted.requests == []


def test_a_token_that_no_header_may_have_is_told_nowhere(scripted: ScriptedServer) -> None:
    with pytest.raises(ValueError, match="the token") as raised:
        planned(table(), FEE, scripted.url, token="secret\n")  # noqa: S106

    assert "secret" not in str(raised.value)
