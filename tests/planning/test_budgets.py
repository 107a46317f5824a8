"""Plans with a budget of time: what is not loaded by then is kept, and loaded for the plans that follow."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from app.planning.plan.answers import Plan
from app.planning.plan.file_plan import KeepReason, SkipStep
from app.planning.request.requests import PlanRequest, SortKey, TopN
from tests.examples import examples
from tests.planning.made_tables import names_of
from tests.planning.tables_beside import FILES, Beside, MakeBeside, large, small

ALL = [str(file) for file in range(FILES)]


def plan(beside: Beside, written: str, budget_ms: int | None = None, **asked: object) -> Plan:
    request = PlanRequest(filter=written, budget_ms=budget_ms, **asked)  # type: ignore[arg-type]
    return beside.service.plan(beside.made.ref, request)


def wait_until_complete(beside: Beside, written: str) -> Plan:
    never = threading.Event()
    while not (found := plan(beside, written, 0)).summary.complete:
        assert not never.wait(0.001)
    return found


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
    assert "4 files are kept without asking their indexes" in warning
    assert "budget_ms" in warning


def test_what_was_left_is_loaded_in_the_background(beside: Beside) -> None:
    assert names_of(plan(beside, "cat = 3", 0).files) == ALL

    found = wait_until_complete(beside, "cat = 3")

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
    beside.service._indexes.file_indexes.clear()  # noqa: SLF001 - as a cache that was too small
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
    "asked", [{"explain": True}, {"top_n": TopN((SortKey("place"),), 2)}], ids=["explain", "top_n"]
)
def test_explanations_and_first_rows_take_the_time_that_they_need(
    beside: Beside, asked: dict[str, object]
) -> None:
    assert plan(beside, "cat = 3", 0, **asked).summary.complete


@pytest.mark.parametrize("budget_ms", [0, 60_000])
def test_embedded_indexes_need_no_reading(beside: Beside, budget_ms: int) -> None:
    assert plan(beside, "place = 3", budget_ms).summary.complete
    assert names_of(plan(beside, "place = 3", budget_ms).files) == ["3"]


filters = st.sampled_from(
    [
        "cat = 1",
        "cat = 2 OR id = 4",
        "id = 5",
        "cat IN (1, 3) AND place > 0",
        "id < 3 AND cat = 2",
        "NOT cat = 1",
    ]
)


@given(questions=st.lists(st.tuples(filters, st.sampled_from([0, 1, None])), max_size=6))
@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_plan_leaves_out_more_than_a_complete_one(
    beside: Beside, questions: list[tuple[str, int | None]]
) -> None:
    truth = {written: names_of(plan(beside, written).files) for written, _ in questions}
    beside.service.clear_caches()
    for written, budget_ms in questions:
        found = plan(beside, written, budget_ms)
        assert set(names_of(found.files)) >= set(truth[written])
        if found.summary.complete:
            assert names_of(found.files) == truth[written]
