"""``plan``, ``deletions`` and ``lookup``: questions about a table, answered without a server."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from app.api.bodies import DeletionsBody, LookupBody
from app.api.encoding import encode_deletions, encode_lookup, encode_plan
from app.api.paging import Window
from app.api.plan_bodies import PlanBody
from app.api.selections import SelectionEncoding
from app.cli.explanation import ExplainedFile, print_explanation
from app.cli.options import (
    AliasOption,
    FilesOption,
    FilterOption,
    JsonOption,
    PartitionOption,
    TableArgument,
    TimeZoneOption,
    VersionOptions,
    grouped,
    parse_filter,
    parse_object,
    parse_partition,
)
from app.cli.output import plain, print_json, print_line, print_records, print_table, print_warnings
from app.errors import RequestError
from app.planning.request.requests import SelectionForm

_KEY = '{"id": 5}'
_EVERYTHING = Window(0, sys.maxsize, sys.maxsize)


def _last_page(_next_offset: int | None) -> None:
    return None


@grouped
def plan(  # noqa: PLR0913 - one parameter per option
    table: TableArgument,
    *,
    filter_text: FilterOption = None,
    alias: AliasOption = None,
    files: FilesOption = None,
    order_by: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN[:asc|desc[:first|last]]", help="Sort key for --top; repeatable."),
    ] = None,
    top: Annotated[
        int | None, typer.Option(help="Return the first N rows in the order of --order-by.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="Stop after this many matching rows, in any order.")
    ] = None,
    selection: Annotated[
        str, typer.Option(help="Output format for row positions: none, count, bitmap, ranges or positions.")
    ] = "ranges",
    explain: Annotated[bool, typer.Option("--explain", help="Show which step decided each file.")] = False,
    uris: Annotated[bool, typer.Option("--uris", help="Print absolute URIs instead of paths.")] = False,
    version: VersionOptions,
    time_zone: TimeZoneOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tell which files of a table a query reads, and which of their rows."""
    opened = version.open()
    if (top is None) != (not order_by):
        raise RequestError("--top and --order-by go together")
    body = PlanBody.read(
        {
            "filter": parse_filter(filter_text),
            "alias": alias,
            "files": files,
            "top_n": None
            if top is None
            else {"order_by": [_sort_key(key) for key in order_by or ()], "limit": top},
            "limit": limit,
            "selection": selection,
            "explain": explain,
            "uris": uris,
            **version.members,
            "time_zone": opened.time_zone(time_zone),
        }
    )
    request = body.to_request()
    answer = opened.service.plan(opened.table(table), request)
    form = SelectionEncoding(request.selection)
    encoded = encode_plan(answer, _EVERYTHING, form, _last_page, explain=explain)
    if as_json:
        print_json(encoded)
    else:
        _print_plan(plain(encoded), uris=uris)


@grouped
def deletions(
    table: TableArgument,
    *,
    partition: PartitionOption = None,
    files: FilesOption = None,
    encoding: Annotated[
        str, typer.Option(help="Output format for positions: positions, ranges, bitmap or count.")
    ] = "ranges",
    version: VersionOptions,
    time_zone: TimeZoneOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tell which rows of which files are deleted."""
    opened = version.open()
    body = DeletionsBody.read(
        {
            "partition": None if partition is None else parse_partition(partition),
            "files": files,
            "encoding": encoding,
            **version.members,
            "time_zone": opened.time_zone(time_zone),
        }
    )
    answer = opened.service.deletions(opened.table(table), body.to_request())
    form = SelectionEncoding(SelectionForm(encoding))
    encoded = encode_deletions(answer, _EVERYTHING, form, _last_page)
    if as_json:
        print_json(encoded)
        return
    answered = plain(encoded)
    columns = {"file": "file_name", "partition": "partition", "bucket": "bucket", "deleted": "cardinality"}
    print_records({**columns, encoding: encoding}, answered["deletions"])
    _print_unknown(answered)


@grouped
def lookup(
    table: TableArgument,
    *,
    partition: PartitionOption = None,
    keys: Annotated[
        list[str] | None, typer.Option("--key", help="A JSON object over the primary key; repeatable.")
    ] = None,
    hashes: Annotated[
        list[int] | None, typer.Option("--hash", help="A key's hash, in place of the key; repeatable.")
    ] = None,
    version: VersionOptions,
    time_zone: TimeZoneOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tell which buckets keys live in."""
    opened = version.open()
    body = LookupBody.read(
        {
            "partition": None if partition is None else parse_partition(partition),
            "keys": [parse_object("--key", key, _KEY) for key in keys] if keys else None,
            "hashes": hashes or None,
            **version.members,
            "time_zone": opened.time_zone(time_zone),
        }
    )
    encoded = encode_lookup(opened.service.lookup(opened.table(table), body.to_lookup()))
    if as_json:
        print_json(encoded)
        return
    answered = plain(encoded)
    print_line(f"bucket mode {answered['bucket_mode']}, snapshot {answered['snapshot_id']}")
    named = keys or hashes or ()
    print_table(
        ("key", "hash", "bucket", "otherwise padded"),
        (
            (key, entry["key_hash"], entry["bucket"], entry.get("other_buckets"))
            for key, entry in zip(named, answered["buckets"], strict=False)
        ),
    )
    if "detail" in answered:
        print_line(answered["detail"])


def _sort_key(text: str) -> dict[str, Any]:
    column, *rest = text.split(":")
    return {"column": column} | dict(zip(("direction", "nulls"), rest, strict=False))


def _print_plan(plan: dict[str, Any], *, uris: bool) -> None:
    summary = plan["summary"]
    print_line(
        f"snapshot {plan['snapshot_id']}: {summary['files_kept']} of {summary['files_total']} files, "
        f"{summary['rows_selected']} of {summary['rows_total']} rows"
    )
    files = (*plan["files"], *plan.get("skipped_files", ()))
    columns = {
        "file": "path" if uris else "file_name",
        "partition": "partition",
        "bucket": "bucket",
        "first row id": "first_row_id",
        "rows": "row_count",
        "selected": "selected_rows",
        "reason": "decision_reason",
        "selection": "selection",
    }
    if all(file["first_row_id"] is None for file in files):
        del columns["first row id"]
    print_records(columns, ({"selected_rows": 0, **file} for file in files))
    if "skipped_files" in plan:
        print_explanation(
            ExplainedFile(
                file["file_name"],
                f"{'kept,' if 'selection' in file else 'skipped by'} {file['decision_reason']}",
                file["explain"],
            )
            for file in files
        )
    print_warnings(plan["warnings"])
    _print_unknown(plan)


def _print_unknown(answer: dict[str, Any]) -> None:
    for name in answer["unknown_files"]:
        print_line(f"not in the snapshot: {name}")
