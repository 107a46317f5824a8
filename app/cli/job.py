"""``job``: Spark jobs over a table. See :mod:`app.jobs`.

``spark-submit`` runs the same commands with :mod:`app.cli.spark_submit.run_job`.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import pyarrow.parquet as pq
import typer

from app.cli.command import Command
from app.cli.data_files import progress
from app.cli.options import (
    FilterOption,
    JsonOption,
    TableArgument,
    WarehouseOptions,
    grouped,
    parse_filter,
    parse_pairs,
    parse_partition,
)
from app.cli.output import InWords, print_answer, print_members, printable
from app.errors import RequestError, SettingsError
from app.jobs import (
    JobTable,
    audit,
    build_index,
    check_deletable,
    delete,
    drop_index,
    plan,
    rows_from_files,
    upsert,
)
from app.opening import create_service
from app.planning.request import SnapshotSelector, TableRef

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

program = typer.Typer(
    help="Run a Spark job over a table: build-index, upsert, delete, audit, plan.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

PartitionsOption = Annotated[
    list[str] | None,
    typer.Option("--partition", help="Only this partition, a JSON object by partition column; repeatable."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions(WarehouseOptions):
    """Warehouse and Spark session of a job."""

    master: Annotated[
        str | None,
        typer.Option(
            help="Where Spark runs, such as local[4]. Default: from spark-submit or Spark's configuration."
        ),
    ] = None
    conf: Annotated[
        list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark; repeatable.")
    ] = None
    as_json: JsonOption = False

    def table(self, name: str) -> JobTable:
        """Open the table of ``DATABASE.TABLE``."""
        opened = self.open()
        opened.table(name)
        url = opened.settings.warehouses[opened.warehouse]
        return JobTable.open(url, name, allow_external=opened.settings.allow_external)

    def share(self, name: str, url: str, columns: Iterable[str]) -> None:
        """Fill a shared cache with the files that plans read when they filter on ``columns``."""
        opened, (database, _, table) = self.open(), name.partition(".")
        with closing(create_service(opened.settings.with_shared_cache(url))) as service:
            version = service.resolve(TableRef(opened.warehouse, database, table), SnapshotSelector())
            service.caches.share(version, sorted(columns))

    def report(self, report: object) -> None:
        """Print the report of a job."""
        print_answer(report, as_json=self.as_json)

    @contextmanager
    def spark(self) -> Iterator[SparkSession]:
        """Open a session for the block. Raises SettingsError if Spark is missing, or does not start."""
        try:
            from pyspark.sql import SparkSession  # noqa: PLC0415 - only jobs need Spark and the client

            import paimon_index.spark  # noqa: F401, PLC0415
        except ImportError as error:
            raise SettingsError(
                f"jobs need Spark and the client ({error}): in a clone, pip install ./client '.[jobs]'; from "
                f"wheels, pip install ./paimon_index_client-*.whl and the other wheel with [jobs] behind its "
                "name"
            ) from error
        builder = SparkSession.builder.appName("paimon-index")
        if self.master is not None:
            builder = builder.master(self.master)
        for name, value in parse_pairs("--conf", self.conf).items():
            builder = builder.config(name, value)
        try:
            spark = builder.getOrCreate()
        except Exception as error:
            raise SettingsError(f"Spark does not start (it needs Java 17): {error}") from error
        context = spark.sparkContext
        if context.master.startswith("local") and "PYSPARK_PYTHON" not in os.environ:
            # Spark's default is the first python3 of the search path, which may lack this package.
            context.pythonExec = context.getConf().get("spark.pyspark.python", sys.executable)
        try:
            yield spark
        finally:
            spark.stop()


class _OnStandardError(logging.Handler):
    """Prints log lines of jobs. Rich replaces standard error while it shows a progress bar."""

    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(printable(record.getMessage()), err=True)


_ANNOUNCED: Final = _OnStandardError()


@program.callback()
def _group() -> None:
    """Run a Spark job over a table."""
    logger = logging.getLogger("paimon_index.jobs")
    logger.addHandler(_ANNOUNCED)
    logger.setLevel(logging.INFO)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexChoice:
    """The indexes that a job builds or removes, and the files that it includes."""

    options: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="NAME=VALUE",
            help="A table option, such as file-index.bitmap.columns=city, in addition to the "
            "table's own; repeatable.",
        ),
    ] = None
    advised: Annotated[
        bool, typer.Option("--advised", help="Add the indexes that the values of the largest file suggest.")
    ] = False
    take_off: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=KIND",
            help="An index to remove, such as city=bitmap, unless an option names it; repeatable.",
        ),
    ] = None
    missing_only: Annotated[bool, typer.Option("--missing-only", help="Skip files that have any index.")] = (
        False
    )
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Rebuild indexes that exist already.")] = False
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Commit even if an index is larger than its data.")
    ] = False

    def check(self) -> None:
        """Raise RequestError if two options choose the indexes to build."""
        if self.advised and self.options:
            raise RequestError("--advised and --option both choose the indexes to build: give one of them")

    def arguments(self) -> dict[str, Any]:
        """Return arguments for :func:`app.jobs.build_index.build_index`."""
        return asdict(self) | {
            "options": parse_pairs("--option", self.options) if self.options else None,
            "take_off": [_index(text) for text in self.take_off or ()],
        }


@program.command("build-index", cls=Command)
@grouped
def build_index_command(
    table: TableArgument,
    *,
    partitions: PartitionsOption = None,
    drop: Annotated[bool, typer.Option("--drop", help="Remove all file indexes instead.")] = False,
    shared_cache: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Fill this shared cache of the service with the files that plans read, signed with "
            "PAIMON_INDEX_SHARED_CACHE_KEY.",
        ),
    ] = None,
    choice: IndexChoice,
    job: JobOptions,
) -> None:
    """Build the file indexes of a table's data files, and commit them."""
    if drop and any(asdict(choice).values()):
        raise RequestError("--drop builds nothing: omit the options that choose indexes to build")
    if shared_cache is not None:
        # Faulty settings fail here, before the work instead of after it.
        create_service(job.open().settings.with_shared_cache(shared_cache)).close()
    choice.check()
    opened = job.table(table)
    chosen = None if not partitions else list(map(parse_partition, partitions))
    if drop:
        report = drop_index(opened, partitions=chosen)
    else:
        arguments = choice.arguments()
        with job.spark() as spark, progress("building", len(opened.latest().files())) as advance:
            report = build_index(spark, opened, partitions=chosen, advance=advance, **arguments)
        if shared_cache is not None:
            job.share(table, shared_cache, {index.column for index in report.indexes})
    job.report(asdict(report))


@program.command("upsert", cls=Command)
@grouped
def upsert_command(
    table: TableArgument,
    *,
    paths: Annotated[
        list[str],
        typer.Option(
            "--from", metavar="PATH", help="A file or directory of rows that Spark can read; repeatable."
        ),
    ],
    data_format: Annotated[
        str,
        typer.Option("--format", help="Spark's name for the format of these files: parquet, orc, csv, json."),
    ] = "parquet",
    read_options: Annotated[
        list[str] | None,
        typer.Option(
            "--read-option",
            metavar="NAME=VALUE",
            help="An option of Spark's reader, such as header=true; repeatable.",
        ),
    ] = None,
    row_kind_column: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="An extra column with +I or +U for rows to write, and -D for keys to delete.",
        ),
    ] = None,
    parallelism: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of assigners of dynamic buckets, unless the table sets it. Default: one for each "
            "MiB of rows.",
        ),
    ] = None,
    job: JobOptions,
) -> None:
    """Write rows to a table, replacing those with the same primary key."""
    opened = job.table(table)
    given = parse_pairs("--read-option", read_options)
    with job.spark() as spark, progress("writing", None) as advance:
        rows = rows_from_files(
            spark,
            opened,
            paths,
            data_format=data_format,
            options=given,
            row_kind_column=row_kind_column,
        )
        report = upsert(
            spark,
            opened,
            rows,
            row_kind_column=row_kind_column,
            parallelism=parallelism,
            advance=advance,
        )
    job.report(asdict(report))


@program.command("delete", cls=Command)
@grouped
def delete_command(
    table: TableArgument,
    *,
    where: Annotated[str, typer.Option(help="Spark SQL condition of the rows to delete.")],
    job: JobOptions,
) -> None:
    """Delete the rows of an append table that meet a condition, by deletion vectors."""
    opened = job.table(table)
    # Starting Spark takes seconds, so errors are raised first.
    check_deletable(opened.name, opened.latest())
    with (
        job.spark() as spark,
        progress("reading", len(opened.latest().files())) as advance,
    ):
        report = delete(spark, opened, where, advance=advance)
    job.report(asdict(report))


@program.command("audit", cls=Command)
@grouped
def audit_command(
    table: TableArgument,
    *,
    partitions: PartitionsOption = None,
    sample: Annotated[
        int | None,
        typer.Option(min=1, help="Look up at most this many values of each index. Default: all."),
    ] = None,
    job: JobOptions,
) -> None:
    """Verify the file indexes of a table against its rows. The exit status is 1 if one is wrong."""
    opened = job.table(table)
    chosen = None if not partitions else list(map(parse_partition, partitions))
    with job.spark() as spark, progress("proving", len(opened.latest().files())) as advance:
        report = audit(spark, opened, partitions=chosen, sample=sample, advance=advance)
    job.report(InWords(asdict(report) | {"passed": report.passed}, _print_audit))
    if not report.passed:
        for problem in report.problems:
            which = (
                "index" if problem.column is None else f"{problem.kind} index of column {problem.column!r}"
            )
            typer.echo(printable(f"error: {problem.path}: {which}: {problem.detail}"), err=True)
        raise typer.Exit(1)


@program.command("plan", cls=Command)
@grouped
def plan_command(
    table: TableArgument,
    *,
    filter_text: FilterOption = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the kept files to a Parquet file.")
    ] = None,
    job: JobOptions,
) -> None:
    """Plan a filter over very many manifests of an append table, on executors."""
    opened, written = job.table(table), parse_filter(filter_text)
    opened.check_filter(written)
    with job.spark() as spark:
        manifests = len(opened.latest().manifest_files())
        with progress("planning", manifests) as advance:
            report = plan(spark, opened, written, advance=advance)
    if out is not None:
        pq.write_table(report.files, out)
    members = {member.name: getattr(report, member.name) for member in fields(report)}
    job.report(members | {"files": report.files.to_pylist()})


def _print_audit(answer: dict[str, Any]) -> None:
    for column in answer["columns"]:
        for name in ("false_positive_rates", "expected_rates"):
            if rates := column[name]:
                least, mean, most = min(rates), sum(rates) / len(rates), max(rates)
                column[name] = f"{least:.3g} to {most:.3g}, mean {mean:.3g}"
    print_members(answer)


def _index(text: str) -> tuple[str, str]:
    column, _, kind = text.rpartition("=")
    if not column or not kind:
        raise RequestError(f"--take-off takes COLUMN=KIND, such as city=bitmap, not {text!r}")
    return column, kind
