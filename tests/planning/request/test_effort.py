"""Long lists of values are asked of as many files as there is time for, and the others are kept."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from app.file_index import container
from app.file_index.answers.conditions import SHORT_LIST
from app.file_index.bloom_filter import bloom_filter
from app.file_index.index_kinds import BITMAP, BLOOM_FILTER, BSI, KINDS, RANGE_BITMAP, IndexKind
from app.file_index.stacked.evaluation import FileDecisions, decide_files
from app.file_index.stacked.index import StackedIndex
from app.planning.plan.file_plan import KeepReason
from app.planning.request.effort import FILE_QUESTIONS, ROW_QUESTIONS, Budget, Effort
from app.planning.request.requests import SelectionForm
from app.planning.service import IndexService
from app.planning.side_files import file_indexes
from app.predicates.model import BoundAnd, BoundLeaf, BoundOr, BoundPredicate, Operator, Unknown
from app.predicates.verdicts import matches
from app.storage import time_limit
from app.types import DataField, parse_type
from app.types.bytes_column import BytesColumn
from tests.examples import examples
from tests.key_columns import key_column
from tests.planning.copied_tables import open_service
from tests.planning.made_tables import MadeTable, names_of, no_statistics, payload
from tests.table.entries import entry

NUMBER: Final = DataField(0, "number", parse_type("INT"))
FILES: Final = 12
ROWS: Final = 20
VALUES: Final = [[7 * file + 11 * row for row in range(ROWS)] for file in range(FILES)]
LONG: Final = SHORT_LIST + 1


def among(values: Sequence[int], operator: Operator = Operator.IN) -> BoundLeaf:
    return BoundLeaf(operator, NUMBER, tuple(sorted(set(values))))


@pytest.fixture(scope="module", params=[*KINDS.values(), "beside"])
def made(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[MadeTable, IndexService]]:
    """A table of a few manifests whose files have an index of one kind, or several beside them."""
    root = tmp_path_factory.mktemp("warehouse")
    table = MadeTable.make(root, [NUMBER])
    kinds = list(KINDS.values()) if request.param == "beside" else [request.param]
    entries = []
    for file, rows in enumerate(VALUES):
        content = container.write({"number": [(kind, payload(kind, rows, NUMBER)) for kind in kinds]})
        name = f"data-{file}"
        beside = request.param == "beside"
        if beside:
            table.side_file(name).write_bytes(content)
        entries.append(
            entry(
                file_name=name,
                row_count=ROWS,
                embedded_index=None if beside else content,
                extra_files=(f"{name}.index",) if beside else (),
                **no_statistics(),
            )
        )
    table.commit(entries[:5], entries[5:6], entries[6:])
    service = open_service(root)
    yield table, service
    service.close()


lists: Final = st.builds(
    lambda start, step, count, operator: among([start + step * at for at in range(count)], operator),
    st.integers(-50, 300),
    st.integers(1, 40),
    st.sampled_from([2, SHORT_LIST, LONG, 3 * LONG]),
    st.sampled_from([Operator.IN, Operator.IN, Operator.NOT_IN]),
)
filters: Final = st.recursive(
    lists | st.just(BoundLeaf(Operator.GREATER_THAN, NUMBER, (150,))),
    lambda parts: (
        st.lists(parts, min_size=2, max_size=3).map(tuple).map(BoundAnd)
        | st.lists(parts, min_size=2, max_size=3).map(tuple).map(BoundOr)
    ),
    max_leaves=4,
)
questions: Final = st.integers(0, 4) | st.integers(0, 400_000)


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(predicate=filters, of_files=questions, of_rows=questions, explain=st.booleans())
def test_no_matching_row_is_left_out_however_little_is_asked(
    made: tuple[MadeTable, IndexService],
    *,
    predicate: BoundPredicate,
    of_files: int,
    of_rows: int,
    explain: bool,
) -> None:
    table, service = made

    plan = table.plan_bound(
        service, predicate, Effort(of_files, of_rows), explain=explain, selection=SelectionForm.BITMAP
    )

    found = {file.file_name: file for file in plan.files}
    for number, values in enumerate(VALUES):
        matching = {row for row, value in enumerate(values) if matches(predicate, {NUMBER.id: value})}
        file = found.get(f"data-{number}")
        if file is None:
            assert not matching
            continue
        selected = set(range(ROWS)) if file.selection is None else set(file.selection)
        assert matching <= selected
        assert file.residual or selected == matching


def test_files_that_are_not_asked_are_kept_and_told(made: tuple[MadeTable, IndexService]) -> None:
    table, service = made
    nothing = among(range(10_000, 10_000 + LONG))

    plan = table.plan_bound(service, nothing, Effort(0, 0), selection=SelectionForm.NONE)

    assert names_of(plan.files) == [f"data-{number}" for number in range(FILES)]
    # A bloom filter may err on one of the first values, which are asked in any case.
    reasons = [file.reason for file in plan.files]
    assert set(reasons) <= {KeepReason.NOT_ASKED, KeepReason.MATCHED}
    unasked = reasons.count(KeepReason.NOT_ASKED)
    told = [each for each in plan.warnings if "not asked whether they have values" in each]
    assert [int(each.split()[0]) for each in told] == [unasked] * bool(unasked)


def test_the_rest_of_the_filter_is_asked_nevertheless(made: tuple[MadeTable, IndexService]) -> None:
    table, service = made
    nothing = BoundLeaf(Operator.EQUAL, NUMBER, (10_000,))

    plan = table.plan_bound(service, BoundAnd((among(range(LONG)), nothing)), Effort(0, 0))

    assert names_of(plan.files) == []


def stacks(rows: Sequence[int], files: int) -> StackedIndex:
    """Files of the same rows, with bloom filters that hardly ever err."""
    filters = bloom_filter.write(key_column(rows, NUMBER.type), 100, 1e-12)
    bloom = container.write({"number": [(BLOOM_FILTER, filters)]})
    return StackedIndex.read(BytesColumn.of([bloom] * files))


def asked(effort: Effort, values: Sequence[int], rows: Sequence[int], files: int) -> FileDecisions:
    return decide_files(
        among(values), stacks(rows, files), np.arange(files), np.full(files, ROWS), allowance=effort
    )


def test_short_lists_are_always_asked() -> None:
    effort, short = Effort(0, 0), among(range(SHORT_LIST))

    assert effort.of_files(short, 0, 100_000, with_bloom_filters=True) is short
    assert effort.of_rows(short) is short
    assert asked(effort, range(SHORT_LIST), [-1], FILES).skip.all()
    assert effort.warnings == []


def test_a_plan_asks_no_more_than_it_may() -> None:
    effort, wide = Effort(20_000), among(range(10_000))

    found = [asked(effort, range(2_000), [-1], FILES) for _ in range(3)]
    rows = sum(1 for _ in range(100_000) if effort.of_rows(wide) is wide)

    # As many files are asked as it may, and the first values of the others, whatever is left.
    assert [int(each.skip.sum()) for each in found] == [20_000 // (2_000 - SHORT_LIST), 0, 0]
    assert all((each.skip | each.unasked).all() for each in found)
    assert 0 <= effort.file_questions < SHORT_LIST
    assert 0 < rows * 10_000 <= ROW_QUESTIONS


def test_a_file_that_is_kept_is_asked_no_further() -> None:
    effort = Effort(0)

    found = asked(effort, range(100_000), [5], FILES)

    assert not found.unasked.any()
    assert not found.skip.any()


def test_what_is_counted_does_not_depend_on_which_files_are_asked_together() -> None:
    together, apart = Effort(), Effort()

    asked(together, range(5_000), [3_000], 2 * FILES)
    for _ in range(2):
        asked(apart, range(5_000), [3_000], FILES)

    assert together.file_questions == apart.file_questions < FILE_QUESTIONS


@examples(60)
@given(
    questions=st.integers(0, 3_000),
    own=st.lists(st.sampled_from([-1, 70, 150, 290]), min_size=2, max_size=9),
    cut=st.integers(1, 8),
)
def test_the_same_files_are_left_unasked_whichever_are_asked_together(
    questions: int, own: list[int], cut: int
) -> None:
    """The first keys that a file holds decide how many questions it takes."""

    def left_unasked(*portions: list[int]) -> tuple[list[bool], int]:
        effort, found = Effort(questions), list[bool]()
        for portion in portions:
            contents = [
                container.write(
                    {
                        "number": [
                            (BLOOM_FILTER, bloom_filter.write(key_column([row], NUMBER.type), 100, 1e-12))
                        ]
                    }
                )
                for row in portion
            ]
            files, stacked = np.arange(len(portion)), StackedIndex.read(BytesColumn.of(contents))
            counts = np.full(len(portion), ROWS)
            decided = decide_files(among(range(300)), stacked, files, counts, allowance=effort)
            found += decided.unasked.tolist()
        return found, effort.file_questions

    assert left_unasked(own) == left_unasked(*filter(None, [own[:cut], own[cut:]]))


def test_many_parts_are_as_much_work_as_a_long_list() -> None:
    ranges = BoundOr(
        tuple(BoundLeaf(Operator.BETWEEN, NUMBER, (10 * at, 10 * at + 5)) for at in range(SHORT_LIST + 1))
    )
    effort = Effort(0, 0)

    assert isinstance(effort.of_files(ranges, 0, 1, with_bloom_filters=False), Unknown)
    assert len(effort.warnings) == 1


@pytest.mark.parametrize("kind", [BITMAP, BSI, RANGE_BITMAP])
def test_a_plan_that_reads_index_files_in_portions_asks_as_much_as_one_that_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: IndexKind
) -> None:
    monkeypatch.setattr(file_indexes, "_FILES_OF_BUDGET", 2)
    table = MadeTable.make(tmp_path, [NUMBER])
    for file, rows in enumerate(VALUES):
        content = container.write({"number": [(kind, payload(kind, rows, NUMBER))]})
        table.side_file(f"data-{file}").write_bytes(content)
    table.commit(
        [
            entry(
                file_name=f"data-{file}",
                row_count=ROWS,
                extra_files=(f"data-{file}.index",),
                **no_statistics(),
            )
            for file in range(FILES)
        ]
    )
    asked: dict[str, Any] = {"in_lists": {"number": list(range(10_000, 110_000))}, "budget_ms": 60_000}
    service = open_service(tmp_path)
    try:
        cold, warm = (
            table.plan(service, selection=SelectionForm.NONE, uris=is_warm, **asked)
            for is_warm in (False, True)
        )
    finally:
        service.close()

    assert names_of(cold.files) == names_of(warm.files) == []
    assert cold.warnings == warm.warnings == ()


def test_a_budget_ends_before_the_deadline_of_its_request() -> None:
    with time_limit(30):
        begun = time.monotonic()
        long, short = Budget.begin(60_000), Budget.begin(1_000)
    ended = time.monotonic()

    assert long.ends is not None
    assert short.ends is not None
    assert long.ends <= ended + 30 * 2 / 3
    assert begun + 1 <= short.ends <= ended + 1


def test_without_a_deadline_a_budget_is_what_it_says() -> None:
    begun = time.monotonic()

    assert (Budget.begin(60_000).ends or 0) >= begun + 60
    assert Budget.begin(None).ends is None
