"""``cache prune``: removes old entries of the shared cache."""

from __future__ import annotations

import datetime as dt
import json
import os
from dataclasses import asdict
from typing import Annotated

import typer

from app.cli.command import Command
from app.cli.output import print_line
from app.errors import RequestError
from app.opening import open_shared_store
from app.settings import ENVIRONMENT_PREFIX, Settings
from app.storage import RetryPolicy, prune_shared

program = typer.Typer(
    help="Maintain the shared cache: cache prune.", no_args_is_help=True, pretty_exceptions_enable=False
)


@program.callback()
def _group() -> None:
    """Maintain the shared cache."""


@program.command(cls=Command)
def prune(
    older_than: Annotated[
        float, typer.Option(metavar="DAYS", min=0, help="Remove entries that were written longer ago.")
    ],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count, and remove nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Remove old entries of the shared cache. Entries that are needed later are written again."""
    # Pruning lists and removes entries without reading any, so it needs no key.
    has_key = any(f"{ENVIRONMENT_PREFIX}SHARED_CACHE_KEY{end}" in os.environ for end in ("", "_FILE"))
    settings = Settings.load(shared_cache_private=None if has_key else True)
    store = open_shared_store(settings, RetryPolicy())
    if store is None:
        raise RequestError(f"set {ENVIRONMENT_PREFIX}SHARED_CACHE to the prefix to prune")
    before = dt.datetime.now(dt.UTC) - dt.timedelta(days=older_than)
    pruned = prune_shared(store, before, is_tried=dry_run)
    if as_json:
        print_line(json.dumps(asdict(pruned)))
        return
    label = "would be removed" if dry_run else "removed"
    print_line(
        f"{pruned.removed} entries of {pruned.removed_bytes} bytes {label}, "
        f"{pruned.left} of {pruned.left_bytes} bytes left"
    )
