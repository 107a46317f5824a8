"""Loads that no caller waits for: a bounded number of them for each warehouse."""

from __future__ import annotations

import threading
from functools import partial

from app.planning.plans import BackgroundLoads

PATIENCE_SECONDS = 20


def test_plans_that_wait_to_be_finished_are_bounded() -> None:
    loads = BackgroundLoads()
    released, other = threading.Event(), threading.Event()
    begun: list[int] = []
    loads.begin("hung", "first", partial(released.wait, PATIENCE_SECONDS))
    for number in range(1_000):
        loads.begin("hung", number, partial(begun.append, number))
    loads.begin("other", "first", other.set)

    assert other.wait(PATIENCE_SECONDS)
    ended = threading.Event()
    released.set()
    while not ended.wait(0.001):
        # Refused for as long as there are too many.
        loads.begin("hung", "last", ended.set)
    loads.close()
    assert 0 < len(begun) < 100


def test_nothing_begins_when_all_is_over() -> None:
    loads = BackgroundLoads()
    loads.close()
    begun = threading.Event()
    loads.begin("any", "first", begun.set)

    assert not begun.wait(0.05)
