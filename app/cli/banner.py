"""What somebody sees first of ``serve`` and ``demo``: where the explorer is, and what is served."""

from __future__ import annotations

import sys
import threading
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
    if not sys.stdout.isatty():
        return
    if settings.port:
        print_line(f"Explorer: {address_of(settings)}/ui (Ctrl-C ends the service)")
    else:
        print_line("Explorer: /ui at the address that the line below names (Ctrl-C ends the service)")
    # Storage may be slow, and the service answers meanwhile.
    threading.Thread(target=_show_warehouses, args=(service,), name="banner", daemon=True).start()


def address_of(settings: Settings) -> str:
    """The service's URL, as this machine reaches it."""
    scheme = "http" if settings.tls_certificate is None else "https"
    host = "localhost" if settings.host in ("127.0.0.1", "0.0.0.0", "::", "::1") else settings.host  # noqa: S104 - compared
    return f"{scheme}://{host}:{settings.port}"


def _show_warehouses(service: IndexService) -> None:
    for name, warehouse in service.warehouses.items():
        try:
            with time_limit(_SECONDS):
                databases = service.databases(name)
            found = f"databases {listed(databases)}" if databases else "no database yet"
        except PaimonIndexError as error:
            found = str(error)
        print_line(f"Warehouse {name} at {warehouse.public_url}: {found}")
