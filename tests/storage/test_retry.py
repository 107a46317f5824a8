from __future__ import annotations

import pytest

from app.errors import DeadlineExceededError, FileMissingError, PathNotAllowedError, StorageError
from app.storage import RetryPolicy, check_deadline, remaining_seconds, time_limit

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
