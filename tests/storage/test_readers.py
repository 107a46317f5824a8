import threading

import pytest

from app.errors import DeadlineExceededError, RequestCancelledError
from app.storage import Readers
from app.work import Cancellation, cancellable, check_deadline, time_limit


def test_loads_run_side_by_side_and_answers_keep_their_order() -> None:
    readers, together = Readers(3), threading.Barrier(3, timeout=30)

    def load(item: int) -> int:
        together.wait()
        return item * item

    assert readers.map(load, [3, 1, 2]) == [9, 1, 4]
    readers.close()


def test_what_is_loaded_quickly_needs_no_helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    # A busy machine may interrupt even these loads.
    monkeypatch.setattr("app.storage.readers._QUICK_SECONDS", 60)
    readers = Readers(3)
    assert set(readers.map(lambda _: threading.get_ident(), range(100), may_be_quick=True)) == {
        threading.get_ident()
    }
    readers.close()


def test_helpers_come_to_what_takes_long() -> None:
    readers, helped = Readers(3), threading.Event()

    def load(item: int) -> bool:
        if item == 0:
            return True
        if threading.current_thread() is not threading.main_thread():
            helped.set()
        return helped.wait(0.02 if item == 1 else 30)

    assert all(readers.map(load, range(9), may_be_quick=True)[2:])
    readers.close()


def test_an_error_ends_the_whole() -> None:
    readers = Readers(2)

    def load(item: int) -> int:
        if item == 1:
            raise ValueError(item)
        return item

    with pytest.raises(ValueError, match="1"):
        readers.map(load, range(50))
    assert readers.map(load, []) == []
    readers.close()


def test_the_deadline_goes_with_the_work() -> None:
    readers = Readers(2)
    with time_limit(0), pytest.raises(DeadlineExceededError):
        readers.map(lambda _: check_deadline(), [1, 2])
    readers.close()


def test_shared_work_may_be_shared_out_again() -> None:
    readers = Readers(2)
    nested = readers.map(lambda outer: readers.map(lambda inner: outer * inner, range(20)), range(20))
    assert nested == [[outer * inner for inner in range(20)] for outer in range(20)]
    readers.close()


def test_what_has_not_begun_never_does_once_the_caller_is_gone() -> None:
    readers, cancellation, begun = Readers(2), Cancellation(), list[int]()

    def load(item: int) -> None:
        begun.append(item)
        cancellation.cancel()

    with cancellable(cancellation), pytest.raises(RequestCancelledError):
        readers.map(load, range(1000))
    assert 1 <= len(begun) <= 2
    readers.close()
