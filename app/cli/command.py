"""A command whose user is told what to do about wrong options."""

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
_WORDS: Final = {
    re.compile(r"Input should be a valid integer.*"): "a whole number is expected",
    re.compile(r"Input should be a valid number.*"): "a number is expected",
    re.compile(r"Input should be greater than or equal to (\S+)"): r"at least \1 is expected",
    re.compile(r"Input should be less than or equal to (\S+)"): r"at most \1 is expected",
}
"""What a library says of values, in our words."""


class Command(TyperCommand):
    """A command of the program."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the arguments; ends with status 2 where there is no such option."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # Which library raises them depends on the release of typer.
            kind, members = type(error).__name__, vars(error)
            if kind == "NoSuchOption":
                self._refuse(ctx.command_path, str(members["option_name"]))
                raise typer.Exit(2) from error
            if kind == "BadParameter":
                members["message"] = _in_our_words(str(members["message"]))
            raise

    def _refuse(self, command: str, option: str) -> None:
        known = [name for parameter in self.params for name in parameter.opts if name.startswith("--")]
        typer.echo(f"error: there is no option {option}{hint(option, known, also=_SYNONYMS)}", err=True)
        typer.echo(f"{command} --help lists the options", err=True)


def _in_our_words(message: str) -> str:
    for theirs, ours in _WORDS.items():
        message = theirs.sub(ours, message)
    return message
