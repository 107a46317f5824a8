"""Decoding claims its memory first, against one budget."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.errors import DeadlineExceededError, MemoryShortError
from app.storage import time_limit
from app.storage.decoding import DecodingMemory

PATIENCE_SECONDS = 60


def test_claims_end_with_their_block() -> None:
    memory = DecodingMemory(100)

    with memory.claim() as claim:
        claim.grow_to(40)
        claim.grow_to(30)
        claim.grow_to(70)
        assert memory.claimed == 70

    assert memory.claimed == 0


def test_the_eldest_goes_over_the_budget_and_others_are_refused() -> None:
    memory = DecodingMemory(100, patience_seconds=0)

    with memory.claim() as eldest, memory.claim() as other:
        other.grow_to(50)
        eldest.grow_to(200)
        with pytest.raises(MemoryShortError, match="250 that are claimed, of 100"):
            other.grow_to(51)

    assert memory.claimed == 0


def test_a_claim_waits_for_others_to_end() -> None:
    memory = DecodingMemory(100, PATIENCE_SECONDS)
    begun = threading.Event()

    def decode() -> int:
        with memory.claim() as claim:
            begun.set()
            claim.grow_to(60)
            return memory.claimed

    with ThreadPoolExecutor(1) as threads:
        with memory.claim() as eldest:
            eldest.grow_to(60)
            waiting = threads.submit(decode)
            assert begun.wait(PATIENCE_SECONDS)
            assert memory.claimed == 60
        assert waiting.result(PATIENCE_SECONDS) == 60


def test_waiting_ends_with_the_request() -> None:
    memory = DecodingMemory(100, PATIENCE_SECONDS)

    with memory.claim() as eldest, memory.claim() as other:
        eldest.grow_to(100)
        with time_limit(0), pytest.raises(DeadlineExceededError):
            other.grow_to(1)


def test_claims_that_all_grow_come_to_their_end() -> None:
    """Each holds a part of what the others need, so that only going over the budget gets them on."""
    memory = DecodingMemory(100, PATIENCE_SECONDS)
    together = threading.Barrier(4, timeout=PATIENCE_SECONDS)

    def decode(_: int) -> None:
        with memory.claim() as claim:
            claim.grow_to(25)
            together.wait()
            for total in range(30, 100, 10):
                claim.grow_to(total)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(decode, range(4)))

    assert memory.claimed == 0
