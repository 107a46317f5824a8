"""Questions about a table, answered without a server. ``count`` uses indexes and statistics alone."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import typer

from app.aggregates import AggregateRequest, Function, aggregate
from app.api.answers import (
    SelectionEncoding,
    Window,
    encode_deletions,
    encode_lookup,
    encode_plan,
    encode_schemas,
)
from app.cli.asking import VERSION, Invocation, asks
from app.cli.output import (
    ExplainedFile,
    InWords,
    print_explanation,
    print_line,
    print_members,
    print_records,
    print_warnings,
)
from app.errors import RequestError
from app.planning import missing_file_means_expired
from app.planning.request import DeletionsRequest, LookupRequest, PlanRequest, VersionedRequest

# The command line prints every answer as one page.
_EVERYTHING = Window(0, sys.maxsize, sys.maxsize)
_PLAN_MEMBERS = ("filter", "files", "limit", "selection", "explain", "uris")


def _last_page(_next_offset: int | None) -> None:
    return None


@asks(PlanRequest, *_PLAN_MEMBERS, *VERSION, flags={"files": "--file"}, selection="ranges")
def plan(
    invocation: Invocation[PlanRequest],
    *,
    order_by: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN[:asc|desc[:first|last]]", help="Sort key for --top; repeatable."),
    ] = None,
    top: Annotated[
        int | None, typer.Option(help="Return the first N rows in the order of --order-by.")
    ] = None,
    lists_files: Annotated[
        bool, typer.Option("--files", help="With --explain, list every file below, skipped ones too.")
    ] = False,
) -> object:
    """Show which files of a table a query reads, and which of their rows."""
    if (top is None) != (not order_by):
        raise RequestError("--top and --order-by go together")
    keys = [
        dict(zip(("column", "direction", "nulls"), key.split(":"), strict=False)) for key in order_by or ()
    ]
    request = invocation.read(top_n=None if top is None else {"order_by": keys, "limit": top})
    answer = invocation.opened.service.plan(invocation.table, request)
    form = SelectionEncoding(request.selection)
    page = encode_plan(answer, _EVERYTHING, form, _last_page, explain=request.explain)
    return InWords(page, partial(_print_plan, lists_files=lists_files or not request.explain))


def _print_plan(plan: dict[str, Any], *, lists_files: bool) -> None:
    summary = plan["summary"]
    print_line(
        f"snapshot {plan['snapshot_id']}: {summary['files_kept']} of {summary['files_total']} files, "
        f"{summary['rows_selected']} of {summary['rows_total']} rows"
    )
    files = (*plan["files"], *plan.get("skipped_files", ()))
    if "skipped_files" in plan:
        print_explanation(
            ExplainedFile(
                file["file_name"],
                f"{'kept,' if 'selection' in file else 'skipped by'} {file['decision_reason']}",
                file["explain"],
            )
            for file in files
        )
        print_line("")
    if lists_files:
        print_records([_shown_file(file) for file in files])
    print_warnings(plan["warnings"])
    print_members({"not in the snapshot": plan["unknown_files"]})


def _shown_file(file: Mapping[str, Any]) -> dict[str, Any]:
    # An absolute path includes the file's name.
    name = file["path"] if "://" in file["path"] else file["file_name"]
    members = ("partition", "bucket", "first_row_id", "row_count", "selected_rows", "decision_reason")
    shown = {"selected_rows": 0, **file}
    return {"file": name, **{each: shown[each] for each in members}, "selection": file.get("selection")}


@asks(
    DeletionsRequest,
    *("partition", "files", "encoding", *VERSION),
    flags={"files": "--file"},
    encoding="ranges",
)
def deletions(invocation: Invocation[DeletionsRequest]) -> object:
    """Show which rows of which files are deleted."""
    request = invocation.read()
    answer = invocation.opened.service.deletions(invocation.table, request)
    return encode_deletions(answer, _EVERYTHING, SelectionEncoding(request.encoding), _last_page)


@asks(
    LookupRequest,
    *("partition", "keys", "hashes", *VERSION),
    flags={"keys": "--key", "hashes": "--hash"},
)
def lookup(invocation: Invocation[LookupRequest]) -> object:
    """Show which buckets keys are in."""
    if bool(invocation.members["keys"]) == bool(invocation.members["hashes"]):
        raise RequestError("look up either --key or --hash, not both")
    request = invocation.read()
    answer = encode_lookup(invocation.opened.service.lookup(invocation.table, request))
    return InWords(answer, partial(_print_buckets, request.keys or request.hashes or ()))


def _print_buckets(keys: Sequence[object], answer: Mapping[str, Any]) -> None:
    named = [{"key": key, **bucket} for key, bucket in zip(keys, answer["buckets"], strict=True)]
    print_members({**answer, "buckets": named})


@asks(AggregateRequest, "filter", "group_by", "top", *VERSION, flags={"group_by": "--by"}, top=20)
def count(
    invocation: Invocation[AggregateRequest],
    *,
    of: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FUNCTION:COLUMN",
            help="count; or count, min, max or sum of a column, as sum:amount; repeatable. "
            "Default: the number of rows.",
        ),
    ] = None,
) -> object:
    """Count rows, or compute other aggregates, from indexes and statistics alone."""
    request = invocation.read(aggregates=[_aggregate(text) for text in of] if of else None)
    service = invocation.opened.service
    version = service.resolve(invocation.table, request.selector)
    with missing_file_means_expired(version):
        answer = aggregate(version, request, invocation.opened.settings.limits)
    return InWords(answer, _print_aggregates)


def _aggregate(text: str) -> dict[str, object]:
    function, colon, column = text.partition(":")
    if not colon and function not in [*Function]:
        raise RequestError(f"--of takes FUNCTION:COLUMN, or count: write sum:{text}, say, not {text!r}")
    if bool(colon) != bool(column):
        raise RequestError(f"--of takes FUNCTION:COLUMN, such as sum:amount, or count, not {text!r}")
    return {"function": function, "column": column or None}


def _print_aggregates(answer: dict[str, Any]) -> None:
    groups = answer["groups"]
    print_records([group["key"] | dict(map(_shown, group["values"])) for group in groups])
    if answer["groups_total"] > len(groups):
        print_line(f"and {answer['groups_total'] - len(groups)} more groups")
    if not answer["exact"]:
        print_line(
            f"{len(answer['open_files'])} of {answer['files_total']} files leave the answer open, "
            f"{answer['open_bytes']:,} bytes: read these for an exact answer"
        )
    print_warnings(answer["warnings"])


def _shown(value: dict[str, Any]) -> tuple[str, object]:
    name = value["function"] if value["column"] is None else f"{value['function']} of {value['column']}"
    low, high = ("?" if bound is None else bound for bound in (value["lower"], value["upper"]))
    return name, value["value"] if value["exact"] else f"{low} to {high}"


@asks(VersionedRequest, *VERSION)
def describe(invocation: Invocation[VersionedRequest]) -> object:
    """Describe a table: its schema, keys, options and indexes."""
    from app.iceberg import reason_against  # noqa: PLC0415 - no other command needs it

    return invocation.opened.service.tables.describe(
        invocation.table, invocation.read().selector, reason_against
    )


@asks(VersionedRequest, "branch")
def schemas(
    invocation: Invocation[VersionedRequest],
    *,
    schema_id: Annotated[
        int | None, typer.Option("--schema-id", min=0, help="Show only the schema of this number.")
    ] = None,
) -> object:
    """List the schemas of a table, or show one, with the full types of its columns."""
    service, request = invocation.opened.service, invocation.read()
    if schema_id is not None:
        return service.tables.schema(invocation.table, schema_id, request.branch)
    version = service.resolve(invocation.table, request.selector)
    return encode_schemas(service.tables.schemas(version), _EVERYTHING, _last_page)
