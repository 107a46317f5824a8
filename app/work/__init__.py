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
    # The cores of this machine; threads acquire one to compute.
    "CORES",
    # Seconds between a waiting thread's checks of its deadline and its caller.
    "GLANCE_SECONDS",
    # The ledger of this process's memory.
    "LEDGER",
    # Entries of caches that were used within this many seconds are evicted last.
    "RECENT_SECONDS",
    # Share of the memory limit above which large claims wait, or are refused.
    "REFUSE",
    # Signals the threads of one request that its caller has left.
    "Cancellation",
    # Memory that one piece of work has claimed for one purpose.
    "Claim",
    # The bytes of a mapped file.
    "MappedBytes",
    # A buffer that grows, and is claimed as it does.
    "Scratch",
    # A cache that gives memory back when claims need it.
    "Shrinkable",
    # Counts claims in the block as those of separate work.
    "apart",
    # Allows a cancellation to end the enclosed work.
    "cancellable",
    # Raises once a request's time is up, or its caller has left.
    "check_deadline",
    # Returns freed memory to the system.
    "give_memory_back",
    # The warehouse that this thread works for.
    "line_of_work",
    # Sleeps, unless the caller leaves.
    "pause",
    # Seconds until the deadline, 0 if it has passed.
    "remaining_seconds",
    # Limits the time of the enclosed work.
    "time_limit",
    # Waits for another thread's result, within the deadline.
    "wait_for",
    # Releases this thread's core while it waits.
    "waiting",
]
