"""Dear requests of every kind, and the callers who ask them."""

from __future__ import annotations

import http.client
import json
import multiprocessing
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import chain, count
from multiprocessing.connection import Connection
from typing import Any, Final

from benchmarks.bounds.indexed_tables import FILES as INDEXED_FILES
from benchmarks.bounds.indexed_tables import files_of, ids_of
from benchmarks.bounds.tables import BODIES, COLUMNAR_FILES, FILES, LAYOUT
from benchmarks.events import DATABASE, FIRST_PRIVATE_CATEGORY, NUMBERS, ids
from benchmarks.index_bodies import categories_of_rows
from benchmarks.manifest_records import file_name

OK: Final = 200
OF_THE_CONTRACT: Final = frozenset({OK, 413, 422, 424, 429, 503, 504})
BROKEN: Final = 0
"""In place of a status: the connection ended before the answer did, or was not taken."""
HUNG: Final = -1
"""In place of a status: there was no answer long after the deadline."""
PATIENCE_SECONDS: Final = 130.0
"""The service has 60 at most for a body, and as many for its answer."""

_LONG_BODY: Final = 31 << 20
_LONG_FILTER: Final = 8_000_000
_UNREAD_SECONDS: Final = 5.0
_LISTS: Final = 16
_LISTED: Final = 1_000


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a request.

    Attributes:
        number: that of the request.
        status: of HTTP; :data:`BROKEN` or :data:`HUNG` where there is none.
        rows: what is named in it.
        total: how many there are in all.
        is_exact: nothing is warned of, and nothing was left unasked.
        is_page: others follow, which are not asked for.
    """

    number: int
    status: int
    rows: frozenset[str] = frozenset()
    total: int = 0
    is_exact: bool = True
    is_page: bool = False

    def agrees(self, truth: frozenset[str]) -> bool:
        """Whether it names what is true, or says that it may name more."""
        if self.status != OK or self.rows == truth:
            return True
        if self.is_exact:
            # Positions of many rows fill a page before its number of files does.
            return self.is_page and self.rows < truth and self.total == len(truth)
        return self.rows >= truth or self.total > len(truth)


class Caller:
    """Asks one server, and goes when it says nothing for some seconds."""

    def __init__(self, port: int, warehouse: str, patience: float = PATIENCE_SECONDS) -> None:
        self._port = port
        self._warehouse = warehouse
        self._patience = patience

    def post(self, path: str, body: object, accept: str = "application/json") -> tuple[int, bytes]:
        """Return the status and the content of an answer."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            with closing(self._connection()) as connection:
                with suppress(BrokenPipeError, ConnectionResetError):
                    # Who is refused may have been told so before the end of his body.
                    connection.request(
                        "POST", path, content, {"Accept": accept, "Content-Type": "application/json"}
                    )
                answer = connection.getresponse()
                return answer.status, answer.read()
        except TimeoutError:
            return HUNG, b""
        except (OSError, http.client.HTTPException):
            return BROKEN, b""

    def of_table(self, table: str, what: str, body: object) -> tuple[int, bytes]:
        """Return the URL of an endpoint of a table."""
        return self.post(f"/v1/{self._warehouse}/databases/{DATABASE}/tables/{table}/{what}", body)

    def of_iceberg(self, table: str, what: str, body: object) -> tuple[int, bytes]:
        """Return the same of Iceberg's catalog."""
        return self.post(f"/iceberg/v1/{self._warehouse}/namespaces/{DATABASE}/tables/{table}/{what}", body)

    def leave_unread(self, table: str) -> int:
        """Ask for a whole plan, and take none of it."""
        path = f"/v1/{self._warehouse}/databases/{DATABASE}/tables/{table}/plan"
        headers = {"Accept": "application/x-ndjson", "Content-Type": "application/json"}
        try:
            with closing(self._connection()) as connection:
                connection.request("POST", path, b"{}", headers)
                status = connection.getresponse().status
                time.sleep(_UNREAD_SECONDS)
                return status
        except TimeoutError:
            return HUNG
        except (OSError, http.client.HTTPException):
            return BROKEN

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._port, timeout=self._patience)


@dataclass(frozen=True, slots=True)
class Dear:
    """A request that takes much.

    Attributes:
        ask: as one caller, with a number that makes the request differ from others.
        truth: what is to be named, by that number.
        expected: its status where it fits.
        warehouses: callers ask so many by turns.
        callers: how many ask, where it matters.
        least: megabytes with which one caller is always answered, as docs/sizing.md promises.
        temporary: the directory of the server's temporary files, where it matters.
    """

    name: str
    ask: Callable[[Caller, int], Answer]
    truth: Callable[[int], frozenset[str]] = lambda _number: frozenset()
    expected: int = OK
    warehouses: int = 1
    callers: Sequence[int] | None = None
    least: int | None = None
    temporary: str | None = None


def _plan(table: str) -> Callable[[Caller, int], Answer]:
    def ask(caller: Caller, number: int) -> Answer:
        category = FIRST_PRIVATE_CATEGORY + number % BODIES
        body = {"filter": f"cat = {category}", "page_size": 1_000}
        return _of_plan(number, *caller.of_table(table, "plan", body))

    return ask


def _plan_by_key(caller: Caller, number: int) -> Answer:
    body = {"filter": f"id = {ids(number % BODIES)[0]}", "page_size": 1_000}
    return _status(number, *caller.of_table("blooms", "plan", body))


def _plan_by_number(caller: Caller, number: int) -> Answer:
    body = {"filter": f"c0 < {number + 1}", "page_size": 1_000}
    return _status(number, *caller.of_table("plain", "plan", body))


def _of_category(files: int) -> Callable[[int], frozenset[str]]:
    return lambda number: frozenset(map(file_name, range(number % BODIES, files, BODIES)))


def _filter(text: str) -> Callable[[Caller, int], Answer]:
    def ask(caller: Caller, number: int) -> Answer:
        body = {"filter": text.replace("?", str(number))}
        return _status(number, *caller.of_table("small", "plan", body))

    return ask


def _status(number: int, status: int, _content: bytes) -> Answer:
    return Answer(number, status)


def _of_plan(number: int, status: int, content: bytes) -> Answer:
    if status != OK:
        return Answer(number, status)
    told: dict[str, Any] = json.loads(content)
    names = frozenset(each["path"].rpartition("/")[2] for each in told["files"])
    is_exact = told["summary"]["complete"] and not told["warnings"]
    is_page = told["next_page_token"] is not None
    return Answer(number, status, names, told["summary"]["files_kept"], is_exact, is_page)


def _unread(caller: Caller, number: int) -> Answer:
    return Answer(number, caller.leave_unread("many"))


def _aggregate(caller: Caller, number: int) -> Answer:
    body = {"group_by": ["cat"], "top": 1_000 + number}
    status, content = caller.of_table("many", "aggregate", body)
    if status != OK:
        return Answer(number, status)
    told = json.loads(content)
    groups = frozenset(f"{each['key']['cat']}: {each['rows']}" for each in told["groups"])
    return Answer(number, status, groups, is_exact=told["exact"])


def _groups(_number: int) -> frozenset[str]:
    counts = Counter(chain.from_iterable(categories_of_rows(body, LAYOUT) for body in range(BODIES)))
    return frozenset(f"{category}: {rows * (FILES // BODIES)}" for category, rows in counts.items())


def _what_if(table: str) -> Callable[[Caller, int], Answer]:
    def ask(caller: Caller, number: int) -> Answer:
        body = {
            "indexes": [{"column": "n0", "index": "bloom-filter"}],
            "filters": [f"n0 = {number + 1}"],
            "bytes": 1 << 30,
        }
        status, content = caller.of_table(table, "what-if", body)
        if status != OK:
            return Answer(number, status)
        told = json.loads(content)
        kept, tried = (told["filters"][0][name] for name in ("files_kept", "files_tried"))
        total, is_exact = kept + len(told["warnings"]), not told["warnings"]
        return Answer(number, status, frozenset({f"{tried} of {kept} files"}), total, is_exact)

    return ask


def _lists_and_aggregates(caller: Caller, number: int) -> Answer:
    """By turns: indexes tried for lists that no file has, a count by value, and an extreme of some files."""
    if number % 3 == 0:
        first = NUMBERS * (number + 1)
        lists = (range(first + start, first + start + _LISTED) for start in range(_LISTS))
        body: dict[str, object] = {
            "indexes": [{"column": "id", "index": "bloom-filter"}],
            "filters": [f"cat IN ({', '.join(map(str, each))}) AND score >= {number}" for each in lists],
        }
        return _status(number, *caller.of_table("many", "what-if", body))
    if number % 3 == 1:
        return _status(number, *caller.of_table("many", "aggregate", {"group_by": ["cat"], "top": number}))
    body = {"aggregates": [{"function": "max", "column": "score"}], "filter": f"cat <> {number}"}
    return _status(number, *caller.of_table("many", "aggregate", body))


def _explain(caller: Caller, number: int) -> Answer:
    """Return a page of what decided about each file."""
    body = {"filter": f"c0 < {number + 1}", "explain": True}
    return _status(number, *caller.of_table("plain", "plan", body))


def _iceberg_whole(caller: Caller, number: int) -> Answer:
    """Return the plan of a whole table, which is fetched in hundreds of tasks, and the first of these."""
    written = {"type": "gt", "term": "c0", "value": -1 - number}
    status, content = caller.of_iceberg("plain", "plan", {"filter": written})
    if status == OK:
        first = json.loads(content)["plan-tasks"][0]
        status, content = caller.of_iceberg("plain", "tasks", {"plan-task": first})
    return _status(number, status, content)


def _iceberg(caller: Caller, number: int) -> Answer:
    """Return the plan, and all tasks of it."""
    category = FIRST_PRIVATE_CATEGORY + number % BODIES
    body: dict[str, object] = {"filter": {"type": "eq", "term": "cat", "value": category}}
    names: set[str] = set()
    status, content = caller.of_iceberg("many", "plan", body)
    waiting: list[str] = []
    while status == OK:
        told = json.loads(content)
        names |= {each["data-file"]["file-path"].rpartition("/")[2] for each in told["file-scan-tasks"] or ()}
        waiting += told.get("plan-tasks") or ()
        if not waiting:
            break
        status, content = caller.of_iceberg("many", "tasks", {"plan-task": waiting.pop()})
    return Answer(number, status, frozenset(names), is_exact=False)


def _statistics(caller: Caller, number: int) -> Answer:
    fields = ["id", "cat", "score", "c0"] * 1_000
    body = {"filter": {"type": "eq", "term": "id", "value": number}, "stats-fields": fields}
    return _status(number, *caller.of_iceberg("small", "plan", body))


def _long(table: str, what: str, member: str, length: int, value: str) -> Callable[[Caller, int], Answer]:
    """Ask with a body that has a value as long as that; ``?`` in it is a part that is repeated."""

    @cache
    def content() -> bytes:
        begin, part, end = value.split("?")
        return f'{{"{member}": {begin}{part * (length // len(part))}{end}}}'.encode()

    def ask(caller: Caller, number: int) -> Answer:
        return _status(number, *caller.of_table(table, what, content()))

    return ask


def _pipe(caller: Caller, number: int) -> Answer:
    return _status(number, *caller.of_table("pipe", "plan", {}))


IN_ONE: Final = Dear("100,000 files in one manifest", _plan("one"), _of_category(FILES))
IN_MANY: Final = Dear("100,000 files in 100 manifests", _plan("many"), _of_category(FILES))
NO_INDEX: Final = Dear("100,000 files without an index", _plan_by_number, least=512)
BLOOMS: Final = Dear("100,000 files with bloom filters of 12 KB", _plan_by_key, least=512)
IN_MEMORY: Final = Dear(
    "the same with TMPDIR in memory",
    _plan_by_key,
    expected=422,
    callers=(1, 3),
    temporary="/dev/shm",  # noqa: S108 - files have no name in it
)
TOGETHER: Final = Dear("what-if with lists, and aggregates", _lists_and_aggregates, callers=(36,))
SIDE_FILES: Final = Dear("100,000 side files", _plan("beside"), _of_category(FILES))
WHAT_IF: Final = Dear("what-if of 300 MB", _what_if("wide"), lambda _: frozenset({"1 of 1 files"}))
LONG_TEXT: Final = Dear(
    "bodies of 31 MB", _long("small", "plan", "filter", _LONG_BODY, "\"note = '?x?'\""), expected=422
)
ORC: Final = Dear("an ORC manifest", _plan("orc"), _of_category(COLUMNAR_FILES))
PIPE: Final = Dear("a pipe as LATEST", _pipe, expected=503)
ORS: Final = Dear("2,000 ORs", _filter(" OR ".join(f"c0 = ?{number}" for number in range(2_000))))

EXPLAIN: Final = Dear("explain of three warehouses", _explain, warehouses=3, callers=(1, 4, 12))
ICEBERG: Final = Dear("Iceberg's plans of three warehouses", _iceberg_whole, warehouses=3, callers=(1, 4, 12))

DEAR: Final = (
    IN_ONE,
    IN_MANY,
    NO_INDEX,
    BLOOMS,
    IN_MEMORY,
    TOGETHER,
    SIDE_FILES,
    WHAT_IF,
    Dear("what-if of 60 MB", _what_if("middle"), lambda _: frozenset({"1 of 1 files"})),
    Dear("what-if of 20 times 14 MB", _what_if("wider"), lambda _: frozenset({"20 of 20 files"})),
    LONG_TEXT,
    Dear("31 MB of (", _long("small", "plan", "filter", _LONG_BODY, '"?(?"'), expected=422),
    Dear("filters of 8 MB", _long("small", "plan", "filter", _LONG_FILTER, "\"note = '?x?'\"")),
    Dear("8 MB of (", _long("small", "plan", "filter", _LONG_FILTER, '"?(?"'), expected=422),
    Dear("31 MB of hashes", _long("wide", "buckets/lookup", "hashes", _LONG_BODY, "[?-1234567890,?0]")),
    Dear(
        "31 MB of keys",
        _long("small", "buckets/assign", "keys", _LONG_BODY, '[?{"id": 1234567890},?{}]'),
        expected=422,
    ),
    Dear("a stream nobody reads", _unread),
    ORC,
    Dear("a Parquet manifest", _plan("parquet"), _of_category(COLUMNAR_FILES)),
    Dear("Iceberg's plan and tasks", _iceberg, _of_category(FILES)),
    Dear("Iceberg's stats-fields", _statistics),
    Dear("aggregates", _aggregate, _groups),
    ORS,
    EXPLAIN,
    ICEBERG,
)


def _of_all(number: int) -> Dear:
    # Callers ask three warehouses by turns, and each of them for everything.
    return DEAR[number // 3 % len(DEAR)]


EVERYTHING: Final = Dear(
    "everything, of three warehouses",
    lambda caller, number: _of_all(number).ask(caller, number),
    lambda number: _of_all(number).truth(number),
    warehouses=3,
    callers=(3 * len(DEAR),),
)


def _indexed(name: str, table: str, rows: int = 0) -> Dear:
    """Ask for the ids of so many rows, or for nearly all ids."""

    def rows_of(number: int) -> range:
        return range(number, number + rows)

    def ask(caller: Caller, number: int) -> Answer:
        written = f"id IN ({', '.join(map(str, ids_of(rows_of(number))))})" if rows else f"id >= {number}"
        return _of_plan(number, *caller.of_table(table, "plan", {"filter": written, "page_size": 1_000}))

    def truth(number: int) -> frozenset[str]:
        return (
            files_of(table, rows_of(number))
            if rows
            else frozenset(f"data-{at}.parquet" for at in range(INDEXED_FILES))
        )

    return Dear(name, ask, truth, callers=(1, 12))


EXPANDING: Final = _indexed("global indexes built to expand", "expanding", 1_000)
LONG_BLOCKS: Final = _indexed("IN of 1,000 keys, blocks of 100,000 entries", "long_blocks", 1_000)
INDEXED: Final = (
    EXPANDING,
    LONG_BLOCKS,
    _indexed("all keys, blocks of 100,000 entries", "long_blocks"),
    _indexed("IN of 1,000 keys, a global index of 340 MB", "large", 1_000),
    _indexed("all keys, a global index of 340 MB", "large"),
    _indexed("a key that 30,000 index files may have", "scattered", 1),
)

_ALL: Final = (*DEAR, PIPE, EVERYTHING, *INDEXED)
"""Each is known by its place to the processes of callers."""


def answers(port: int, warehouses: Sequence[str], dear: Dear, callers: int) -> list[Answer]:
    """Return what each of some callers who ask at the same time is answered, in a process of their own."""
    with _process(_ask_once, port, warehouses, _ALL.index(dear), callers) as ended:
        found: list[Answer] = ended.recv()
        return found


@contextmanager
def asked_all_the_time(
    port: int, warehouse: str, dear: Dear, callers: int, patience: float = PATIENCE_SECONDS
) -> Iterator[Connection]:
    """Have callers ask again and again until the end of the block; give the statuses of their answers."""
    with _process(_ask_again, port, warehouse, _ALL.index(dear), callers, patience) as statuses:
        yield statuses


@contextmanager
def _process(run: Callable[..., None], *arguments: object) -> Iterator[Connection]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=run, args=(*arguments, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours
    finally:
        process.kill()
        process.join()
        ours.close()


def _ask_once(port: int, warehouses: Sequence[str], place: int, callers: int, told: Connection) -> None:
    found: list[Answer] = []

    def ask(number: int) -> None:
        found.append(_ALL[place].ask(Caller(port, warehouses[number % len(warehouses)]), number))

    _in_threads(ask, range(callers))
    told.send(found)


def _ask_again(
    port: int, warehouse: str, place: int, callers: int, patience: float, told: Connection
) -> None:
    numbers = count(callers)
    lock = threading.Lock()

    def ask(_number: int) -> None:
        while True:
            answer = _ALL[place].ask(Caller(port, warehouse, patience), next(numbers))
            with lock, suppress(OSError):
                told.send(answer.status)

    _in_threads(ask, range(callers))


def _in_threads(run: Callable[[int], None], numbers: Sequence[int]) -> None:
    threads = [threading.Thread(target=run, args=(number,)) for number in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
