"""What was tried for files: each has its steps in their order, however they are kept."""

from collections.abc import Callable, Iterator
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from app.errors import LimitExceededError
from app.planning.plan.explanation import CodedSteps, Explanation, FileSteps, MeasuredSteps, Unless
from app.planning.plan.file_plan import ExplainStep
from app.planning.request.limits import CacheBytes, Limits
from app.planning.service import IndexService
from app.storage import Warehouse
from app.types import DataField, parse_type
from app.work.ledger import LEDGER, REFUSE
from tests.examples import examples
from tests.tables import MadeTable, entry, statistics

FILES = 9


def numbers(files: list[int]) -> NDArray[np.int64]:
    return np.array(files, np.int64)


STEPS = st.builds(
    ExplainStep,
    st.sampled_from(["statistics", "file_index"]),
    st.sampled_from(["skip", "keep", "rows"]),
    rows=st.sampled_from([None, 0, 1 << 40]),
    evidence=st.sampled_from([None, "a", "b"]),
    fpp=st.sampled_from([None, 0.1]),
    index_bytes=st.sampled_from([None, 7]),
)
NOTES = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, FILES - 1), STEPS), unique_by=lambda pair: pair[0]),
        st.sampled_from(Unless),
        st.sampled_from(["coded", "measured", "alike"]),
    ),
    max_size=8,
)


@given(notes=NOTES, page=st.lists(st.integers(0, FILES - 1), unique=True))
@examples(60)
def test_each_file_has_its_steps_in_the_order_in_which_they_were_tried(
    notes: list[tuple[list[tuple[int, ExplainStep]], Unless, str]], page: list[int]
) -> None:
    explanation, expected = Explanation(), {file: list[ExplainStep]() for file in range(FILES)}
    for pairs, unless, form in notes:
        files, steps = [file for file, _ in pairs], [step for _, step in pairs]
        if form == "alike" and steps:
            steps = [steps[0]] * len(files)
            explanation.add(numbers(files), steps[0], unless)
        elif form == "measured":
            explanation.add(numbers(files), MeasuredSteps.of(steps), unless)
        else:
            explanation.add(numbers(files), CodedSteps(steps, np.arange(len(steps))), unless)
        for file, step in zip(files, steps, strict=True):
            if not unless.leaves_out(step, expected[file]):
                expected[file].append(step)

    assert explanation.of(numbers(page)) == [tuple(expected[file]) for file in page]
    split = FileSteps(((explanation, numbers(page[:2])), (explanation, numbers(page[2:]))))
    assert split[1:4] == [tuple(expected[file]) for file in page[1:4]]
    assert len(split) == len(page)


def test_files_that_are_looked_at_one_after_the_other_leave_few_notes() -> None:
    explanation, files = Explanation(), 10_000
    for file in range(files):
        explanation.add(numbers([file]), ExplainStep("top_n", "rows", rows=file))

    assert explanation.nbytes < 40 * files
    assert explanation.of(numbers([7, 9_999])) == [
        (ExplainStep("top_n", "rows", rows=7),),
        (ExplainStep("top_n", "rows", rows=9_999),),
    ]


NUMBER = DataField(0, "number", parse_type("BIGINT"))
MANY = 5_000


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> MadeTable:
    made = MadeTable.make(tmp_path_factory.mktemp("many"), [NUMBER])
    made.commit(
        [
            entry(file_name=f"data-{at}.parquet", row_count=10, **statistics({NUMBER: [at, at + 9]}))
            for at in range(MANY)
        ]
    )
    return made


@pytest.fixture
def service(many: MadeTable) -> Iterator[IndexService]:
    warehouses = {"golden": Warehouse("golden", str(many.directory.parent.parent))}
    # No plan is kept: each is made.
    opened = IndexService(warehouses, cache_bytes=CacheBytes(plans=0), limits=Limits())
    with closing(opened) as service:
        many.plan(service, "number < 0")
        yield service


def test_an_explanation_of_many_files_takes_few_bytes_each(many: MadeTable, service: IndexService) -> None:
    plan = many.plan(service, f"number >= {MANY // 2} OR number < 0", explain=True)

    steps = plan.skipped_files.steps
    assert steps is not None
    assert len(plan.files) + len(steps) == MANY
    assert steps.nbytes < 2 * 64 * MANY
    first = plan.skipped_files[0].explain
    assert first is not None
    assert first[0].evidence == f"number min 0 max 9 < {MANY // 2}"


@pytest.mark.parametrize("explain", [False, True])
def test_what_a_plan_takes_is_claimed_until_nobody_has_it(
    many: MadeTable, service: IndexService, *, explain: bool
) -> None:
    nothing = LEDGER.claimed.get("plans", 0)

    plan = many.plan(service, "number >= 0", explain=explain)

    assert LEDGER.claimed["plans"] - nothing >= 165 * MANY
    assert len(plan.files) == MANY
    del plan
    assert LEDGER.claimed["plans"] == nothing


@pytest.mark.parametrize(("written", "explain"), [("number >= 0", False), ("number < 0", True)])
def test_a_plan_that_can_never_fit_is_refused_before_it_is_made(
    many: MadeTable,
    service: IndexService,
    limit_memory: Callable[[int], None],
    written: str,
    *,
    explain: bool,
) -> None:
    limit_memory(int(1_000_000 / REFUSE))

    with pytest.raises(LimitExceededError, match="PAIMON_INDEX_MEMORY_BYTES"):
        many.plan(service, written, explain=explain)

    assert many.plan(service, "number < 100").summary.files_kept == 100
