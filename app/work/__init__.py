"""What bounds work, whatever it is about: its time and its caller, cores, and memory."""

from app.work.deadline import (
    Cancellation,
    cancellable,
    check_deadline,
    remaining_seconds,
    time_limit,
    wait_for,
)

__all__ = [
    "Cancellation",
    "cancellable",
    "check_deadline",
    "remaining_seconds",
    "time_limit",
    "wait_for",
]
