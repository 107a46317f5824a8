"""paimon-index: answers from Apache Paimon index files.

``from app import open_service`` opens the library (:mod:`app.library`); it is imported when it is asked for,
so that importing a part of this package does not import all of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.library import open_service

    __version__: str

__all__ = ["__version__", "open_service"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a function or a text
    match name:
        case "open_service":
            return import_module("app.library").open_service
        case "__version__":
            return import_module("importlib.metadata").version("paimon-index")
        case _:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
