"""``doctor``: whether the service would work here, and what to do where it would not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from app.cli.options import AllowExternal, parse_warehouse
from app.cli.output import print_json, print_line
from app.diagnosis import Finding, Outcome, examine
from app.settings import Settings

_SIGNS = {Outcome.OK: "ok", Outcome.WARNING: "WARNING", Outcome.FAILED: "FAILED"}


def doctor(
    warehouse: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=URL", help="Warehouse to check; repeatable."),
    ] = None,
    allow_external: AllowExternal = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check settings, memory, clock, disk cache and warehouses, and say what to do. Status 1 if one fails."""
    findings = examine(
        lambda: Settings.load(
            warehouses=dict(parse_warehouse(text) for text in warehouse) if warehouse else None,
            allow_external=tuple(allow_external) if allow_external else None,
        )
    )
    failed = [each for each in findings if each.outcome is Outcome.FAILED]
    if as_json:
        print_json({"healthy": not failed, "checks": [asdict(each) for each in findings]})
    else:
        _print(findings)
    if failed:
        raise typer.Exit(1)


def _print(findings: Sequence[Finding]) -> None:
    width = max(len(each.check) for each in findings)
    for each in findings:
        print_line(f"{_SIGNS[each.outcome]:8} {each.check:{width}}  {each.found}")
        if each.advice:
            print_line(f"{'':8} {'':{width}}  -> {each.advice}")
