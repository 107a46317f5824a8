"""Questions about a table, answered without a server; ``count`` also without data."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from app.aggregates.aggregation import aggregate
from app.aggregates.answers import AggregateAnswer, AggregateRequest, AggregateValue, Function
from app.api.answers.encoding import encode_deletions, encode_lookup, encode_plan, encode_schemas
from app.api.answers.paging import Window
from app.api.answers.selections import SelectionEncoding
from app.api.questions.queries import SchemasQuery, VersionQuery
from app.cli.options import (
    AliasOption,
    BranchOption,
    FilesOption,
    FilterOption,
    JsonOption,
    Opened,
    PartitionOption,
    TableArgument,
    TimeZoneOption,
    VersionOptions,
    WarehouseOption,
    grouped,
    parse_filter,
    parse_object,
    parse_partition,
)
from app.cli.output import (
    ExplainedFile,
    plain,
    print_answer,
    print_explanation,
    print_json,
    print_line,
    print_records,
    print_table,
    print_warnings,
)
from app.errors import RequestError
from app.iceberg.refusals import reason_against
from app.planning.request.requests import DeletionsRequest, LookupRequest, PlanRequest
from app.planning.version.version import missing_file_means_expired

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
    explain: Annotated[
        bool, typer.Option("--explain", help="Show which step decided, once for files that are alike.")
    ] = False,
    lists_files: Annotated[
        bool, typer.Option("--files", help="With --explain, list every file below, skipped ones too.")
    ] = False,
    uris: Annotated[bool, typer.Option("--uris", help="Print absolute URIs instead of paths.")] = False,
    version: VersionOptions,
    time_zone: TimeZoneOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tell which files of a table a query reads, and which of their rows."""
    opened = version.open()
    if (top is None) != (not order_by):
        raise RequestError("--top and --order-by go together")
    request = PlanRequest.read(
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
    answer = opened.service.plan(opened.table(table), request)
    form = SelectionEncoding(request.selection)
    encoded = encode_plan(answer, _EVERYTHING, form, _last_page, explain=explain)
    print_answer(
        encoded,
        lambda plan: _print_plan(plain(plan), uris=uris, lists_files=lists_files or not explain),
        as_json=as_json,
    )


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
    request = DeletionsRequest.read(
        {
            "partition": None if partition is None else parse_partition(partition),
            "files": files,
            "encoding": encoding,
            **version.members,
            "time_zone": opened.time_zone(time_zone),
        }
    )
    answer = opened.service.deletions(opened.table(table), request)
    form = SelectionEncoding(request.encoding)
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
    if bool(keys) == bool(hashes):
        raise RequestError("name what to look up by --key or by --hash, and not by both")
    opened = version.open()
    request = LookupRequest.read(
        {
            "partition": None if partition is None else parse_partition(partition),
            "keys": [parse_object("--key", key, _KEY) for key in keys] if keys else None,
            "hashes": hashes or None,
            **version.members,
            "time_zone": opened.time_zone(time_zone),
        }
    )
    encoded = encode_lookup(opened.service.lookup(opened.table(table), request))
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


def _print_plan(plan: dict[str, Any], *, uris: bool, lists_files: bool) -> None:
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
        _print_files(files, uris=uris)
    print_warnings(plan["warnings"])
    _print_unknown(plan)


def _print_files(files: Sequence[dict[str, Any]], *, uris: bool) -> None:
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


def _print_unknown(answer: dict[str, Any]) -> None:
    for name in answer["unknown_files"]:
        print_line(f"not in the snapshot: {name}")


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
    request = AggregateRequest.read(
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
    service, settings = opened.service, opened.settings
    resolved, zone = service.resolve(opened.table(table), request.selector), service.zone(request.time_zone)
    with missing_file_means_expired(resolved):
        answer = aggregate(resolved, request, settings.limits, zone)
    print_answer(answer, _print_aggregates, as_json=as_json)


def _aggregate(text: str) -> dict[str, object]:
    function, colon, column = text.partition(":")
    if not colon and function not in [*Function]:
        raise RequestError(f"--of takes FUNCTION:COLUMN, or count: write sum:{text}, say, not {text!r}")
    if bool(colon) != bool(column):
        raise RequestError(f"--of takes FUNCTION:COLUMN, such as sum:amount, or count, not {text!r}")
    return {"function": function, "column": column or None}


def _print_aggregates(answer: AggregateAnswer) -> None:
    keys = list(answer.groups[0].key) if answer.groups else []
    values = answer.groups[0].values if answer.groups else ()
    names = [
        value.function if value.column is None else f"{value.function} of {value.column}" for value in values
    ]
    print_table(
        (*keys, *names),
        ([*group.key.values(), *map(_shown, group.values)] for group in answer.groups),
    )
    if answer.groups_total > len(answer.groups):
        print_line(f"and {answer.groups_total - len(answer.groups)} more groups")
    if not answer.exact:
        print_line(
            f"{len(answer.open_files)} of {answer.files_total} files leave the answer open, "
            f"{answer.open_bytes:,} bytes: read these to have it exact"
        )
    print_warnings(answer.warnings)


def _shown(value: AggregateValue) -> object:
    if value.exact:
        return plain(value.value)
    low, high = ("?" if bound is None else plain(bound) for bound in (value.lower, value.upper))
    return f"{low} to {high}"


@grouped
def describe(
    table: TableArgument,
    *,
    version: VersionOptions,
    as_json: JsonOption = False,
) -> None:
    """Describe a table: its schema, keys, options and indexes."""
    opened = version.open()
    selector = VersionQuery.read(version.members).selector
    answer = opened.service.describe(opened.table(table), selector, reason_against)
    if as_json:
        print_json(answer)
        return
    description = plain(answer)
    snapshot = description["snapshot"]
    described = "no snapshot" if snapshot is None else f"snapshot {snapshot['id']}"
    print_line(
        f"{description['database']}.{description['table']}, {described}, schema {description['schema_id']}"
    )
    _print_columns(description)
    keys = {"partition keys": description["partition_keys"], "primary keys": description["primary_keys"]}
    for name, columns in keys.items():
        if columns:
            print_line(f"{name}: {', '.join(columns)}")
    print_line(f"bucket mode: {description['bucket_mode']}")
    for index in description["indexes"]:
        print_line(f"index: {index['type']} on {index['column']}")
    print_line(f"Iceberg: {description['iceberg_refusal'] or 'its clients can read the table'}")


def schemas(
    table: TableArgument,
    *,
    warehouse: WarehouseOption = None,
    schema_id: Annotated[
        int | None, typer.Option("--schema-id", min=0, help="Show only the schema of this number.")
    ] = None,
    branch: BranchOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the schemas of a table, or show one, with the full types of its columns."""
    opened = Opened.warehouse_of(warehouse)
    ref = opened.table(table)
    if schema_id is not None:
        one = opened.service.schema(ref, schema_id, branch)
        print_answer(one, lambda schema: _print_schemas([plain(schema)]), as_json=as_json)
        return
    version = opened.service.resolve(ref, SchemasQuery.read({"branch": branch}).selector)
    answer = encode_schemas(opened.service.schemas(version), _EVERYTHING, _last_page)
    print_answer(answer, lambda page: _print_schemas(plain(page)["schemas"]), as_json=as_json)


def _print_schemas(schemas: Sequence[dict[str, Any]]) -> None:
    for schema in schemas:
        print_line(f"schema {schema['id']}")
        _print_columns(schema)


def _print_columns(schema: dict[str, Any]) -> None:
    print_records({name: name for name in ("id", "name", "type", "description")}, schema["fields"])
