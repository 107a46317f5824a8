"""paimon-index: answers from Apache Paimon index files.

``from app import open_service`` opens the library (:mod:`app.library`).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.library import open_service
    from app.release import __version__

__all__ = ["__version__", "open_service"]

# Imported on first use, so that importing a part of this package does not import all of it.
_MODULES = {"__version__": "app.release", "open_service": "app.library"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
