"""The blocking client."""

from __future__ import annotations

import concurrent.futures
import contextvars
import math
import threading
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar

import httpx

from paimon_index.attempts import GRACE_SECONDS, MOST_ERROR_BYTES, Attempts, Failure, Settings, transport
from paimon_index.endpoints import Endpoints
from paimon_index.errors import IncompleteAnswerError
from paimon_index.plans import Plan, PlanReader, Progress
from paimon_index.requests import ARROW, Request, post, under

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator, Sequence
    from typing import Unpack

    from paimon_index.endpoints import Call
    from paimon_index.options import PlanOptions

T = TypeVar("T")


class Client(Endpoints):
    """Client of a service. Safe to share between threads.

    Tables are named ``warehouse.database.table``. :mod:`paimon_index.options` describes keyword arguments,
    :mod:`paimon_index.results` and :mod:`paimon_index.catalog` the results.

    ``base_urls``: one or several URLs of one service. A hash of the table chooses the one to ask. If it is
    down, the next one is tried.
    ``token``: secret of a bearer token.
    ``deadline_seconds``: time for an answer, all attempts together, or for a plan until its first files, and
    then for each further piece.
    ``retries``: further attempts after every base URL was tried once and was down or answered 429 or 503.
    ``tls``: replaces the default checks of certificates.

    Raises ValueError if a base URL, the deadline or the number of retries is invalid.
    """

    def __init__(
        self,
        base_urls: str | Sequence[str],
        *,
        token: str | None = None,
        deadline_seconds: float = 30.0,
        retries: int = 4,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._settings = Settings.of(base_urls, deadline_seconds, retries)
        self._http = httpx.Client(**transport(token, tls))

    def plan(self, table: str, *, progress: Progress | None = None, **options: Unpack[PlanOptions]) -> Plan:
        """Plan a query: its files, and their rows to read, as they arrive.

        ``progress`` is called after each batch of files.
        """
        reader, ends = PlanReader(options, progress), self._settings.ends()
        request = post(under(table, "/plan"), options, ARROW)

        def begin() -> Plan:
            response, attempts = self._send(request, ends)
            pieces, first = _pieces(response, attempts), []
            try:
                for piece in pieces:
                    first += reader.feed(piece)
                    if reader.has_begun:
                        return Plan(reader, first, pieces, response.close)
                    attempts.remaining_seconds()
            except BaseException:
                response.close()
                raise
            raise IncompleteAnswerError("the answer ended before its plan began: ask again")

        return self._in_time(begin, ends)

    def close(self) -> None:
        """Close all connections. Unread plans are lost."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({list(self._settings.replicas.base_urls)})"

    def _run(self, call: Call[T]) -> T:
        request, ends = next(call), self._settings.ends()
        while True:
            body = self._in_time(partial(self._ask, request, ends), ends)
            try:
                request = call.send(body)
            except StopIteration as end:
                result: T = end.value
                return result

    def _ask(self, request: Request, ends: float, most_bytes: float = math.inf) -> bytes:
        return _body(*self._send(request, ends), most_bytes)

    def _in_time(self, work: Callable[[], T], ends: float) -> T:
        """Run work in a thread, and raise :class:`DeadlineError` if it is late."""
        # Timeouts of sockets cover neither the look-up of a host nor headers that arrive byte by byte.
        result: concurrent.futures.Future[T] = concurrent.futures.Future()

        def run() -> None:
            try:
                result.set_result(work())
            except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
                result.set_exception(error)

        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(run,), name="paimon-index-call", daemon=True).start()
        # The grace period lets the work raise its own, more precise error.
        concurrent.futures.wait([result], ends - time.monotonic() + GRACE_SECONDS)
        if not result.done():
            result.add_done_callback(_close_late)
            raise self._settings.timed_out(" or ".join(self._settings.replicas.base_urls))
        return result.result()

    def _send(self, request: Request, ends: float) -> tuple[httpx.Response, Attempts]:
        """Return the first successful answer, which the caller must read and close."""
        attempts = Attempts(self._settings, request, ends)
        while True:
            try:
                built = self._http.build_request(**attempts.arguments())
                response = self._http.send(built, stream=True)
                if response.is_success:
                    return response, attempts
                body = b""
                with suppress(IncompleteAnswerError):
                    body = _body(response, attempts, MOST_ERROR_BYTES)
                failure = Failure.of_answer(response.status_code, response.headers, body)
            except httpx.HTTPError as error:
                failure = attempts.failure_of(error)
            time.sleep(attempts.pause_after(failure))


def download(client: Client, request: Request, most_bytes: int) -> bytes:
    """Return the body of an answer. Raises :class:`IncompleteAnswerError` beyond ``most_bytes``."""
    ends = client._settings.ends()  # noqa: SLF001 - of this module
    body = client._in_time(partial(client._ask, request, ends, most_bytes), ends)  # noqa: SLF001 - of this module
    if len(body) > most_bytes:
        raise IncompleteAnswerError(f"the answer has more than {most_bytes} bytes")
    return body


def _close_late(result: concurrent.futures.Future[T]) -> None:
    if result.exception() is None and isinstance(plan := result.result(), Plan):
        plan.close()


def _pieces(response: httpx.Response, attempts: Attempts) -> Iterator[bytes]:
    try:
        yield from response.iter_bytes()
    except httpx.HTTPError as error:
        raise attempts.broken_off(error) from error


def _body(response: httpx.Response, attempts: Attempts, most_bytes: float = math.inf) -> bytes:
    """Read a body, but stop after the piece that exceeds ``most_bytes``."""
    body = bytearray()
    try:
        for piece in _pieces(response, attempts):
            body += piece
            attempts.remaining_seconds()
            if len(body) > most_bytes:
                break
    finally:
        response.close()
    return bytes(body)
