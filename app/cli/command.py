"""Commands that explain wrong options."""

from __future__ import annotations

import re
from typing import Any, Final

import typer
from typer.core import TyperCommand

from app.suggestions import SYNONYMS, hint

_OPTION: Final = "--{}".format
_SYNONYMS: Final = {
    **{_OPTION(word.replace("_", "-")): _OPTION(meant.replace("_", "-")) for word, meant in SYNONYMS.items()},
    "--filter": "--where",
    "--format": "--json",
    "--sort": "--order-by",
}
"""Other words for options."""
# Messages of the library, and ours in their place.
_WORDS: Final = {
    re.compile(r"Input should be a valid integer.*"): "a whole number is expected",
    re.compile(r"Input should be a valid number.*"): "a number is expected",
    re.compile(r"Input should be greater than or equal to (\S+)"): r"at least \1 is expected",
    re.compile(r"Input should be less than or equal to (\S+)"): r"at most \1 is expected",
}


class Command(TyperCommand):
    """A command of the program."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments. Exit with status 2 for an unknown option."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # typer's releases differ in the library that raises them, so they are identified by name.
            kind, members = type(error).__name__, vars(error)
            if kind == "NoSuchOption":
                self._refuse(ctx.command_path, str(members["option_name"]))
                raise typer.Exit(2) from error
            if kind == "BadParameter":
                members["message"] = _reworded(str(members["message"]))
            raise

    def _refuse(self, command: str, option: str) -> None:
        option_names = [name for parameter in self.params for name in parameter.opts if name.startswith("--")]
        typer.echo(
            f"error: there is no option {option}{hint(option, option_names, also=_SYNONYMS)}", err=True
        )
        typer.echo(f"{command} --help lists the options", err=True)


def _reworded(message: str) -> str:
    for theirs, ours in _WORDS.items():
        message = theirs.sub(ours, message)
    return message
