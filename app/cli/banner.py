"""What somebody sees first of ``serve`` and ``demo``: where the explorer is, and what is served."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from typing import Final

from app.cli.output import print_line
from app.errors import PaimonIndexError
from app.planning.service import IndexService
from app.settings import Settings
from app.storage import time_limit
from app.suggestions import listed

_SECONDS: Final = 10.0
"""For the list of a warehouse's databases."""


def show_banner(settings: Settings, service: IndexService) -> None:
    """Prints the address of the explorer and, as they are found, the databases of each warehouse.

    Nothing where standard output is no terminal.
    """
    if sys.stdout.isatty():
        # Terminal and storage may be slow or gone, and the service answers meanwhile.
        threading.Thread(target=_show, args=(settings, service), name="banner", daemon=True).start()


def explorer_place(settings: Settings) -> str:
    """Where somebody on this machine finds the explorer."""
    if not settings.port:
        return "/ui at the address that the line below names"
    return f"{address_of(settings)}/ui"


def address_of(settings: Settings) -> str:
    """The service's URL, as this machine reaches it."""
    scheme = "http" if settings.tls_certificate is None else "https"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    if settings.host in ("127.0.0.1", "0.0.0.0", "::", "::1"):  # noqa: S104 - compared
        host = "localhost"
    return f"{scheme}://{host}:{settings.port}"


def _show(settings: Settings, service: IndexService) -> None:
    with suppress(OSError):
        print_line(f"Explorer: {explorer_place(settings)} (Ctrl-C ends the service)")
        for name, warehouse in service.warehouses.items():
            try:
                with time_limit(_SECONDS):
                    databases = service.databases(name)
                text = f"databases {listed(databases)}" if databases else "no database yet"
            except PaimonIndexError as error:
                text = str(error)
            print_line(f"Warehouse {name} at {warehouse.public_url}: {text}")
