"""The command line, ``paimon-index``: the service, and the same answers without one.

Exit status: 0 for an answer, 1 for an error with a line on standard error, 2 for wrong usage.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from app import __version__
from app.cli import advise, build, discovery, index_files, orphans, serve, tables, token, verify
from app.errors import PaimonIndexError

__all__ = ["main", "program"]

program = typer.Typer(
    name="paimon-index",
    help="Answers from Apache Paimon index files.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for command in (
    serve.serve,
    tables.plan,
    tables.deletions,
    tables.lookup,
    discovery.describe,
    discovery.schemas,
    index_files.inspect,
    index_files.evaluate,
    build.build,
    verify.verify,
    advise.advise,
    orphans.orphans,
    serve.openapi,
):
    program.command()(command)
program.add_typer(token.program, name="token")


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it so
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@program.callback()
def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Runs the command line."""
    try:
        program()
    except PaimonIndexError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)
