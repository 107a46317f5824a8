"""``count``: aggregates of a table, answered without a server and without data."""

from __future__ import annotations

from typing import Annotated

import typer

from app.aggregates.aggregation import aggregate
from app.aggregates.answers import AggregateAnswer, AggregateValue
from app.api.plan_bodies import AggregateBody
from app.cli.options import (
    AliasOption,
    FilterOption,
    JsonOption,
    TableArgument,
    TimeZoneOption,
    VersionOptions,
    grouped,
    parse_filter,
)
from app.cli.output import plain, print_json, print_line, print_table
from app.errors import RequestError


@grouped
def count(  # noqa: PLR0913 - one parameter per option
    table: TableArgument,
    *,
    filter_text: FilterOption = None,
    alias: AliasOption = None,
    of: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FUNCTION:COLUMN",
            help="count; or count, min, max or sum of a column, as sum:amount; repeatable. "
            "Default: the number of rows.",
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Count by a partition column, or one with an index."),
    ] = None,
    top: Annotated[int, typer.Option(help="Most groups: those of the most rows.")] = 20,
    version: VersionOptions,
    time_zone: TimeZoneOption = None,
    as_json: JsonOption = False,
) -> None:
    """Count rows, or compute other aggregates, from indexes and statistics alone."""
    opened = version.open()
    body = AggregateBody.read(
        {
            "filter": parse_filter(filter_text),
            "alias": alias,
            "aggregates": [_aggregate(text) for text in of] if of else None,
            "group_by": by or [],
            "top": top,
            **version.members,
            "time_zone": opened.time_zone(time_zone),
        }
    )
    service, settings, request = opened.service, opened.settings, body.to_request()
    resolved, zone = service.resolve(opened.table(table), request.selector), service.zone(request.time_zone)
    answer = service.ask(resolved, lambda version: aggregate(version, request, settings.limits, zone))
    if as_json:
        print_json(answer)
    else:
        _print(answer)


def _aggregate(text: str) -> dict[str, object]:
    function, colon, column = text.partition(":")
    if bool(colon) != bool(column):
        raise RequestError(f"--of takes FUNCTION:COLUMN, such as sum:amount, or count, not {text!r}")
    return {"function": function, "column": column or None}


def _print(found: AggregateAnswer) -> None:
    keys = list(found.groups[0].key) if found.groups else []
    values = found.groups[0].values if found.groups else ()
    names = [each.function if each.column is None else f"{each.function} of {each.column}" for each in values]
    print_table(
        (*keys, *names),
        ([*group.key.values(), *map(_shown, group.values)] for group in found.groups),
    )
    if found.groups_total > len(found.groups):
        print_line(f"and {found.groups_total - len(found.groups)} more groups")
    if not found.exact:
        print_line(
            f"{len(found.open_files)} of {found.files_total} files leave the answer open, "
            f"{found.open_bytes:,} bytes: read these to have it exact"
        )
    for warning in found.warnings:
        print_line(f"warning: {warning}")


def _shown(value: AggregateValue) -> object:
    if value.exact:
        return plain(value.value)
    low, high = ("?" if each is None else plain(each) for each in (value.lower, value.upper))
    return f"{low} to {high}"
