"""Loads in the background what plans had no time to wait for."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from app.errors import PaimonIndexError
from app.storage import Cancellation, cancellable, time_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

_log = logging.getLogger("paimon_index.planning")

_SECONDS: Final = 300.0
"""After which a load is given up; what it has read stays in the caches."""


class BackgroundLoads:
    """Does one thing after the other, each once at a time."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="loading")
        self._end = Cancellation()
        self._known: set[Hashable] = set()
        self._lock = threading.Lock()

    def begin(self, key: Hashable, load: Callable[[], object]) -> None:
        """Has a thread load something, unless it does so or is about to; after :meth:`close` none does."""
        with self._lock:
            if key in self._known or self._end.event.is_set():
                return
            self._known.add(key)
            self._pool.submit(self._load, key, load)

    def close(self) -> None:
        """Ends the load under way; those that have not begun never do."""
        with self._lock:
            self._end.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _load(self, key: Hashable, load: Callable[[], object]) -> None:
        try:
            with cancellable(self._end), time_limit(_SECONDS):
                load()
        except PaimonIndexError as error:
            # The next plan meets it as well, and tells its caller.
            _log.info("loading in the background ended early: %s", error)
        finally:
            with self._lock:
                self._known.discard(key)
