"""The command line, ``paimon-index``: the service, and its answers without a server.

Exit status: 0 for an answer, 1 for an error with a line on standard error, 2 for wrong usage.
"""

from __future__ import annotations

import gc
import os
import sys
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Annotated, Final, NamedTuple

import typer

import app
from app.cli.command import Command
from app.errors import PaimonIndexError, UnknownPlaceError

__all__ = ["main", "program"]

_COMPLETION: Final = "_PAIMON_INDEX_COMPLETE"
_COMPLETION_OPTIONS: Final = ("--install-completion", "--show-completion")

_ALSO: Final = {"aggregate": "count"}
"""Commands by the HTTP API's names for them."""
_REMOVED: Final = {
    "orphans": "the engine removes unreferenced files: in Spark CALL "
    "sys.remove_orphan_files(table => 'db.t'), where dry_run => true counts them; in Flink the action "
    "remove_orphan_files"
}


class _Command(NamedTuple):
    """Module of a command, and the first sentence of its help."""

    # Commands are imported by name, so that one command does not wait for the libraries of the others.
    module: str
    summary: str


_COMMANDS: Final = {
    "serve": _Command("serve", "Serve HTTP."),
    "demo": _Command("serve", "Serve sample tables and nothing else, to try the explorer and the API."),
    "doctor": _Command(
        "doctor", "Check settings, memory, clock, disk cache and warehouses, and say what to do."
    ),
    "plan": _Command("tables", "Show which files of a table a query reads, and which of their rows."),
    "deletions": _Command("tables", "Show which rows of which files are deleted."),
    "count": _Command(
        "tables", "Count rows, or compute other aggregates, from indexes and statistics alone."
    ),
    "lookup": _Command("tables", "Show which buckets keys are in."),
    "describe": _Command("tables", "Describe a table: its schema, keys, options and indexes."),
    "schemas": _Command(
        "tables", "List the schemas of a table, or show one, with the full types of its columns."
    ),
    "inspect": _Command("index_files", "Show what is in an index file."),
    "evaluate": _Command(
        "index_files",
        "Evaluate a filter on index files: which data files can be skipped, which rows can match?",
    ),
    "build": _Command("build", "Build the index file of one data file."),
    "verify": _Command(
        "build", "Verify an index file against its data file: it prunes no matching row and lists no other."
    ),
    "advise": _Command(
        "advise", "Advise on the indexes of a table, or on indexes for the values of a data file."
    ),
    "what-if": _Command("advise", "Try indexes on some data files: how many files would they skip?"),
    "job": _Command("job", "Run a Spark job over a table: build-index, upsert, delete, audit, plan."),
    "token": _Command("token", "Create tokens for callers: token new."),
    "cache": _Command("cache", "Maintain the shared cache: cache prune."),
    "openapi": _Command("serve", "Print the OpenAPI document."),
}


def __getattr__(name: str) -> typer.Typer:
    if name == "program":
        return _program(tuple(_COMMANDS))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), "program"])


@cache
def _program(commands: tuple[str, ...]) -> typer.Typer:
    program = typer.Typer(
        name="paimon-index",
        help="Answers from Apache Paimon index files.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    for name, command in _COMMANDS.items():
        if name not in commands:
            program.command(name, help=command.summary)(_nothing)
            continue
        module = _imported(f"app.cli.{command.module}")
        function = name.replace("-", "_")
        if hasattr(module, function):
            program.command(name, cls=Command)(getattr(module, function))
        else:
            # A group of commands.
            program.add_typer(module.program, name=name)
    program.callback()(_options)
    return program


def _imported(name: str) -> ModuleType:
    """Import a module with the garbage collector off, which would take a sixth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return import_module(name)
    finally:
        if was_enabled:
            gc.enable()


def _nothing() -> None:
    """Stand for a command in the list."""


def _print_version(requested: bool) -> None:  # noqa: FBT001 - typer passes it by position
    if requested:
        typer.echo(app.__version__)
        raise typer.Exit


def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line."""
    words = sys.argv
    if _COMPLETION in os.environ:
        # A shell passes the line to complete in a variable: bash in the first, zsh and fish in the second.
        words = (os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")).split()
    word = next(iter(words[1:]), "--help")
    if word in _ALSO:
        words[1] = word = _ALSO[word]
    if word in _REMOVED:
        typer.echo(f"error: there is no command {word} any more: {_REMOVED[word]}", err=True)
        sys.exit(2)
    # Any command may follow an option of the whole program.
    is_list = word in ("--help", "--version", *_COMPLETION_OPTIONS) or not word.startswith("-")
    try:
        _program((word,) if word in _COMMANDS else () if is_list else tuple(_COMMANDS))()
    except PaimonIndexError as error:
        from app.cli.output import print_error  # noqa: PLC0415 - its libraries are loaded by now

        print_error(error, _error_line(error))
        sys.exit(1)


def _error_line(error: PaimonIndexError) -> str:
    if not isinstance(error, UnknownPlaceError):
        return str(error)
    if error.existing:
        return error.naming(error.existing)
    return f"{error}: the warehouse has none. Its URL must be that of the directory that holds DATABASE.db"
