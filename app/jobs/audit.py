"""``audit``: verifies the file indexes of a table against its rows, and measures how well they work.

Tasks read the indexed columns of a data file and its index, and look values up in it as ``paimon-index
verify`` does. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.building import Advance, CheckedEntry, ignore_progress
from app.jobs.build_index import chosen_entries, has_index, indexed_file
from app.jobs.index_tasks import AuditTask, audit_file
from app.jobs.job_table import JobTable
from app.jobs.tasks import run_tasks
from app.types import Json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(slots=True)
class AuditedColumn:
    """Findings about the indexes of one kind on one column, summed over all files.

    Attributes:
        column: name of the column in the files, or ``column[key]``.
        distinct: sum of the distinct values of each file.
        lost: files whose index hides a row.
        false_positive_rates: measured rates of bloom filters, one for each file that allows it.
        expected_rates: rates of these bloom filters, computed from their sizes.
    """

    column: str
    kind: str
    files: int = 0
    size_bytes: int = 0
    distinct: int = 0
    checked: int = 0
    wrong: int = 0
    lost: int = 0
    false_positive_rates: list[float] = field(default_factory=list)
    expected_rates: list[float] = field(default_factory=list)

    def add(self, entry: CheckedEntry) -> None:
        """Add the index of one file."""
        self.files += 1
        self.size_bytes += entry.size_bytes
        self.distinct += entry.distinct or 0
        self.checked += entry.checked
        self.wrong += entry.problem is not None
        self.lost += entry.problem is not None and entry.problem.lost
        if entry.bloom is not None and entry.bloom.false_positive_rate is not None:
            self.false_positive_rates.append(entry.bloom.false_positive_rate)
            self.expected_rates.append(entry.bloom.expected_rate)


@dataclass(frozen=True, slots=True)
class AuditProblem:
    """An index that must not be used. ``column`` is None if no index of the file can be read."""

    path: str
    column: str | None
    kind: str | None
    detail: str
    lost: bool


@dataclass(frozen=True, slots=True)
class AuditReport:
    """Result of an audit."""

    snapshot_id: int | None
    files: int
    indexed: int
    row_count: int
    columns: tuple[AuditedColumn, ...]
    problems: tuple[AuditProblem, ...]

    @property
    def passed(self) -> bool:
        """True if no index is wrong."""
        return not self.problems


def audit(
    spark: SparkSession,
    table: JobTable,
    *,
    partitions: Sequence[Mapping[str, Json]] | None = None,
    sample: int | None = None,
    advance: Advance = ignore_progress,
) -> AuditReport:
    """Verify the file indexes of some or all partitions, each index with at most ``sample`` values."""
    version = table.latest()
    entries = list(chosen_entries(version, partitions))
    files = {
        number: indexed_file(version, number, entry)
        for number, entry in enumerate(entries)
        if has_index(entry)
    }
    tasks = [AuditTask(table.place, file, sample) for file in files.values()]
    # The longest tasks go first, so that none runs alone at the end.
    tasks.sort(key=lambda task: -task.file.row_count)
    columns: dict[tuple[str, str], AuditedColumn] = {}
    problems = []
    size = sum(entries[number].file.file_size for number in files)
    for audited in run_tasks(spark, f"audit {table.name}", audit_file, tasks, advance, size_bytes=size):
        path = files[audited.number].path
        if audited.verification is None:
            problems.append(AuditProblem(path, None, None, audited.problem or "", lost=False))
            continue
        for entry in audited.verification.entries:
            key = (entry.column, entry.kind)
            columns.setdefault(key, AuditedColumn(*key)).add(entry)
            if entry.problem is not None:
                problem = entry.problem
                problems.append(AuditProblem(path, *key, problem.detail, lost=problem.lost))
    return AuditReport(
        version.snapshot_id,
        len(entries),
        len(files),
        sum(file.row_count for file in files.values()),
        tuple(columns[key] for key in sorted(columns)),
        tuple(sorted(problems, key=lambda problem: problem.path)),
    )
