"""The command line, ``paimon-index``: the service, and the same answers without one.

Exit status: 0 for an answer, 1 for an error with a line on standard error, 2 for wrong usage.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import Annotated

import typer

from app import __version__
from app.errors import PaimonIndexError

__all__ = ["main", "program"]

# Where each command is: a command that runs need not wait for the libraries of the others.
_MODULES = {
    "serve": "serve",
    "doctor": "doctor",
    "plan": "tables",
    "deletions": "tables",
    "lookup": "tables",
    "describe": "discovery",
    "schemas": "discovery",
    "inspect": "index_files",
    "evaluate": "index_files",
    "build": "build",
    "verify": "verify",
    "advise": "advise",
    "orphans": "orphans",
    "token": "token",
    "openapi": "openapi",
}


def __getattr__(name: str) -> typer.Typer:
    if name == "program":
        return _program(tuple(_MODULES))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), "program"])


@cache
def _program(commands: tuple[str, ...]) -> typer.Typer:
    """The program with some of its commands."""
    found = typer.Typer(
        name="paimon-index",
        help="Answers from Apache Paimon index files.",
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    for command in commands:
        module = import_module(f"app.cli.{_MODULES[command]}")
        if hasattr(module, command):
            found.command(command)(getattr(module, command))
        else:
            # A command that has commands of its own.
            found.add_typer(module.program, name=command)
    found.callback()(_options)
    return found


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it so
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Runs the command line."""
    word = next(iter(sys.argv[1:]), None)
    try:
        _program((word,) if word in _MODULES else tuple(_MODULES))()
    except PaimonIndexError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)
