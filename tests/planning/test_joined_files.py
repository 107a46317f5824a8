"""Files that hold columns of the same rows, beside the rows put together one by one."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.planning.answers import KeepReason
from app.predicates.rows import matches
from app.types import DataField, parse_type
from tests.planning.copied_tables import open_service
from tests.planning.made_tables import MadeTable, names_of, statistics
from tests.planning.strategies import pool, predicates
from tests.table.entries import entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from app.planning.service import IndexService
    from app.predicates.model import BoundPredicate
    from app.table.manifest_entry import ManifestEntry

COLUMNS = (DataField(0, "a", parse_type("INT")), DataField(1, "b", parse_type("INT")))
EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}


@dataclass(frozen=True)
class JoinedFile:
    """A data file: its first row id, and the values of the columns that it holds."""

    first: int
    columns: dict[DataField, list[int | None]]

    @property
    def row_ids(self) -> range:
        return range(self.first, self.first + len(next(iter(self.columns.values()))))

    def entry(self, number: int) -> ManifestEntry:
        """The newer of two files has the larger number."""
        return entry(
            file_name=str(number),
            row_count=len(self.row_ids),
            first_row_id=self.first,
            write_columns=tuple(column.name for column in self.columns),
            max_sequence_number=number,
            **statistics(self.columns),
        )


@dataclass
class Warehouse:
    """Where each example of a test gets a table of its own."""

    root: Path
    service: IndexService
    tables: int = 0

    def table(self, files: Sequence[JoinedFile], order: Sequence[int]) -> MadeTable:
        self.tables += 1
        made = MadeTable.make(self.root, COLUMNS, options=EVOLVING, name=f"made_{self.tables}")
        made.commit([files[number].entry(number) for number in order])
        return made


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    root = tmp_path_factory.mktemp("warehouse")
    with closing(open_service(root)) as service:
        yield Warehouse(root, service)


@st.composite
def joined_files(draw: st.DrawFn, first: st.SearchStrategy[int], rows: st.SearchStrategy[int]) -> JoinedFile:
    columns = draw(st.sampled_from([COLUMNS, COLUMNS, COLUMNS[:1], COLUMNS[1:]]))
    values = st.none() | st.sampled_from(pool(COLUMNS[0].type))
    count = draw(rows)
    return JoinedFile(
        draw(first),
        {column: draw(st.lists(values, min_size=count, max_size=count)) for column in columns},
    )


def rows_of(files: Sequence[JoinedFile]) -> dict[int, dict[int, Any]]:
    """The rows by their ids; of the files that hold a column the newest has its value."""
    found: dict[int, dict[int, Any]] = {}
    for file in files:
        for column, values in file.columns.items():
            for row_id, value in zip(file.row_ids, values, strict=True):
                found.setdefault(row_id, {})[column.id] = value
    return found


def complete(row: dict[int, Any]) -> dict[int, Any]:
    """A row with nulls in the columns that no file holds."""
    return {column.id: None for column in COLUMNS} | row


@given(
    files=st.lists(joined_files(st.integers(0, 5), st.integers(1, 3)), min_size=1, max_size=8),
    filters=st.lists(predicates(COLUMNS, with_unknown=False), min_size=3, max_size=3),
    data=st.data(),
)
@settings(deadline=None, max_examples=40)
def test_files_of_a_row_that_matches_are_kept_together(
    warehouse: Warehouse, files: list[JoinedFile], filters: list[BoundPredicate], data: st.DataObject
) -> None:
    made = warehouse.table(files, data.draw(st.permutations(range(len(files)))))
    rows = rows_of(files)
    for predicate in filters:
        plan = made.plan_bound(warehouse.service, predicate)
        kept = set(names_of(plan.files))
        groups = {file.file_name: file.merge_group for file in plan.files}

        for row_id, row in rows.items():
            holders = {str(number) for number, file in enumerate(files) if row_id in file.row_ids}
            if matches(predicate, complete(row)):
                assert holders <= kept
            assert holders <= kept or not holders & kept
            assert len({groups[name] for name in holders & kept}) <= 1
        assert {(file.reason, file.raw_convertible, file.residual) for file in plan.files} <= {
            (KeepReason.MERGE_REQUIRED, False, True)
        }


@given(
    files=st.lists(joined_files(st.integers(0, 5), st.just(1)), min_size=1, max_size=8),
    filters=st.lists(predicates(COLUMNS), min_size=3, max_size=3),
    data=st.data(),
)
@settings(deadline=None, max_examples=40)
def test_of_single_rows_just_those_that_match_are_kept(
    warehouse: Warehouse, files: list[JoinedFile], filters: list[BoundPredicate], data: st.DataObject
) -> None:
    """Bounds of one row tell all of it, as far as some file holds it."""
    made = warehouse.table(files, data.draw(st.permutations(range(len(files)))))
    rows = rows_of(files)
    for predicate in filters:
        plan = made.plan_bound(warehouse.service, predicate)
        kept = {files[int(name)].first for name in names_of(plan.files)}

        assert kept >= {row_id for row_id, row in rows.items() if matches(predicate, complete(row))}
        assert kept <= {row_id for row_id, row in rows.items() if matches(predicate, row) is not False}


def test_an_older_files_index_is_not_asked_for_what_a_newer_one_replaced(warehouse: Warehouse) -> None:
    a, b = COLUMNS
    made = warehouse.table([JoinedFile(0, {a: [1, 2], b: [5, 6]}), JoinedFile(0, {b: [7, 8]})], [0, 1])

    def kept(written: str) -> list[str]:
        return names_of(made.plan(warehouse.service, written).files)

    assert kept("b = 7") == kept("a = 1 AND b = 8") == ["0", "1"]
    assert kept("b = 5") == kept("a = 1 AND b = 5") == kept("a = 3") == []


def test_a_file_that_does_not_say_which_rows_it_holds_is_kept(warehouse: Warehouse) -> None:
    made = MadeTable.make(warehouse.root, COLUMNS, options=EVOLVING, name="made_unknown")
    made.commit([entry(file_name="0", **statistics({COLUMNS[0]: [1] * 10}))])

    (file,) = made.plan(warehouse.service, "a = 2").files

    assert (file.reason, file.merge_group) == (KeepReason.MERGE_REQUIRED, None)
