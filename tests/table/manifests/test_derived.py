"""What is computed of an object once, and weighed with it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from app.table.manifests.derived import Derived


def test_a_thing_is_made_once() -> None:
    derived, made = Derived(), []

    def make() -> str:
        made.append("once")
        return "thing"

    assert [derived.get_or_make("key", make, len) for _ in range(3)] == ["thing"] * 3
    assert made == ["once"]
    assert derived.get_or_make("other", lambda: "another", len) == "another"


def test_weights_add_up() -> None:
    derived = Derived()
    assert derived.nbytes == 0
    for size in (3, 0, 4, 4):
        derived.get_or_make(size, partial(bytes, size), len)

    assert derived.nbytes == 3 + 0 + 4


def test_growth_is_told_once() -> None:
    derived = Derived()
    assert not derived.has_grown()

    for key in ("a", "b"):
        derived.get_or_make(key, lambda: b"thing", len)
    assert [derived.has_grown() for _ in range(2)] == [True, False]

    derived.get_or_make("a", lambda: b"thing", len)
    assert not derived.has_grown()
    derived.get_or_make("c", lambda: b"thing", len)
    assert [derived.has_grown() for _ in range(2)] == [True, False]


def test_a_failure_leaves_nothing() -> None:
    derived = Derived()

    with pytest.raises(ZeroDivisionError):
        derived.get_or_make("key", lambda: 1 // 0, lambda _: 1)

    assert not derived.has_grown()
    assert derived.get_or_make("key", lambda: 2, lambda _: 1) == 2


def test_of_two_that_are_made_at_the_same_time_one_stays() -> None:
    derived, both = Derived(), threading.Barrier(2)

    def make() -> object:
        both.wait(30)
        return object()

    with ThreadPoolExecutor(2) as pool:
        first, second = (pool.submit(derived.get_or_make, "key", make, lambda _: 5) for _ in range(2))

    assert first.result() is second.result()
    assert derived.nbytes == 5
