"""``what-if``: how many files would indexes leave out that nobody has built yet?"""

from __future__ import annotations

from typing import Annotated

import typer

from app.advice.what_if import DEFAULT_BYTES, DEFAULT_FILES, WhatIf, try_indexes
from app.api.plan_bodies import WhatIfBody
from app.cli.options import JsonOption, TableArgument, TimeZoneOption, VersionOptions, grouped, parse_filter
from app.cli.output import print_json, print_line, print_table
from app.errors import RequestError


@grouped
def what_if(  # noqa: PLR0913 - one parameter per option
    table: TableArgument,
    *,
    index: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMN=KIND[,option=value...]",
            help="An index to try, such as user_id=bloom-filter,items=10000; repeatable.",
        ),
    ],
    filters: Annotated[
        list[str],
        typer.Option("--filter", help="Spark SQL as after WHERE; repeatable."),
    ],
    files: Annotated[int, typer.Option(help="Data files tried for each filter.")] = DEFAULT_FILES,
    most_bytes: Annotated[
        int, typer.Option("--bytes", help="Of data files that are read at most, but for the first.")
    ] = DEFAULT_BYTES,
    seed: Annotated[int, typer.Option(help="Chooses files.")] = 0,
    version: VersionOptions,
    time_zone: TimeZoneOption = None,
    as_json: JsonOption = False,
) -> None:
    """Try indexes on some data files: how many files would they leave out?"""
    opened = version.open()
    body = WhatIfBody.read(
        {
            "indexes": [_index(text) for text in index],
            "filters": [parse_filter(text) for text in filters],
            "files": files,
            "bytes": most_bytes,
            "seed": seed,
            **version.members,
            "time_zone": opened.time_zone(time_zone),
        }
    )
    service, settings = opened.service, opened.settings
    resolved = service.resolve(opened.table(table), body.selector())
    trial, zone = body.to_request(), service.zone(body.time_zone)
    answer = service.ask(resolved, lambda version: try_indexes(version, trial, settings.limits, zone))
    if as_json:
        print_json(answer)
    else:
        _print(answer)


def _index(text: str) -> dict[str, object]:
    named, *options = text.split(",")
    column, _, kind = named.rpartition("=")
    pairs = [each.partition("=") for each in options]
    if not column or not kind or not all(sign for _, sign, _ in pairs):
        raise RequestError(
            f"--index takes COLUMN=KIND, such as user_id=bloom-filter,items=10000, not {text!r}"
        )
    return {"column": column, "index": kind, "options": {name: value for name, _, value in pairs}}


def _print(found: WhatIf) -> None:
    print_line(f"snapshot {found.snapshot_id}: {found.files_read} files read, {found.bytes_read:,} bytes")
    for index in found.indexes:
        print_line(f"{index.index} of {index.column!r}: {index.index_bytes:,} bytes for all files")
    print_table(
        ("filter", "kept today", "tried", "index", "left out", "bytes"),
        (
            (
                each.filter,
                each.files_kept,
                each.files_tried,
                "all" if effect.column is None else f"{effect.index} of {effect.column}",
                effect.files,
                f"{effect.bytes:,}",
            )
            for each in found.filters
            for effect in each.effects
        ),
    )
    for warning in found.warnings:
        print_line(f"warning: {warning}")
