import threading
from concurrent.futures import Future
from contextvars import copy_context

import pytest

from app.errors import DeadlineExceededError, RequestCancelledError
from app.work import Cancellation, cancellable, check_deadline, time_limit, wait_for
from app.work.deadline import pause


def test_a_cancelled_request_ends_at_its_next_check_in_every_thread() -> None:
    cancellation, ended = Cancellation(), Future[type[Exception]]()

    def check() -> None:
        try:
            check_deadline()
        except RequestCancelledError as error:
            ended.set_result(type(error))

    with cancellable(cancellation), time_limit(60):
        check_deadline()
        cancellation.cancel()
        cancellation.cancel()
        with pytest.raises(RequestCancelledError):
            check_deadline()
        threading.Thread(target=copy_context().run, args=(check,)).start()
        assert ended.result(30) is RequestCancelledError
    check_deadline()


def test_another_request_goes_on() -> None:
    mine, other = Cancellation(), Cancellation()
    other.cancel()
    with cancellable(mine):
        check_deadline()


def test_a_pause_ends_when_the_caller_goes() -> None:
    cancellation = Cancellation()
    threading.Timer(0.01, cancellation.cancel).start()
    with cancellable(cancellation), time_limit(60):
        pause(1e6)
        with pytest.raises(RequestCancelledError):
            check_deadline()


def test_waiting_for_another_thread_ends_when_the_caller_goes_or_time_is_up() -> None:
    cancellation, never = Cancellation(), Future[None]()
    threading.Timer(0.01, cancellation.cancel).start()
    with cancellable(cancellation), pytest.raises(RequestCancelledError):
        wait_for(never)
    with time_limit(0.01), pytest.raises(DeadlineExceededError):
        wait_for(never)


def test_a_timeout_that_the_other_thread_raised_is_its_result() -> None:
    failed = Future[None]()
    failed.set_exception(TimeoutError("theirs"))
    with time_limit(60), pytest.raises(TimeoutError, match="theirs"):
        wait_for(failed)
