"""Reads several files in parallel: object stores answer a single call slowly, and many at once."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from typing import Final, TypeVar

from app.work import CORES, LEDGER, Claim, apart, check_deadline, wait_for

_Given = TypeVar("_Given")
_Loaded = TypeVar("_Loaded")

# Handing a load over to another thread takes longer than a load from memory, and less than one from a disk.
_QUICK_SECONDS: Final = 0.002

# Least number of loads to judge by: the first may have to wait for memory from the system.
_FEWEST_ALONE: Final = 8


class Readers:
    """Threads that help requests to load files, under the request's deadline and cancellation.

    The requesting thread takes part, so a load may call :meth:`map` itself. Each warehouse has its own
    threads, so that one that hangs blocks no other.

    ``threads``: limit of parallel reads per request, and of helpers for all requests.
    ``warehouse``: name under which reads claim memory.
    ``store_calls``: limit of small reads of an object store in flight, over all requests.
    """

    def __init__(self, threads: int = 64, *, warehouse: str = "", store_calls: int = 256) -> None:
        self.warehouse = warehouse
        self.calls = asyncio.Semaphore(store_calls)
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="reader")

    def map(
        self,
        load: Callable[[_Given], _Loaded],
        items: Iterable[_Given],
        *,
        may_be_quick: bool = False,
        claimed_bytes: int = 0,
    ) -> list[_Loaded]:
        """Apply ``load`` to each item in parallel. Return results in order.

        ``may_be_quick``: helpers join once loads turn out to take longer than from memory. ``claimed_bytes``:
        memory that each load claims, which bounds the helpers, since waiting for memory costs time. Raises
        the error of a load. Loads not started then never start.
        """
        pending = deque(enumerate(items))
        loaded: dict[int, _Loaded] = {}
        helpers: list[Future[None]] = []
        count = len(pending)

        def load_next() -> bool:
            try:
                position, item = pending.popleft()
            except IndexError:
                return False
            check_deadline()
            loaded[position] = load(item)
            return True

        def help_out() -> None:
            try:
                while load_next():
                    pass
            finally:
                # After an error nobody needs the rest.
                pending.clear()

        def call_helpers() -> None:
            most = min(self._threads - 1, LEDGER.startable // max(1, claimed_bytes))
            helpers.extend(
                self._pool.submit(copy_context().run, help_out) for _ in range(min(most, len(pending)))
            )

        started = time.perf_counter()
        if not may_be_quick:
            call_helpers()
        try:
            while load_next():
                patience = _QUICK_SECONDS * max(len(loaded), _FEWEST_ALONE)
                if not helpers and time.perf_counter() - started > patience:
                    call_helpers()
        finally:
            pending.clear()
            busy = [helper for helper in helpers if not helper.cancel()]
        for helper in busy:
            wait_for(helper)
        return [loaded[position] for position in range(count)]

    def room(self, size: int, path: str) -> AbstractContextManager[Claim]:
        """Claim memory for the bytes read of a file."""
        return LEDGER.claim("reads", size, path=path, line=self.warehouse)

    def begin(self, work: Callable[[], _Loaded]) -> Future[_Loaded]:
        """Run work in a thread, under this request's deadline and cancellation."""
        # As separate work: otherwise its claims are refused, instead of waiting, while other parts have some.
        with apart():
            return self._pool.submit(copy_context().run, work)

    def submit_detached(self, work: Callable[[], object]) -> None:
        """Run work in a thread without a caller."""
        self._pool.submit(work)

    def decoding(self, size: int, path: str) -> AbstractContextManager[Claim]:
        """Claim memory for a file that is read and expanded, until its content is stored or given up."""
        return LEDGER.claim("decoding", size, path=path, line=self.warehouse)

    @contextmanager
    def core(self) -> Iterator[None]:
        """Acquire a core to decode what was read."""
        with CORES.computing(is_begun=True):
            yield

    def close(self) -> None:
        """End the threads after their present loads, without waiting."""
        self._pool.shutdown(wait=False, cancel_futures=True)
