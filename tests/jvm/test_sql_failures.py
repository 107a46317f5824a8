"""Whatever the service does, SQL has its rows, and a query waits no longer than it is told."""

import json
import socketserver
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import pytest

from app.main import create_app
from app.settings import Settings
from tests.api.conftest import listening
from tests.client.scripted import Answer, ScriptedServer
from tests.jvm.sql_sessions import SqlSession, SqlSpark

pytestmark = [pytest.mark.jvm, pytest.mark.connector]

_QUERY: Final = "SELECT * FROM indexed.db.cities WHERE city IN ('c7', 'c80')"
_PATH: Final = "/v1/main/databases/db/tables/cities/pruned-snapshot"
_LONGEST_SECONDS: Final = 60
"""Far above the default of two seconds, on any machine; what was measured is a property of the test."""

_CLOSE: Final = {"Connection": "close"}
_ANSWERS: Final = {
    "garbage": (Answer(200, b"\x00\xff" * 500, _CLOSE), "refused"),
    "an empty document": (Answer(200, b"{}", _CLOSE), "refused"),
    "HTML": (Answer(200, b"<html><body>Welcome</body></html>", _CLOSE), "refused"),
    "half a body": (Answer(200, b"PK\x03\x04", announced=5000), "unreachable"),
    "429": (Answer(429, b"busy", _CLOSE), "unreachable"),
    "503": (Answer(503, b"busy", _CLOSE), "unreachable"),
    "302": (Answer(302, b"", {"Location": "http://127.0.0.1:1/", **_CLOSE}), "refused"),
    "never": (Answer(silent=True), "late"),
}


# With manifests in base64, before it was an archive.
_OLD: Final = b'{"snapshot_id": 1, "schema_id": 0, "name": "x", "document": {}, "metadata_files": []}'


class Cities(NamedTuple):
    """A table ``db.cities``, and how its rows are asked for."""

    spark: SqlSpark
    warehouse: Path

    def session(self, uri: str, timeout: str = "60 s") -> SqlSession:
        """One that has read the table, so that what is measured next is a query alone."""
        named = {
            "spark.sql.catalog.indexed.paimon-index.warehouse": "main",
            "spark.sql.catalog.indexed.paimon-index.timeout": timeout,
        }
        session = self.spark.session(self.warehouse, uri, conf=named)
        session.sql("SELECT count(*) FROM indexed.db.cities")
        return session

    @contextmanager
    def service(self) -> Iterator[str]:
        settings = Settings.load(warehouses={"main": str(self.warehouse)})
        with listening(create_app(settings), lifespan="on") as started:
            yield str(started.base_url).rstrip("/")


@pytest.fixture(scope="module")
def cities(spark: SqlSpark, tmp_path_factory: pytest.TempPathFactory) -> Cities:
    found = Cities(spark, tmp_path_factory.mktemp("failures"))
    spark.session(found.warehouse, "http://127.0.0.1:1").sql(
        "CREATE DATABASE plain.db",
        "CREATE TABLE plain.db.cities (id INT, city STRING) TBLPROPERTIES ("
        "'file-index.bloom-filter.columns' = 'city', 'file-index.in-manifest-threshold' = '1 MB')",
        "INSERT INTO plain.db.cities SELECT /*+ REPARTITION_BY_RANGE(8, id) */ CAST(id AS INT), "
        "concat('c', id) FROM range(0, 100)",
    )
    return found


class Asked(NamedTuple):
    seconds: float
    outcomes: dict[str, int]


def ask(session: SqlSession) -> Asked:
    """Run the query; its rows are right."""
    before = session.spark.outcomes()
    began = time.monotonic()
    (rows,) = session.sql(_QUERY)
    seconds = time.monotonic() - began
    after = session.spark.outcomes()
    assert rows == ['{"id":7,"city":"c7"}', '{"id":80,"city":"c80"}']
    return Asked(seconds, {name: after[name] - before[name] for name in after if after[name] > before[name]})


def ask_twice(session: SqlSession, record_property: Callable[[str, object], None]) -> list[dict[str, int]]:
    found = [ask(session), ask(session)]
    for name, each in zip(("first", "second"), found, strict=True):
        record_property(f"seconds of the {name} query", round(each.seconds, 2))
        assert each.seconds < _LONGEST_SECONDS
    return [each.outcomes for each in found]


@pytest.mark.parametrize("kind", _ANSWERS)
def test_it_answers_what_is_no_snapshot(
    cities: Cities, kind: str, record_property: Callable[[str, object], None]
) -> None:
    answer, outcome = _ANSWERS[kind]
    with ScriptedServer() as server:
        server.answers = [answer]
        timeout = "2 s" if kind == "never" else "60 s"
        outcomes = ask_twice(cities.session(server.url, timeout), record_property)

    # Nobody waits a second time for what did not answer at all.
    later = "quiet" if kind in {"never", "half a body"} else outcome
    assert outcomes == [{outcome: 1}, {later: 1}]
    # But a connection that broke is tried once more: the service may have closed it before it was asked.
    assert len(server.requests) == (1 if kind == "never" else 2)


def test_it_answers_as_an_older_version_did(
    cities: Cities, record_property: Callable[[str, object], None]
) -> None:
    with ScriptedServer() as server:
        server.answers = [Answer(200, _OLD, {"Content-Type": "application/json", **_CLOSE})]
        outcomes = ask_twice(cities.session(server.url), record_property)

    assert outcomes == [{"refused": 1}, {"refused": 1}]


def test_it_is_killed(cities: Cities, record_property: Callable[[str, object], None]) -> None:
    with cities.service() as uri:
        session = cities.session(uri)
        assert ask(session).outcomes == {"planned": 1}

    assert ask_twice(session, record_property) == [{"unreachable": 1}, {"quiet": 1}]


def test_it_answers_too_late(cities: Cities, record_property: Callable[[str, object], None]) -> None:
    with cities.service() as uri, trickling(uri, first=3, each=0) as slow:
        outcomes = ask_twice(cities.session(slow, "2 s"), record_property)

    assert outcomes == [{"late": 1}, {"quiet": 1}]


def test_it_sends_a_byte_a_second(cities: Cities, record_property: Callable[[str, object], None]) -> None:
    with cities.service() as uri, trickling(uri, first=0, each=1) as slow:
        outcomes = ask_twice(cities.session(slow, "2 s"), record_property)

    assert outcomes == [{"late": 1}, {"quiet": 1}]


def test_another_replica_answers(cities: Cities, record_property: Callable[[str, object], None]) -> None:
    with ExitStack() as stack:
        refusing = stack.enter_context(ScriptedServer())
        refusing.answers = [Answer(503, b"busy", _CLOSE)]
        uri = stack.enter_context(cities.service())
        outcomes = ask_twice(cities.session(f"{refusing.url},{uri}"), record_property)

    assert outcomes == [{"planned": 1}, {"planned": 1}]


@contextmanager
def trickling(uri: str, *, first: float, each: float) -> Iterator[str]:
    """Yield a proxy that waits before the answer's head, and then before each byte of its body."""
    end = threading.Event()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += self.rfile.readline()
            length = int(head.lower().partition(b"content-length:")[2].split()[0])
            accepted = head.lower().partition(b"accept:")[2].split()[0].decode()
            answer = httpx.post(
                uri + _PATH, content=self.rfile.read(length), headers={"Accept": accepted}, timeout=120
            )
            end.wait(first)
            sent = [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(answer.content)]
            sent += [answer.content] if each == 0 else [bytes([byte]) for byte in answer.content]
            for part in sent:
                try:
                    self.wfile.write(part)
                except ConnectionError:
                    return
                if end.wait(each):
                    return

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = False

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            end.set()
            server.shutdown()
            thread.join()


_SESSIONS: Final = 4
_THREADS: Final = 20
_QUERIES: Final = 4
_COMMITS: Final = 8
# Each commit adds two rows for each of eight names, in four files; the amounts of a commit are zero together.
_APPEND: Final = (
    "INSERT INTO {catalog}.db.moves SELECT /*+ REPARTITION_BY_RANGE(4, name) */ concat('n', id % 8) AS name, "
    "{commit} AS commit, IF(id < 8, 1, -1) * (id % 8 + {commit}) AS amount FROM range(0, 16) AS numbers(id)"
)
# Each commit gives all keys its number; after every third one, some keys are deleted.
_UPSERT: Final = (
    "INSERT INTO {catalog}.db.states SELECT CAST(id AS INT), CAST(id / 10 AS INT), "
    "concat('g', CAST(id / 10 AS INT)), {commit} FROM range(0, 40)"
)
_DELETE: Final = "DELETE FROM {catalog}.db.states WHERE id % 8 > 3"
_READ_MOVES: Final = (
    "SELECT count(*) AS n, sum(amount) AS amount, max(commit) AS last, count(DISTINCT commit) AS commits "
    "FROM {catalog}.db.moves WHERE name = 'n5'"
)
_READ_STATES: Final = (
    "SELECT count(*) AS n, min(commit) AS first, max(commit) AS last FROM {catalog}.db.states "
    "WHERE name = 'g1'"
)


def create(spark: SqlSpark, warehouse: Path, uri: str) -> None:
    index = "'file-index.in-manifest-threshold' = '1 MB', 'num-sorted-run.compaction-trigger' = '4'"
    spark.session(warehouse, uri).sql(
        "CREATE DATABASE plain.db",
        "CREATE TABLE plain.db.moves (name STRING, commit INT, amount BIGINT) TBLPROPERTIES "
        f"({index}, 'file-index.bloom-filter.columns' = 'name')",
        "CREATE TABLE plain.db.states (id INT NOT NULL, part INT NOT NULL, name STRING, commit INT) "
        "PARTITIONED BY (part) TBLPROPERTIES "
        f"({index}, 'file-index.bitmap.columns' = 'name', 'primary-key' = 'part,id', 'bucket' = '1')",
        _APPEND.format(catalog="plain", commit=0),
        _UPSERT.format(catalog="plain", commit=0),
    )


def test_no_query_has_a_wrong_row_or_fails(spark: SqlSpark, tmp_path: Path) -> None:
    settings = Settings.load(warehouses={"main": str(tmp_path)}, max_staleness_ms=60_000)
    with listening(create_app(settings), lifespan="on") as started:
        uri = str(started.base_url).rstrip("/")
        create(spark, tmp_path, uri)
        before = spark.outcomes()
        moves = [_APPEND.format(catalog="indexed", commit=number + 1) for number in range(_COMMITS)]
        states = [
            statement.format(catalog="plain", commit=number + 1)
            for number in range(_COMMITS)
            for statement in ((_UPSERT, _DELETE) if number % 3 == 2 else (_UPSERT,))
        ]
        sessions = [spark.session(tmp_path, uri) for _ in range(_SESSIONS)]
        reads = [each.format(catalog="indexed") for each in (_READ_MOVES, _READ_STATES) * (_QUERIES // 2)]

        writes_of_moves, writes_of_states, *reading = spark.at_once(
            (spark.session(tmp_path, uri), moves),
            (spark.session(tmp_path, uri), states),
            *((sessions[number % _SESSIONS], reads) for number in range(_THREADS)),
        )

    everything = [each for statements in (writes_of_moves, writes_of_states, *reading) for each in statements]
    assert not [each["error"] for each in everything if "error" in each]
    for answers in reading:
        for query, answer in zip(reads, answers, strict=True):
            (row,) = map(json.loads, answer["rows"])
            if "moves" in query:
                assert row["amount"] == 0
                assert row["n"] == 2 * row["commits"] == 2 * (row["last"] + 1)
                assert row["last"] in meanwhile(answer, writes_of_moves)
            else:
                assert row["first"] == row["last"]
                assert row["n"] in (10, 6)
    outcomes = Counter(spark.outcomes())
    outcomes.subtract(before)
    assert outcomes["planned"] > _THREADS, outcomes
    assert not outcomes["refused"]


def meanwhile(query: dict[str, Any], writes: list[dict[str, Any]]) -> range:
    """Numbers of the last commit that a query may see: those that ended before it began are there."""
    least = sum(write["ended"] < query["began"] for write in writes)
    most = sum(write["began"] < query["ended"] for write in writes)
    return range(least, most + 1)
