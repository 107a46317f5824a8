"""structlog, imported without the library that it would show tracebacks in colour with.

That one takes several times as long to import as structlog itself, and shows the values of variables, which
must not get into a log.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["structlog"]


@contextmanager
def _hidden(name: str) -> Iterator[None]:
    """Makes an import of a module fail, as if it were not installed."""
    found = sys.modules.get(name)
    sys.modules[name] = None  # type: ignore[assignment] # the documented way to block an import
    try:
        yield
    finally:
        del sys.modules[name]
        if found is not None:
            sys.modules[name] = found


with _hidden("rich"):
    import structlog
