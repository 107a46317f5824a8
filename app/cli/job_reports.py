"""What jobs did, in words for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.cli.output import print_line, print_table, print_warnings
from app.jobs import AuditReport, DeleteReport, IndexReport, PlanReport, UpsertReport


def print_indexes(report: IndexReport) -> None:
    """What building or dropping indexes did."""
    if report.snapshot_id is None:
        print_line(f"nothing to commit: {report.unchanged} files have what is wanted")
    else:
        print_line(f"snapshot {report.snapshot_id}")
    if report.built:
        print_line(
            f"wrote the indexes of {report.built} files with {report.row_count:,} rows: "
            f"{report.index_bytes:,} bytes, {report.embedded} of them in manifests"
        )
    if report.dropped:
        print_line(f"took the indexes off {report.dropped} files")
    if report.skipped:
        print_line(f"{report.skipped} files have none of the indexed columns")
    if report.overtaken:
        print_line(f"{report.overtaken} files were removed by other commits meanwhile")
    for name, value in (report.options or {}).items():
        print_line(f"{name}={value}")
    if report.indexes:
        print_table(
            ("index", "column", "files built", "kept", "taken off"),
            [
                (index.kind, index.column, f"{index.built:,}", f"{index.kept:,}", f"{index.taken_off:,}")
                for index in report.indexes
            ],
        )
    for index in report.indexes:
        if index.kept and not index.declared:
            print_line(
                f"no option names the {index.kind} of {index.column!r}: {index.kept:,} files keep it, and "
                f"new ones will not have it; --take-off {index.column}={index.kind} takes it off"
            )


def print_upsert(report: UpsertReport) -> None:
    """What writing rows did."""
    what = "there were no rows" if report.snapshot_id is None else f"snapshot {report.snapshot_id}"
    keys = "" if report.keys_added is None else f" ({report.keys_added:,} new keys)"
    print_line(
        f"{what}: rows written {report.rows_written:,} of {report.rows_read:,}{keys}; "
        f"files {report.files:,}, bytes {report.data_bytes:,}, buckets {report.buckets:,} "
        f"({report.buckets_added:,} new)"
    )
    if report.waits_for_compaction and report.snapshot_id is not None:
        print_line("batch reads see them once the table is compacted")


def print_deletion(report: DeleteReport) -> None:
    """What deleting rows did."""
    what = "nothing was deleted" if report.snapshot_id is None else f"snapshot {report.snapshot_id}"
    print_line(
        f"{what}: rows deleted {report.rows_deleted:,}; files changed {report.files_changed:,}, "
        f"read {report.files_read:,} of {report.files_total:,}"
    )


def print_plan(report: PlanReport) -> None:
    """How many files are left, and what left out how many."""
    print_line(
        f"snapshot {report.snapshot_id}: {report.files.num_rows:,} of {report.files_total:,} files in "
        f"{report.manifests:,} manifests, {report.rows_selected:,} of {report.rows_total:,} rows"
    )
    for step, count in report.skipped_by.items():
        print_line(f"{step}: {count:,} files left out")
    print_warnings(report.warnings)


def print_audit(report: AuditReport) -> None:
    """What was looked up of each column and kind, and whether it was right."""

    def rate(rates: Sequence[float]) -> str | None:
        return f"{sum(rates) / len(rates):.2%}" if rates else None

    rows: list[Sequence[Any]] = [
        (
            column.column,
            column.kind,
            f"{column.files:,}",
            f"{column.size_bytes:,}",
            f"{column.checked:,}",
            "right" if not column.wrong else f"{column.wrong} wrong, {column.lost} hide rows",
            rate(column.false_positive_rates),
            rate(column.expected_rates),
        )
        for column in report.columns
    ]
    print_table(
        ("column", "index", "files", "bytes", "values checked", "result", "false positives", "expected"), rows
    )
    print_line(
        f"snapshot {report.snapshot_id}: {report.indexed} of {report.files} files have an index, "
        f"{report.row_count:,} rows"
    )
