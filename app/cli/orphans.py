"""``orphans``: files that nothing refers to; removes index files and index manifests of these."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from app.cli.options import DURATION_UNITS, Opened, TableArgument, WarehouseOption, parse_duration
from app.cli.output import print_json, print_line, print_table
from app.planning.request.requests import SnapshotSelector
from app.storage import Maintenance
from app.table import Orphan, OrphanFiles, Orphans, OtherOrphanFiles, Removal


def orphans(
    table: TableArgument,
    *,
    warehouse: WarehouseOption = None,
    delete: Annotated[
        bool,
        typer.Option(
            "--delete",
            help="Delete index files and index manifests. Without this option all are only listed.",
        ),
    ] = False,
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
    of_table = (
        opened.service.resolve(ref, SnapshotSelector(max_staleness_ms=0)).table,
        Maintenance(found_in),
        found_in.readers,
    )
    files = OrphanFiles(*of_table)
    now = dt.datetime.now(dt.UTC)
    found = files.find(age, now)
    others = OtherOrphanFiles(*of_table).find(age, now)
    removal = files.remove(found) if delete else None
    if as_json:
        print_json(_document(table, found, others, removal, now))
    else:
        _print(table, found, others, removal, now)
    if removal and removal.failures:
        for _, error in removal.failures:
            typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1)


def _document(
    table: str, found: Orphans, others: Orphans, removal: Removal | None, now: dt.datetime
) -> dict[str, Any]:
    return {
        "table": table,
        "older_than_seconds": _seconds(found.older_than),
        "dry_run": removal is None,
        "orphans": [
            {
                "path": orphan.file.path,
                "kind": orphan.kind.value,
                "bytes": orphan.file.size,
                "age_seconds": _seconds(now - orphan.file.modified),
                "outcome": outcome,
            }
            for orphan, outcome in _outcomes(found, others, removal)
        ],
        "orphan_bytes": _bytes(found.found) + _bytes(others.found),
        "removed_files": len(removal.removed) if removal else 0,
        "removed_bytes": _bytes(removal.removed) if removal else 0,
        "younger_files": found.younger + others.younger,
    }


def _print(table: str, found: Orphans, others: Orphans, removal: Removal | None, now: dt.datetime) -> None:
    count, younger = len(found.found) + len(others.found), found.younger + others.younger
    if count:
        print_table(
            ("path", "kind", "bytes", "age", "outcome"),
            (
                (
                    orphan.file.path,
                    orphan.kind.value,
                    orphan.file.size,
                    _rounded(now - orphan.file.modified),
                    outcome,
                )
                for orphan, outcome in _outcomes(found, others, removal)
            ),
        )
    age = _rounded(found.older_than)
    print_line(
        f"{count} files older than {age} that nothing refers to, "
        f"{_bytes(found.found) + _bytes(others.found)} bytes"
    )
    if younger:
        print_line(f"{younger} younger files stay: a commit under way may be about to name them")
    if removal:
        print_line(f"removed {len(removal.removed)} files, {_bytes(removal.removed)} bytes")
    elif found.found:
        print_line(
            f"nothing was removed: run it again with --delete to remove the {len(found.found)} listed ones"
        )
    if others.found:
        print_line(
            f"{len(others.found)} files are left to the engine: in Spark, CALL sys.remove_orphan_files("
            f"table => '{table}') removes what is older than a day"
        )


def _outcomes(found: Orphans, others: Orphans, removal: Removal | None) -> Iterator[tuple[Orphan, str]]:
    """What became of each orphan."""
    yield from ((orphan, "left to the engine") for orphan in others.found)
    if removal is None:
        yield from ((orphan, "listed") for orphan in found.found)
        return
    removed, failed = set(removal.removed), {orphan for orphan, _ in removal.failures}
    for orphan in found.found:
        yield orphan, "removed" if orphan in removed else "failed" if orphan in failed else "in use"


def _bytes(orphans: Iterable[Orphan]) -> int:
    return sum(orphan.file.size for orphan in orphans)


def _seconds(age: dt.timedelta) -> int:
    return int(age.total_seconds())


def _rounded(age: dt.timedelta) -> str:
    """An age in the largest unit of which it has one, as ``--older-than`` takes it."""
    seconds = _seconds(age)
    unit = next((unit for unit, length in DURATION_UNITS.items() if seconds >= length), "s")
    return f"{seconds // DURATION_UNITS[unit]}{unit}"
