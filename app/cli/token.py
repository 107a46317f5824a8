"""``token new``: makes the secret for a caller, and the line for the tokens file."""

from __future__ import annotations

import datetime as dt
import json
import re
from typing import Annotated, Final

import typer

from app.access import Role, TokenBook, new_secret, stored_digest
from app.cli.command import Command
from app.errors import RequestError

_DURATION: Final = re.compile(r"(\d{1,6})([dhms])")
_UNIT_SECONDS: Final = {"d": 86_400, "h": 3600, "m": 60, "s": 1}

program = typer.Typer(
    help="Create tokens for callers: token new.", no_args_is_help=True, pretty_exceptions_enable=False
)


@program.callback()
def _group() -> None:
    """Create tokens for callers of the service."""


@program.command(cls=Command)
def new(
    name: Annotated[str, typer.Argument(help="Name of the token, shown in logs.")],
    warehouse: Annotated[
        list[str], typer.Option(help="Warehouse that the token may read; repeatable; '*' for all.")
    ],
    database: Annotated[
        list[str] | None, typer.Option(help="Database that the token may read; repeatable. Default: all.")
    ] = None,
    role: Annotated[Role, typer.Option(help="An admin may also clear the caches.")] = Role.READER,
    expires_in: Annotated[
        str | None,
        typer.Option(metavar="90d", help="Time until the token expires, such as 30d, 12h, 90m or 30s."),
    ] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make a token: print its secret, once, and the line to store in the tokens file."""
    secret = new_secret()
    entry: dict[str, object] = {
        "name": name,
        "sha256": stored_digest(secret),
        "role": role.value,
        "warehouses": warehouse,
    }
    if database:
        entry["databases"] = database
    if expires_in is not None:
        until = dt.datetime.now(dt.UTC) + _duration(expires_in)
        entry["expires"] = until.replace(microsecond=0).isoformat()
    # The service would refuse a faulty entry only when it starts.
    TokenBook.read(json.dumps({"tokens": [entry]}).encode())
    if as_json:
        typer.echo(json.dumps({"secret": secret, "entry": entry}))
        return
    typer.echo("The secret, for the caller; it is shown this once and stored nowhere:\n")
    typer.echo(f"  {secret}\n")
    typer.echo("The line for the tokens file, below 'tokens:':\n")
    typer.echo(f"- {json.dumps(entry)}")


def _duration(text: str) -> dt.timedelta:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise RequestError(f"--expires-in takes a number of d, h, m or s, such as 1d or 90m, not {text!r}")
    return dt.timedelta(seconds=int(match[1]) * _UNIT_SECONDS[match[2]])
