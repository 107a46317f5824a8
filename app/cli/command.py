"""A command whose user is told what an option may be called that it does not have."""

from __future__ import annotations

from typing import Any, Final

import typer
from typer.core import TyperCommand

from app.api.faults import SYNONYMS
from app.suggestions import hint

_OPTION: Final = "--{}".format
_SYNONYMS: Final = {
    **{_OPTION(word.replace("_", "-")): _OPTION(meant.replace("_", "-")) for word, meant in SYNONYMS.items()},
    "--filter": "--where",
    "--format": "--json",
    "--sort": "--order-by",
}


class Command(TyperCommand):
    """A command of the program."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - of typer's own library
        """Reads the arguments; ends with status 2 where there is no such option."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # Which library raises it depends on the release of typer.
            if type(error).__name__ != "NoSuchOption":
                raise
            option = str(getattr(error, "option_name", ""))
            known = [name for each in self.params for name in each.opts if name.startswith("--")]
            suggestion = hint(option, known, what=None, also=_SYNONYMS)
            typer.echo(f"error: there is no option {option}{suggestion}", err=True)
            typer.echo(f"{ctx.command_path} --help lists the options", err=True)
            raise typer.Exit(2) from error
