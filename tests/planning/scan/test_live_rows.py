"""Rows that are left beside deletion vectors, and the first of them, beside rows looked at one by one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from app.file_index.index_kinds import BITMAP, RANGE_BITMAP
from app.planning.plan.answers import Plan
from app.planning.plan.file_plan import SkipStep
from app.planning.request.requests import SelectionForm, SortKey, TopN
from app.types import DataField, Value, parse_type
from tests.examples import examples
from tests.tables import MadeTable, MadeTables, entry, file_of, statistics

NUMBER = DataField(0, "number", parse_type("INT"))


@dataclass(frozen=True)
class File:
    rows: list[int | None]
    deleted: set[int]
    indexed: bool
    counted: bool
    """Whether the index manifest tells how many rows are deleted."""

    def live(self, wanted: set[int] | None) -> set[int]:
        """Positions of rows that are not deleted and have one of the numbers, if some are wanted."""
        return {
            row
            for row, number in enumerate(self.rows)
            if row not in self.deleted and (wanted is None or number in wanted)
        }


def table(warehouse: MadeTables, files: Sequence[File]) -> MadeTable:
    options = {"deletion-vectors.enabled": "true"}
    made = warehouse.make([NUMBER], options=options)
    deleted = {at: file for at, file in enumerate(files) if file.deleted}
    index = made.vectors({str(at): file.deleted for at, file in deleted.items()})
    ranges = tuple(
        lies if file.counted else replace(lies, cardinality=None)
        for file, lies in zip(deleted.values(), index.file.ranges, strict=True)
    )
    index = replace(index, file=replace(index.file, ranges=ranges))
    entries = [
        file_of(str(at), {NUMBER: file.rows}, *((BITMAP, RANGE_BITMAP) if file.indexed else ()))
        for at, file in enumerate(files)
    ]
    made.commit(entries, index_entries=[index])
    return made


@st.composite
def made_files(draw: st.DrawFn) -> File:
    rows = draw(st.lists(st.none() | st.integers(0, 3), min_size=1, max_size=6))
    deleted = draw(st.sets(st.integers(0, len(rows) - 1)) | st.just(set(range(len(rows)))))
    return File(rows, deleted, draw(st.booleans()), draw(st.booleans()))


FILES = st.lists(made_files(), min_size=1, max_size=5)


def rows_of(plan: Plan) -> dict[int, set[int]]:
    return {
        int(file.file_name): set(range(file.row_count) if file.selection is None else file.selection)
        for file in plan.files
    }


@given(files=FILES)
@examples(30)
def test_just_the_live_rows_are_left(warehouse: MadeTables, files: list[File]) -> None:
    made = table(warehouse, files)
    live = {at: file.live(None) for at, file in enumerate(files)}

    plans = {form: made.plan(warehouse.service, selection=form, explain=True) for form in SelectionForm}

    assert rows_of(plans[SelectionForm.BITMAP]) == {at: rows for at, rows in live.items() if rows}
    for plan in plans.values():
        assert [int(file.file_name) for file in plan.files] == [at for at, rows in live.items() if rows]
        assert [file.selected_rows for file in plan.files] == [len(rows) for rows in live.values() if rows]
        assert {file.reason for file in plan.skipped_files} <= {SkipStep.DELETION_VECTOR}
        assert plan.summary.rows_selected == sum(map(len, live.values()))


@given(files=FILES, wanted=st.sets(st.integers(0, 3), min_size=1, max_size=2))
@examples(30)
def test_rows_that_match_are_left_unless_they_are_deleted(
    warehouse: MadeTables, files: list[File], wanted: set[int]
) -> None:
    made = table(warehouse, files)

    plan = made.plan(warehouse.service, f"number IN ({', '.join(map(str, wanted))})")

    found = rows_of(plan)
    for at, file in enumerate(files):
        matching = file.live(wanted)
        if file.indexed:
            assert found.get(at, set()) == matching
        else:
            assert matching <= found.get(at, set()) <= file.live(None)
    for kept in plan.files:
        at = int(kept.file_name)
        assert kept.selected_rows == len(found[at])
        assert kept.residual or found[at] == files[at].live(wanted)


@given(files=FILES, limit=st.integers(0, 8), filtered=st.booleans())
@examples(30)
def test_a_limit_is_served_by_files_that_surely_have_the_rows(
    warehouse: MadeTables, files: list[File], limit: int, *, filtered: bool
) -> None:
    made = table(warehouse, files)
    wanted = {0, 1} if filtered else None

    plan = made.plan(warehouse.service, "number IN (0, 1)" if filtered else None, limit=limit)

    answer = [files[at].live(wanted) for at in range(len(files))]
    kept = sum(len(answer[int(file.file_name)]) for file in plan.files)
    assert kept >= min(limit, sum(map(len, answer)))


@given(files=FILES, limit=st.integers(0, 4), descending=st.booleans(), nulls_first=st.booleans())
@examples(30)
def test_the_first_rows_in_order_are_left(
    warehouse: MadeTables, files: list[File], limit: int, *, descending: bool, nulls_first: bool
) -> None:
    made = table(warehouse, files)
    asked = TopN(
        order_by=(
            SortKey(
                column="number", direction=("asc", "desc")[descending], nulls=("last", "first")[nulls_first]
            ),
        ),
        limit=limit,
    )

    def order(number: int | None) -> tuple[bool, int]:
        return (number is None) != nulls_first, 0 if number is None else -number if descending else number

    found = rows_of(made.plan(warehouse.service, top_n=asked))

    every = sorted(order(file.rows[row]) for file in files for row in file.live(None))
    left = sorted(order(files[at].rows[row]) for at, rows in found.items() for row in rows)
    assert left[:limit] == every[:limit]
    assert all(rows <= files[at].live(None) for at, rows in found.items())


def test_rows_that_only_may_match_take_nobodys_place(warehouse: MadeTables) -> None:
    """The statistics of a text leave open whether the smaller number is one of the answer; it is not."""
    name = DataField(1, "name", parse_type("STRING"))
    rows: dict[str, tuple[list[Value | None], list[Value | None]]] = {
        "small": ([1, 2], [b"a", b"c"]),
        "large": ([5], [b"b"]),
    }
    made = warehouse.make([NUMBER, name])
    made.commit(
        [
            entry(file_name=file, row_count=len(numbers), **statistics({NUMBER: numbers, name: names}))
            for file, (numbers, names) in rows.items()
        ]
    )

    plan = made.plan(
        warehouse.service, "name = 'b'", top_n=TopN(order_by=(SortKey(column="number"),), limit=1)
    )

    assert "large" in [file.file_name for file in plan.files]
