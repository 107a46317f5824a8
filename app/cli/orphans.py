"""``orphans``: files that nothing refers to."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

import typer

from app.cli.options import DURATION_UNITS, Opened, TableArgument, WarehouseOption, parse_duration
from app.cli.output import print_json, print_line, print_table
from app.planning.request.requests import SnapshotSelector
from app.storage import Maintenance
from app.table import OrphanSearch


def orphans(
    table: TableArgument,
    *,
    warehouse: WarehouseOption = None,
    older_than: Annotated[
        str,
        typer.Option(
            help="Minimum age of a file: 1d, 12h, 90m, 30s. Use more than the longest commit takes."
        ),
    ] = "1d",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List files of a table that no snapshot, tag or branch refers to."""
    age = parse_duration("--older-than", older_than)
    opened = Opened.warehouse_of(warehouse)
    ref = opened.table(table)
    found_in = opened.service.warehouses[ref.warehouse]
    search = OrphanSearch(
        opened.service.resolve(ref, SnapshotSelector(max_staleness_ms=0)).table,
        Maintenance(found_in),
        found_in.readers,
    )
    now = dt.datetime.now(dt.UTC)
    orphans = search.find(age, now)
    size = sum(orphan.file.size for orphan in orphans.found)
    if as_json:
        print_json(
            {
                "table": table,
                "older_than_seconds": _seconds(age),
                "orphans": [
                    {
                        "path": orphan.file.path,
                        "kind": orphan.kind.value,
                        "bytes": orphan.file.size,
                        "age_seconds": _seconds(now - orphan.file.modified),
                    }
                    for orphan in orphans.found
                ],
                "orphan_bytes": size,
                "younger_files": orphans.younger,
            }
        )
        return
    if orphans.found:
        print_table(
            ("path", "kind", "bytes", "age"),
            (
                (orphan.file.path, orphan.kind.value, orphan.file.size, _rounded(now - orphan.file.modified))
                for orphan in orphans.found
            ),
        )
    print_line(f"{len(orphans.found)} files older than {_rounded(age)} that nothing refers to, {size} bytes")
    if orphans.younger:
        print_line(f"{orphans.younger} younger files: a commit under way may be about to name them")
    if orphans.found:
        print_line(
            f"in Spark, CALL sys.remove_orphan_files(table => '{table}') removes what is older than a day"
        )


def _seconds(age: dt.timedelta) -> int:
    return int(age.total_seconds())


def _rounded(age: dt.timedelta) -> str:
    seconds = _seconds(age)
    unit = next((unit for unit, length in DURATION_UNITS.items() if seconds >= length), "s")
    return f"{seconds // DURATION_UNITS[unit]}{unit}"
