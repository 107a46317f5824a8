"""Calls are made again where that may help; what a failing store says leaves the service in our words."""

import errno
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from app.errors import DeadlineExceededError, FileMissingError, PathNotAllowedError, StorageError
from app.storage import RetryPolicy, Warehouse
from app.storage.stores.failures import (
    StoreAnswerError,
    failure_of,
    is_behind_the_end,
    is_missing,
    is_timeout,
    is_transient,
)
from app.work import check_deadline, remaining_seconds, time_limit

IMPATIENT = RetryPolicy(attempts=3, first_wait_seconds=0, max_wait_seconds=0)


class Flaky:
    """Raises what it is given, one after the other, then answers."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        if self._errors:
            raise self._errors.pop(0)
        return "content"


@pytest.mark.parametrize("error", [OSError("reset"), TimeoutError(), ConnectionResetError()])
def test_transient_errors_are_retried(error: Exception) -> None:
    operation = Flaky(error, error)
    assert IMPATIENT.call("file", operation) == "content"
    assert operation.calls == 3


def test_transient_errors_are_not_retried_for_ever() -> None:
    operation = Flaky(*[OSError("slow down")] * 9)
    with pytest.raises(StorageError, match=r"cannot read file: OSError$") as caught:
        IMPATIENT.call("file", operation)
    assert operation.calls == 3
    assert caught.value.path == "file"


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (FileNotFoundError(), FileMissingError),
        (NotADirectoryError(), FileMissingError),
        (IsADirectoryError(), FileMissingError),
        (PermissionError("denied"), StorageError),
        (ValueError("no such bucket name"), StorageError),
        (PathNotAllowedError("outside", path="file"), PathNotAllowedError),
    ],
)
def test_facts_are_not_retried(error: Exception, raised: type[Exception]) -> None:
    operation = Flaky(error)
    with pytest.raises(raised) as caught:
        IMPATIENT.call("file", operation)
    assert type(caught.value) is raised
    assert operation.calls == 1


def test_no_attempt_is_made_that_the_deadline_would_cut() -> None:
    patient = RetryPolicy(attempts=3, first_wait_seconds=1e9, max_wait_seconds=1e9)
    operation = Flaky(OSError("reset"))
    with time_limit(5), pytest.raises(DeadlineExceededError):
        patient.call("file", operation)
    assert operation.calls == 1


def test_nothing_is_asked_after_the_deadline() -> None:
    operation = Flaky()
    with time_limit(0), pytest.raises(DeadlineExceededError):
        IMPATIENT.call("file", operation)
    assert operation.calls == 0


def test_an_inner_time_limit_cannot_extend_the_outer_one() -> None:
    assert remaining_seconds() is None
    with time_limit(10), time_limit(1000):
        remaining = remaining_seconds()
        assert remaining is not None
        assert remaining <= 10
        check_deadline()
    assert remaining_seconds() is None


KEY, SECRET = "AKIAVERYSECRETKEY", "very-secret-secret"


@contextmanager
def failing_store(status: int, code: str) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Serve an S3 that answers everything with one error. Yield how to find it, and the calls it got."""
    calls: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        log_message = staticmethod(lambda *_: None)  # type: ignore[assignment] # keeps quiet
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            calls.append(self.path)
            message = f"{self.headers['Host']} refuses {KEY} {SECRET} {self.path}"
            body = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_PUT = do_GET  # noqa: N815 - the library's names

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        endpoint = f"http://127.0.0.1:{server.server_port}"
        yield {"endpoint": endpoint, "access_key_id": KEY, "secret_access_key": SECRET}, calls
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "code", "told"),
    [
        (400, "AuthorizationHeaderMalformed", "StoreAnswerError (AuthorizationHeaderMalformed, HTTP 400)"),
        (400, "InvalidArgument", "StoreAnswerError (InvalidArgument, HTTP 400)"),
        (403, "InvalidAccessKeyId", "PermissionError (InvalidAccessKeyId, HTTP 403)"),
        (403, "SignatureDoesNotMatch", "PermissionError (SignatureDoesNotMatch, HTTP 403)"),
        (403, f"http://{SECRET}", "PermissionError (HTTP 403)"),
    ],
)
def test_a_refusal_is_an_error_and_never_an_empty_file(status: int, code: str, told: str) -> None:
    with failing_store(status, code) as (options, calls):
        warehouse = Warehouse("w", "s3://hidden-bucket/inside", options=options, retry=RetryPolicy(2, 0, 0))
        with pytest.raises(StorageError) as read:
            warehouse.read("db.db/t/snapshot/LATEST")
        (ranged,) = warehouse.read_ranges([("db.db/t/data", 5, 3)])

    assert str(read.value) == f"cannot read db.db/t/snapshot/LATEST: {told}"
    assert isinstance(ranged, StorageError)
    assert str(ranged) == f"cannot read db.db/t/data: {told}"
    # Asking again would not help.
    assert len(calls) == 2


def test_a_range_behind_the_end_is_empty() -> None:
    with failing_store(416, "InvalidRange") as (options, _):
        warehouse = Warehouse("w", "s3://hidden-bucket/inside", options=options)

        assert warehouse.read("db.db/t/empty") == b""


def test_a_listing_that_is_refused_is_not_empty() -> None:
    with failing_store(403, "AccessDenied") as (options, _):
        warehouse = Warehouse("w", "s3://hidden-bucket/inside", options=options)
        with pytest.raises(StorageError, match=r"cannot list db\.db: PermissionError"):
            warehouse.list_names("db.db")


class AnsweredError(Exception):
    """As libraries have them that carry an HTTP status."""

    def __init__(self, **members: object) -> None:
        super().__init__(SECRET)
        vars(self).update(members)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (PermissionError(errno.EACCES, "denied", f"/srv/{SECRET}"), "PermissionError (EACCES)"),
        (OSError(errno.EIO, SECRET), "OSError (EIO)"),
        (OSError(SECRET), "OSError"),
        (TimeoutError(SECRET), "TimeoutError"),
        (AnsweredError(status=503), "AnsweredError (HTTP 503)"),
        (AnsweredError(code=404), "AnsweredError (HTTP 404)"),
        (AnsweredError(status_code="503"), "AnsweredError"),
        (StoreAnswerError(None, 500), "StoreAnswerError (HTTP 500)"),
        (StoreAnswerError("SlowDown", 503), "StoreAnswerError (SlowDown, HTTP 503)"),
    ],
)
def test_kinds_and_codes_are_told_and_texts_are_not(error: BaseException, told: str) -> None:
    assert failure_of(error) == told


class ClientConnectionError(Exception):
    """As aiohttp has it."""

    __module__ = "aiohttp.client_exceptions"


class ClosedError(ClientConnectionError):
    """As aiohttp has them below it."""


def caused_by(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (OSError("reset"), True),
        (TimeoutError(), True),
        (ConnectionResetError(), True),
        (OSError(errno.EIO, "x"), True),
        (OSError(errno.EINVAL, "x"), False),
        (OSError(errno.ENAMETOOLONG, "x"), False),
        (FileNotFoundError(), False),
        (PermissionError(), False),
        (ValueError(), False),
        (ClientConnectionError(), True),
        (ClosedError(), True),
        # Libraries' parsers name statuses that no store answered.
        (caused_by(ClosedError(), AnsweredError(code=400)), True),
        (AnsweredError(status=503), True),
        (AnsweredError(code=429), True),
        (AnsweredError(status_code=400), False),
        (AnsweredError(status_code=501), False),
        (AnsweredError(status=-2), False),
        (StoreAnswerError("SlowDown", 503), True),
        (StoreAnswerError("RequestTimeout", 400), True),
        (StoreAnswerError("InvalidArgument", 400), False),
        (caused_by(PermissionError(), StoreAnswerError("AccessDenied", 403)), False),
        (caused_by(OSError(errno.EBUSY, "x"), AnsweredError(status=503)), True),
        (caused_by(FileNotFoundError(), AnsweredError(status=503)), True),
        (caused_by(FileNotFoundError(), AnsweredError(status=404)), False),
    ],
)
def test_what_may_pass_is_told_from_what_lasts(error: BaseException, *, passes: bool) -> None:
    assert is_transient(error) is passes
    assert not (passes and is_missing(error))


class ServiceResponseTimeoutError(Exception):
    """As Azure's library has it."""

    __module__ = "azure.core.exceptions"


@pytest.mark.parametrize(
    ("error", "was_silent"),
    [
        (TimeoutError(), True),
        (ServiceResponseTimeoutError(), True),
        (ClosedError(), False),
        (OSError("x"), False),
    ],
)
def test_silence_is_told_from_other_failures(error: BaseException, *, was_silent: bool) -> None:
    assert is_timeout(error) is was_silent


def test_a_connection_that_broke_off_has_no_status() -> None:
    assert failure_of(caused_by(ClosedError(), AnsweredError(code=400))) == "ClosedError"


def test_only_a_store_can_say_that_a_range_is_behind_the_end() -> None:
    refused, bad = OSError(errno.EINVAL, "x"), OSError(errno.EINVAL, "x")
    refused.__cause__ = StoreAnswerError(None, 416)
    bad.__cause__ = StoreAnswerError(None, 400)

    assert is_behind_the_end(refused)
    assert not is_behind_the_end(bad)
    assert not is_behind_the_end(OSError(errno.EINVAL, "x"))
