"""Several files at once: object stores answer one request slowly and many side by side."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from typing import TypeVar

from app.work import CORES, LEDGER, Claim, apart, check_deadline, wait_for

Given = TypeVar("Given")
Loaded = TypeVar("Loaded")

_MOST_ON_DISK = 16
"""Threads that read from a disk for one request; only object stores answer more of them sooner."""

_FEWEST_ALONE = 8
"""Loads that are judged together at least: memory for the first of them may have to come from the system."""


class Readers:
    """Threads that help requests to load files; a request's deadline and its end go with its work.

    The thread that asks takes part, so work may be shared out again from inside of shared work. Each
    warehouse has its own: threads of one that hangs are not missing to others.

    Args:
        threads: files that are read for one request at the same time, and threads that help all requests.
        warehouse: whose files they read, and claim memory for.
        store_calls: small reads of an object store that are under way at the same time, over all requests.
    """

    def __init__(self, threads: int = 64, *, warehouse: str = "", store_calls: int = 256) -> None:
        self.warehouse = warehouse
        self.calls = asyncio.Semaphore(store_calls)
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="reader")

    def map(
        self,
        load: Callable[[Given], Loaded],
        items: Iterable[Given],
        *,
        alone_seconds: float = 0,
    ) -> list[Loaded]:
        """``load`` of each item, in their order.

        Args:
            alone_seconds: helpers come once loads take longer than this on average. What takes next to no
                time is done before threads have handed over to each other.

        Raises:
            Exception: one that a load raised; loads that have not begun then never do.
        """
        waiting = deque(enumerate(items))
        loaded: dict[int, Loaded] = {}
        helpers: list[Future[None]] = []
        count = len(waiting)

        def load_next() -> bool:
            try:
                position, item = waiting.popleft()
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
                waiting.clear()

        def call_helpers() -> None:
            most = min(self._threads, _MOST_ON_DISK) if alone_seconds else self._threads
            wanted = min(most - 1, len(waiting))
            helpers.extend(self._pool.submit(copy_context().run, help_out) for _ in range(wanted))

        started = time.perf_counter()
        if not alone_seconds:
            call_helpers()
        try:
            while load_next():
                patience = alone_seconds * max(len(loaded), _FEWEST_ALONE)
                if not helpers and time.perf_counter() - started > patience:
                    call_helpers()
        finally:
            waiting.clear()
            busy = [helper for helper in helpers if not helper.cancel()]
        for helper in busy:
            wait_for(helper)
        return [loaded[position] for position in range(count)]

    def room(self, size: int, path: str) -> AbstractContextManager[Claim]:
        """So many bytes for what is read of a file, of which the block has to make no more."""
        return LEDGER.claim("reads", size, path=path, line=self.warehouse)

    def begin(self, work: Callable[[], Loaded]) -> Future[Loaded]:
        """Has a thread do something that this request waits for later, with its deadline and its end."""
        # Of several that are begun, each may wait for memory while others hold some.
        with apart():
            return self._pool.submit(copy_context().run, work)

    def later(self, work: Callable[[], object]) -> None:
        """Has a thread do something that nobody waits for."""
        self._pool.submit(work)

    @contextmanager
    def decoding(self, path: str) -> Iterator[Claim]:
        """A core as of :meth:`core`, and a claim on memory for what a file expands to."""
        with self.core(), LEDGER.claim("decoding", path=path, line=self.warehouse) as claim:
            yield claim

    @contextmanager
    def core(self) -> Iterator[None]:
        """One of the machine's cores, for decoding what was read."""
        with CORES.computing(is_begun=True):
            yield

    def close(self) -> None:
        """Ends the threads once what they are loading is loaded, which nobody waits for."""
        self._pool.shutdown(wait=False, cancel_futures=True)
