"""Several files at once: object stores answer one request slowly and many side by side."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Given = TypeVar("Given")
Loaded = TypeVar("Loaded")


class Readers:
    """Threads that load files for requests; the deadline of a request goes with its work.

    What they are given must not use the same readers again, or all of them could end up waiting for each
    other.

    Args:
        threads: files that are read at the same time, over all requests.
    """

    def __init__(self, threads: int = 16) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="reader")

    def map(self, load: Callable[[Given], Loaded], items: Iterable[Given]) -> list[Loaded]:
        """``load`` of each item, in their order.

        Raises:
            Exception: the first that a load raised; loads that have not begun then never do.
        """
        waiting = list(items)
        if len(waiting) <= 1:
            return [load(item) for item in waiting]
        loads = [self._pool.submit(copy_context().run, load, item) for item in waiting]
        try:
            return [future.result() for future in loads]
        finally:
            for future in loads:
                future.cancel()

    def close(self) -> None:
        """Ends the threads once what they are loading is loaded."""
        self._pool.shutdown(cancel_futures=True)
