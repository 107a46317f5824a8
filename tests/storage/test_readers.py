from __future__ import annotations

import threading

import pytest

from app.errors import DeadlineExceededError
from app.storage import Readers, check_deadline, time_limit


def test_loads_run_side_by_side_and_answers_keep_their_order() -> None:
    readers, together = Readers(3), threading.Barrier(3, timeout=30)

    def load(item: int) -> int:
        together.wait()
        return item * item

    assert readers.map(load, [3, 1, 2]) == [9, 1, 4]
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
