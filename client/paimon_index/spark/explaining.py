"""``explain``: the files that each step of a plan leaves, and the readers of the rest."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import pyarrow.compute as pc

from paimon_index.client import Client
from paimon_index.errors import UnsupportedTableError
from paimon_index.spark.conditions import check_where
from paimon_index.spark.frames import Frames
from paimon_index.spark.key_lists import KeyLists
from paimon_index.spark.questions import PythonShare, ask_where, pinned
from paimon_index.spark.refusals import READERS, check_session, check_word
from paimon_index.spark.store_access import StoreAccess

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from paimon_index.options import VersionOptions
    from paimon_index.spark.conditions import Where
    from paimon_index.spark.key_lists import Keys

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP: Final = 1024


@dataclass(slots=True)
class _Amount:
    files: int = 0
    size: int = 0
    rows: int = 0

    def less(self, other: _Amount) -> _Amount:
        return _Amount(self.files - other.files, self.size - other.size, self.rows - other.rows)

    def __str__(self) -> str:
        return f"{self.files:>10,} {_bytes(self.size):>12} {self.rows:>16,}"


def explain(  # noqa: PLR0913 - those of read_table
    spark: SparkSession,
    url: str | Sequence[str],
    table: str,
    *,
    where: Where | None = None,
    in_lists: Mapping[str, Keys] | None = None,
    snapshot_id: int | None = None,
    tag: str | None = None,
    branch: str | None = None,
    token: str | None = None,
    reader: Literal["auto", "rows"] = "auto",
    deadline_seconds: float = 30.0,
) -> None:
    """Print the files that ``read_table`` would read, step by step, and their readers."""
    check_session(spark)
    check_where(where)
    check_word("reader", reader, READERS)
    version: VersionOptions = {"snapshot_id": snapshot_id, "tag": tag, "branch": branch}
    access = StoreAccess(spark)
    with Client(url, token=token, deadline_seconds=deadline_seconds) as client:
        keys = KeyLists(in_lists or {}).to_send(client)
        condition, scan = ask_where(
            spark,
            client,
            table,
            where,
            in_lists=keys,
            version=version,
            reader=reader,
            python_share=PythonShare.of(spark, access),
        )
        decisions = client.plan(
            table,
            filter=condition.predicate,
            in_lists=keys,
            **pinned(version, scan.facts),
            selection="none" if scan.are_deleted else "count",
            explain=True,
        ).to_arrow()
    listed = f", with keys of {', '.join(in_lists)}" if in_lists else ""
    lines = [
        f"{table}, snapshot {scan.facts.snapshot_id}: {'all rows' if where is None else where}{listed}",
        *_funnel(decisions),
    ]
    by_partition = scan.facts.summary.files_skipped - _sum(decisions, "skipped")
    if by_partition:
        lines.append(f"{by_partition:,} more files are in manifests that the partitions rule out")
    try:
        readers = Counter[str]()
        for chosen, _, file_format, is_plain, files in Frames(
            spark, scan, {field.name for field in scan.schema.fields}, access
        ).groups():
            way = "Spark's vectorised reader" if chosen == "vectorised" else "positions, in Python"
            readers[f"{file_format} by {way}{'' if is_plain else ', then merged by key'}"] += files.num_rows
        lines += [f"files read as {way}: {count:,}" for way, count in sorted(readers.items())]
    except UnsupportedTableError as error:
        lines.append(str(error))
    lines += [f"warning: {warning}" for warning in scan.facts.warnings]
    print("\n".join(lines))  # noqa: T201 - as DataFrame.explain does


def _funnel(decisions: pa.Table) -> list[str]:
    """Return lines for the steps that skipped files, in order, with the files that each left."""
    remaining = _Amount(decisions.num_rows, _sum(decisions, "file_size"), _sum(decisions, "row_count"))
    lines = [f"{'':<18}{'files':>10} {'bytes':>12} {'rows':>16}", f"{'considered':<18}{remaining}"]
    skipped = decisions.filter(decisions.column("skipped"))
    by_step = skipped.group_by("decision_reason", use_threads=False).aggregate(
        [("file_name", "count"), ("file_size", "sum"), ("row_count", "sum")]
    )
    amounts = {
        row["decision_reason"]: _Amount(row["file_name_count"], row["file_size_sum"], row["row_count_sum"])
        for row in by_step.to_pylist()
    }
    for step in _STEPS:
        if step in amounts:
            remaining = remaining.less(amounts[step])
            lines.append(f"{step:<18}{remaining}")
    kept = decisions.filter(pc.invert(decisions.column("skipped")))
    remaining.rows = _sum(kept, "selected_rows")
    return [*lines, f"{'rows selected':<18}{remaining}"]


_STEPS: Final = (
    *("partition", "bucket", "key_statistics", "statistics"),
    *("global_index", "file_index", "deletion_vector", "top_n", "limit"),
)


def _sum(table: pa.Table, column: str) -> int:
    return pc.sum(table.column(column)).as_py() or 0


def _bytes(count: float) -> str:
    unit = 0
    while count >= _STEP and unit < len(_UNITS) - 1:
        count, unit = count / _STEP, unit + 1
    return f"{count:,.0f} B" if unit == 0 else f"{count:,.1f} {_UNITS[unit]}"
