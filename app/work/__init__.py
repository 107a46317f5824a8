"""Bounds the time, the cores and the memory of work, and ends it when its caller leaves."""

from app.work.cores import CORES, line_of_work, waiting
from app.work.deadline import (
    GLANCE_SECONDS,
    Cancellation,
    cancellable,
    check_deadline,
    pause,
    remaining_seconds,
    time_limit,
    wait_for,
)
from app.work.ledger import LEDGER, RECENT_SECONDS, REFUSE, Claim, Shrinkable, apart
from app.work.memory import MappedBytes, Scratch, give_memory_back

__all__ = [
    # The cores of this machine, which whatever computes acquires.
    "CORES",
    # Seconds between two looks of a waiting thread at its deadline and its caller.
    "GLANCE_SECONDS",
    # The account of this process' memory.
    "LEDGER",
    # Entries of caches that were used within so many seconds are evicted last.
    "RECENT_SECONDS",
    # Refuses claims that do not fit, in place of waiting.
    "REFUSE",
    # Tells the threads of one request that nobody waits for it any more.
    "Cancellation",
    # Memory that one piece of work has claimed for one purpose.
    "Claim",
    # The bytes of a mapped file.
    "MappedBytes",
    # A buffer that grows, and is claimed as it does.
    "Scratch",
    # A cache that gives memory back when claims need it.
    "Shrinkable",
    # Makes claims in the block those of a piece of work of its own.
    "apart",
    # Lets a cancellation end the enclosed work.
    "cancellable",
    # Raises once a request's time is up, or its caller has left.
    "check_deadline",
    # Returns freed memory to the system.
    "give_memory_back",
    # The warehouse that this thread works for.
    "line_of_work",
    # Sleeps, but not past the caller's leaving.
    "pause",
    # Seconds until the deadline, 0 if it has passed.
    "remaining_seconds",
    # Gives the enclosed work so many seconds.
    "time_limit",
    # Waits for what another thread makes, within the deadline.
    "wait_for",
    # Releases this thread's core while it waits.
    "waiting",
]
