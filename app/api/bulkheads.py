"""What the requests of one warehouse may hold, so that a storage that hangs holds up no other warehouse.

Bulkheads, as in ships: each warehouse has threads and places for waiting requests of its own. What reads from
no warehouse has its own as well, as bodies that are parsed and answers about the service.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.api.load import Work

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Bulkhead:
    """What some requests have for themselves.

    Attributes:
        threads: do the blocking work. A thread that storage holds up stays counted here after its request was
            answered with 504, so that no number of such requests makes more threads.
        work: counts the requests that are worked on.
    """

    threads: ThreadPoolExecutor
    work: Work


class Bulkheads:
    """One for each warehouse, and one for what reads from none.

    Args:
        warehouses: their names.
        threads: of each.
        concurrency: requests of each that are worked on at once, or wait for a thread.

    Attributes:
        common: for what reads from no warehouse.
    """

    def __init__(self, warehouses: Iterable[str], threads: int, concurrency: int) -> None:
        def one(name: str) -> Bulkhead:
            return Bulkhead(ThreadPoolExecutor(threads, thread_name_prefix=name), Work(concurrency))

        self.common = one("paimon-index")
        self._own = {warehouse: one(f"paimon-index-{warehouse}") for warehouse in warehouses}

    def of(self, warehouse: str | None) -> Bulkhead:
        """That of a warehouse; the common one if there is no such warehouse."""
        return self.common if warehouse is None else self._own.get(warehouse, self.common)

    def close(self) -> None:
        """Ends the threads; work that was not begun is dropped."""
        for each in (self.common, *self._own.values()):
            each.threads.shutdown(wait=False, cancel_futures=True)
