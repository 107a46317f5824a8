"""``demo``: the service with sample tables, which are part of the package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from app.access import is_loopback
from app.cli.banner import address_of, explorer_place
from app.cli.output import print_line
from app.cli.serve import run_service
from app.planning.service import IndexService
from app.settings import Settings

# In a clone a link to demo/warehouse, whose files a wheel has in its place.
_SAMPLES: Final = Path(__file__).with_name("samples")

_LINES: Final = (
    ("sessions/plan", '{"filter": "fee = 58.43", "selection": "positions"}'),
    ("sessions/aggregate", '{"filter": "fee = 58.43", "aggregates": [{"function": "count"}]}'),
    ("users/buckets/lookup", '{"partition": {"dte": "2024-01-01"}, "keys": [{"uid": 999999967}]}'),
)
"""What to ask first: a table's endpoint and a body."""


def demo(
    *,
    port: Annotated[int | None, typer.Option(min=1, help="Port to listen on; 8080 unless given.")] = None,
) -> None:
    """Serve sample tables and nothing else, to try the explorer and the API."""
    settings = Settings.load(warehouses={"main": str(_SAMPLES.resolve())}, port=port)
    if settings.tokens_file is None and not is_loopback(settings.host):
        # A container listens to all addresses; everybody may read what is part of the package.
        settings = settings.model_copy(update={"auth": "off"})
    run_service(settings, _greet)


def _greet(settings: Settings, _: IndexService) -> None:
    url = address_of(settings)
    print_line(f"Explorer: {explorer_place(settings)} (Ctrl-C ends the service)")
    print_line("Sample tables: main.demo.sessions, main.demo.users, main.demo.visits. From another terminal:")
    for endpoint, body in _LINES:
        print_line(f"  curl -s {url}/v1/main/databases/demo/tables/{endpoint} -d '{body}'")
