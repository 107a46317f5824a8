"""What a request lists is looked at once, within bounds, and for as long as somebody waits for the answer."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from app.errors import LimitExceededError, RequestCancelledError, UnsupportedFormatError
from app.iceberg.catalog import IcebergCatalog
from app.iceberg.expressions import read_expression
from app.iceberg.plan_tokens import PlanQuestion, PlanToken
from app.iceberg.schema import ReadColumns
from app.iceberg.tasks import column_statistics
from app.planning.request.limits import Limits
from app.planning.request.requests import PlanRequest
from app.planning.service import IndexService
from app.predicates.unbound import FilterLimits
from app.table import TableSchema
from app.table.manifests.manifest_entry import FileKind
from app.types import DataField, parse_type
from app.work import Cancellation, cancellable
from tests.tables import MadeTable, entry, golden_ref, open_service, statistics

ID: Final = DataField(0, "id", parse_type("INT"))
NAME: Final = DataField(1, "Name", parse_type("STRING"))


@pytest.fixture
def made(tmp_path: Path) -> MadeTable:
    table = MadeTable.make(tmp_path, [ID, NAME])
    table.commit([entry(file_name="a.parquet", row_count=2, **statistics({ID: [1, 2]}))])
    return table


@pytest.fixture
def service(tmp_path: Path) -> Iterator[IndexService]:
    with closing(open_service(tmp_path)) as service:
        yield service


@pytest.mark.parametrize(
    ("asked", "known"),
    [
        ({"statistics": ("id",) * 4_000}, ("id",)),
        ({"statistics": tuple(f"no {number}" for number in range(4_000))}, ()),
        ({"statistics": ("id", "name", "ID", "id.x")}, ("id",)),
        ({"statistics": ("NAME", "ID", "id"), "case_sensitive": False}, ("id", "Name")),
    ],
)
def test_a_plan_goes_on_with_each_known_column_once(
    made: MadeTable, service: IndexService, asked: Any, known: tuple[str, ...]
) -> None:
    plan: Any = IcebergCatalog(service, Limits(), 60_000).plan(made.ref, PlanQuestion(**asked))

    assert PlanToken.read(plan["plan-id"], made.ref).question.statistics == known


def test_statistics_end_when_nobody_waits_for_them(made: MadeTable, service: IndexService) -> None:
    version = made.version(service)
    files = service.plan(version, PlanRequest()).files
    gone = Cancellation()
    gone.cancel()

    assert len(list(column_statistics(version, files, 0, 1, [ID, NAME]))) == 1
    with cancellable(gone), pytest.raises(RequestCancelledError):
        list(column_statistics(version, files, 0, 1, [ID]))


def test_lists_of_a_filter_are_counted_before_they_are_read() -> None:
    columns = ReadColumns.of([TableSchema(0, (ID, NAME))], case_sensitive=True)
    asked = {"type": "in", "term": "id", "values": ["no number"] * 11}

    with pytest.raises(LimitExceededError, match="10 literals"):
        read_expression(asked, columns, FilterLimits(literals=10))


def test_a_filter_may_have_so_many_characters() -> None:
    columns = ReadColumns.of([TableSchema(0, (ID, NAME))], case_sensitive=True)
    asked = {"type": "eq", "term": "Name", "value": "x" * 80}

    assert read_expression(asked, columns, FilterLimits(characters=99)).predicate
    with pytest.raises(LimitExceededError, match="99 characters, 98 are"):
        read_expression(asked, columns, FilterLimits(characters=98))


def test_filters_are_read_as_long_as_somebody_waits_for_them() -> None:
    columns = ReadColumns.of([TableSchema(0, (ID, NAME))], case_sensitive=True)
    gone = Cancellation()
    gone.cancel()

    with cancellable(gone), pytest.raises(RequestCancelledError):
        read_expression({"type": "is-null", "term": "id"}, columns, FilterLimits())


def test_an_append_that_removes_files_has_rewritten_rows_in_what_it_adds(tmp_path: Path) -> None:
    table = MadeTable.make(tmp_path, [ID])
    first = entry(file_name="first.parquet")
    table.commit([first])
    table.commit([first, entry(FileKind.DELETE, file_name="first.parquet"), entry(file_name="new.parquet")])

    with closing(open_service(tmp_path)) as service:
        catalog = IcebergCatalog(service, Limits(), 60_000)
        with pytest.raises(UnsupportedFormatError, match=r"snapshot 2 .* removes files"):
            catalog.plan(golden_ref("made"), PlanQuestion(2, start_snapshot_id=1))
        assert catalog.plan(golden_ref("made"), PlanQuestion(1, start_snapshot_id=0))["file-scan-tasks"]
