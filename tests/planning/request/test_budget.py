"""Long lists of values are asked of as many files as there is time for, and the others are kept."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, repeat
from typing import Final

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from app.errors import DeadlineExceededError
from app.file_index import container
from app.file_index.answers import SHORT_LIST
from app.file_index.bloom_filter import bloom_filter
from app.file_index.evaluation import decide_files
from app.file_index.findings import FileDecisions
from app.file_index.index_kinds import BLOOM_FILTER, KINDS
from app.file_index.stacked_index import StackedIndex
from app.planning.plan.answers import Plan
from app.planning.plan.file_plan import KeepReason, SkipStep
from app.planning.request.budget import UNBOUNDED, Budget, needs_budget
from app.planning.request.requests import PlanRequest, SelectionForm, SortKey, TopN
from app.planning.service import IndexService
from app.predicates.model import BoundAnd, BoundLeaf, BoundOr, BoundPredicate, Operator
from app.types import DataField, parse_type
from app.types.bytes_column import BytesColumn
from app.work import time_limit
from tests.examples import examples
from tests.key_columns import key_column
from tests.planning.tables_beside import FILES as FILES_BESIDE
from tests.planning.tables_beside import Beside, MakeBeside, large, small
from tests.row_matches import matches
from tests.tables import MadeTable, file_of, names_of, open_service

NUMBER: Final = DataField(0, "number", parse_type("INT"))
SPENT: Final = Budget(0.0)
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
    """Yield a table of a few manifests whose files have an index of one kind, or several beside them."""
    root = tmp_path_factory.mktemp("warehouse")
    table = MadeTable.make(root, [NUMBER])
    kinds = list(KINDS.values()) if request.param == "beside" else [request.param]
    entries = [file_of(f"data-{at}", {NUMBER: rows}, *kinds, bounded=False) for at, rows in enumerate(VALUES)]
    if request.param == "beside":
        entries = [*map(table.beside, entries)]
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


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(predicate=filters, budget=st.sampled_from([SPENT, UNBOUNDED]), explain=st.booleans())
def test_no_matching_row_is_left_out_however_little_is_asked(
    made: tuple[MadeTable, IndexService], *, predicate: BoundPredicate, budget: Budget, explain: bool
) -> None:
    table, service = made

    plan = table.plan_bound(service, predicate, budget, explain=explain, selection=SelectionForm.BITMAP)

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


def loaded(made: tuple[MadeTable, IndexService]) -> tuple[MadeTable, IndexService]:
    """Return a table whose index files are in the caches, where a plan without time finds them."""
    table, service = made
    table.plan_bound(service, BoundLeaf(Operator.EQUAL, NUMBER, (10_000,)))
    return made


def test_files_that_are_not_asked_are_kept_and_told(made: tuple[MadeTable, IndexService]) -> None:
    table, service = loaded(made)
    nothing = among(range(10_000, 10_000 + LONG))

    plan = table.plan_bound(service, nothing, SPENT, selection=SelectionForm.NONE)

    assert names_of(plan.files) == [f"data-{number}" for number in range(FILES)]
    # A bloom filter may err on one of the first values, which are asked in any case.
    reasons = [file.reason for file in plan.files]
    assert set(reasons) <= {KeepReason.NOT_ASKED, KeepReason.MATCHED}
    unevaluated = reasons.count(KeepReason.NOT_ASKED)
    warnings = [each for each in plan.warnings if "not searched for every value" in each]
    assert [int(each.split()[0]) for each in warnings] == [unevaluated] * bool(unevaluated)
    assert all("budget_ms" in each for each in warnings)
    assert plan.summary.complete is (unevaluated == 0)


def test_the_rest_of_the_filter_is_asked_nevertheless(made: tuple[MadeTable, IndexService]) -> None:
    table, service = loaded(made)
    nothing = BoundLeaf(Operator.EQUAL, NUMBER, (10_000,))

    plan = table.plan_bound(service, BoundAnd((among(range(LONG)), nothing)), SPENT)

    assert names_of(plan.files) == []


def stacks(rows: Sequence[int], files: int) -> StackedIndex:
    """Files of the same rows, with bloom filters that hardly ever err."""
    filters = bloom_filter.write(key_column(rows, NUMBER.type), 100, 1e-12)
    bloom = container.write({"number": [(BLOOM_FILTER, filters)]})
    return StackedIndex.read(BytesColumn.of([bloom] * files))


def asked(
    values: Sequence[int], rows: Sequence[int], files: int, out_of_time: Callable[[], bool]
) -> FileDecisions:
    return decide_files(
        among(values), stacks(rows, files), np.arange(files), np.full(files, ROWS), out_of_time
    )


def test_short_lists_are_always_asked() -> None:
    short = among(range(SHORT_LIST))

    assert not needs_budget(short)
    assert asked(range(SHORT_LIST), [-1], FILES, SPENT.out_of_time).skip.all()


def test_a_million_values_are_asked_of_many_files_for_as_long_as_there_is_time() -> None:
    looks = chain(repeat(False, 10), repeat(True))  # noqa: FBT003 - the time is over at the eleventh look

    found = asked(range(1_000_000), [-1], 10_000, partial(next, looks))

    assert found.unevaluated.all()


def test_a_file_that_is_kept_is_asked_no_further() -> None:
    found = asked(range(100_000), [5], FILES, SPENT.out_of_time)

    assert not found.unevaluated.any()
    assert not found.skip.any()


def test_many_parts_are_as_much_work_as_a_long_list() -> None:
    fields = [DataField(at, f"column {at}", NUMBER.type) for at in range(SHORT_LIST + 2)]
    tests = BoundOr(tuple(BoundLeaf(Operator.EQUAL, field, (10_000,)) for field in fields))
    filters = bloom_filter.write(key_column([1], NUMBER.type), 100, 1e-12)
    index = container.write({field.name: [(BLOOM_FILTER, filters)] for field in fields})
    stack = StackedIndex.read(BytesColumn.of([index]))

    spent, unbounded = (
        decide_files(tests, stack, np.arange(1), np.array([1]), budget.out_of_time)
        for budget in (SPENT, UNBOUNDED)
    )

    assert needs_budget(tests)
    assert spent.unevaluated.all()
    assert not spent.skip.any()
    assert unbounded.skip.all()


def test_a_budget_ends_before_the_deadline_of_its_request() -> None:
    with time_limit(30):
        begun = time.monotonic()
        long, short, none = Budget.begin(60_000), Budget.begin(1_000), UNBOUNDED.before_deadline()
    ended = time.monotonic()

    assert long.ends is not None
    assert short.ends is not None
    assert none.ends is not None
    assert long.ends <= ended + 30 * 2 / 3
    assert none.ends <= ended + 30 * 2 / 3
    assert begun + 1 <= short.ends <= ended + 1


def test_whoever_asks_long_lists_meets_the_deadline() -> None:
    with time_limit(0), pytest.raises(DeadlineExceededError):
        asked(range(LONG), [-1], FILES, UNBOUNDED.out_of_time)


def test_without_a_deadline_a_budget_is_what_it_says() -> None:
    begun = time.monotonic()

    assert (Budget.begin(60_000).ends or 0) >= begun + 60
    assert Budget.begin(None).ends is None


ALL = [str(file) for file in range(FILES_BESIDE)]


def plan(beside: Beside, written: str, budget_ms: int | None = None, **asked: object) -> Plan:
    request = PlanRequest(filter=written, budget_ms=budget_ms, **asked)  # type: ignore[arg-type]
    return beside.service.plan(beside.made.ref, request)


@pytest.mark.parametrize("index", [small, large])
def test_without_time_every_file_with_an_index_file_is_kept(
    make_beside: MakeBeside, index: Callable[[int], bytes]
) -> None:
    beside = make_beside(index)
    found = plan(beside, "cat = 3 AND place > 1", 0)

    assert names_of(found.files) == ["2", "3", "4", "5"]
    assert {file.reason for file in found.files} == {KeepReason.NOT_LOADED}
    assert not found.summary.complete
    (warning,) = found.warnings
    assert "4 files are kept without evaluating their indexes" in warning
    assert "budget_ms" in warning


def test_what_was_left_is_loaded_in_the_background(beside: Beside) -> None:
    assert names_of(plan(beside, "cat = 3", 0).files) == ALL

    never = threading.Event()
    while not (found := plan(beside, "cat = 3", 0)).summary.complete:
        assert not never.wait(0.001)

    assert names_of(found.files) == ["3"]
    assert not found.warnings


def test_what_is_loaded_is_asked_without_any_time(beside: Beside) -> None:
    plan(beside, "cat = 3 AND place < 3")
    beside.reads.taken()

    beside.reads.before = lambda _: pytest.fail("there is no time to read")
    found = plan(beside, "cat = 4 AND place < 3", 0)
    assert names_of(found.files) == []
    assert found.summary.complete

    # Only the files that the first plan was not about are left.
    beside.reads.before = lambda _: None
    assert names_of(plan(beside, "cat = 4", 0).files) == ["3", "4", "5"]


def test_a_complete_plan_is_given_whatever_the_budget(beside: Beside) -> None:
    whole = plan(beside, "cat = 3")
    beside.service.tables._indexes.file_indexes.clear()  # noqa: SLF001 - as a cache that was too small
    assert plan(beside, "cat = 3", 0) is whole


def test_an_incomplete_plan_is_given_to_nobody_else(beside: Beside) -> None:
    assert names_of(plan(beside, "cat = 3", 0).files) == ALL
    assert names_of(plan(beside, "cat = 3").files) == ["3"]


def test_a_limit_cuts_only_complete_plans(beside: Beside) -> None:
    """The pages of an answer may come from an incomplete plan and a complete one."""
    assert names_of(plan(beside, "cat >= 0 AND cat < 5", 0, limit=1).files) == ALL
    found = plan(beside, "cat >= 0 AND cat < 5", limit=1)
    assert len(found.files) < len(ALL)
    assert found.summary.skipped_by[SkipStep.LIMIT]


@pytest.mark.parametrize(
    "asked",
    [{"explain": True}, {"top_n": TopN(order_by=(SortKey(column="place"),), limit=2)}],
    ids=["explain", "top_n"],
)
def test_explanations_and_first_rows_take_the_time_that_they_need(
    beside: Beside, asked: dict[str, object]
) -> None:
    assert plan(beside, "cat = 3", 0, **asked).summary.complete


@pytest.mark.parametrize("budget_ms", [0, 60_000])
def test_embedded_indexes_need_no_reading(beside: Beside, budget_ms: int) -> None:
    assert plan(beside, "place = 3", budget_ms).summary.complete
    assert names_of(plan(beside, "place = 3", budget_ms).files) == ["3"]


filters_beside = st.sampled_from(
    [
        "cat = 1",
        "cat = 2 OR id = 4",
        "id = 5",
        "cat IN (1, 3) AND place > 0",
        "id < 3 AND cat = 2",
        "NOT cat = 1",
    ]
)


@given(questions=st.lists(st.tuples(filters_beside, st.sampled_from([0, 1, None])), max_size=6))
@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_plan_leaves_out_more_than_a_complete_one(
    beside: Beside, questions: list[tuple[str, int | None]]
) -> None:
    truth = {written: names_of(plan(beside, written).files) for written, _ in questions}
    beside.service.caches.clear()
    for written, budget_ms in questions:
        found = plan(beside, written, budget_ms)
        assert set(names_of(found.files)) >= set(truth[written])
        if found.summary.complete:
            assert names_of(found.files) == truth[written]
