"""What is noted of files while a plan is made."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pyroaring import BitMap

from app.file_index.answers.result import Rows
from app.planning.plan.file_plan import ExplainStep, KeepReason, SkipStep
from app.planning.plan.state import PlanState, decision
from app.planning.version.files import FileColumns, Files
from app.planning.version.manifests import Manifests
from app.predicates.model import ALWAYS_FALSE, ALWAYS_TRUE, Unknown
from tests.table.entries import entry, manifest

COUNT = 5
ASKED = [0, 1, 3, 4]
SOME = st.sets(st.sampled_from(ASKED)).map(sorted)
CHANGES = st.lists(st.tuples(SOME, st.sampled_from([*SkipStep, *KeepReason])), max_size=6)


def start(*, explain: bool = False) -> PlanState:
    manifests = (manifest([entry(file_name=str(at), row_count=10 + at) for at in range(COUNT)]),)
    files = Files(FileColumns.of(manifests, [np.arange(COUNT)]), Manifests.of(manifests))
    return PlanState.start(files, numbers(ASKED), ALWAYS_TRUE, explain=explain)


def numbers(files: list[int]) -> NDArray[np.int64]:
    return np.array(files, np.int64)


def test_at_first_every_asked_file_is_kept_for_want_of_a_filter() -> None:
    state = start()

    assert state.left().tolist() == ASKED
    assert state.rows_left.tolist() == [10, 11, 12, 13, 14]
    assert {decision(code) for code in state.decisions(state.considered).tolist()} == {KeepReason.NO_FILTER}
    assert not state.is_exact(state.considered).any()


@given(changes=CHANGES, explain=st.booleans())
def test_the_last_word_on_each_file_counts(
    changes: list[tuple[list[int], SkipStep | KeepReason]], *, explain: bool
) -> None:
    state = start(explain=explain)
    decided: dict[int, SkipStep | KeepReason] = dict.fromkeys(ASKED, KeepReason.NO_FILTER)
    skips: dict[int, list[SkipStep]] = {file: [] for file in ASKED}
    for files, change in changes:
        if isinstance(change, SkipStep):
            state.skip(numbers(files), change, predicate=Unknown("why"))
            for file in files:
                skips[file].append(change)
        else:
            state.keep(numbers(files), change)
        decided.update(dict.fromkeys(files, change))

    assert [decision(code) for code in state.decisions(state.considered).tolist()] == list(decided.values())
    left = [file for file, last in decided.items() if isinstance(last, KeepReason)]
    assert state.left().tolist() == left
    assert state.is_left(state.considered).tolist() == [file in left for file in ASKED]
    if explain:
        assert state.steps == {
            file: [ExplainStep(step, "skip", predicate="why") for step in steps]
            for file, steps in skips.items()
        }
    else:
        assert state.steps is None


@pytest.mark.parametrize("what", [*KeepReason, *SkipStep])
def test_every_decision_has_a_code_of_its_own(what: KeepReason | SkipStep) -> None:
    state, file = start(), numbers([3])
    if isinstance(what, KeepReason):
        state.keep(file, what)
    else:
        state.skip(file, what)

    (code,) = state.decisions(file).tolist()
    assert decision(code) is what
    assert (code < 0) == isinstance(what, KeepReason)


def test_what_is_left_is_exact_by_statistics_or_by_rows_unless_it_merges() -> None:
    state = start()
    state.proven[[0, 1]] = True
    state.answers = {3: Rows(BitMap([1]), exact=True), 4: Rows(BitMap([1]), exact=False)}
    assert state.is_exact(state.considered).tolist() == [True, True, True, False]

    state.raw_convertible[[1, 3]] = False
    assert state.is_exact(state.considered).tolist() == [True, False, False, False]
    assert state.is_exact(numbers([3, 0])).tolist() == [False, True]


def test_files_are_cut_up_by_their_filter() -> None:
    state = start()
    state.predicates = [ALWAYS_TRUE, ALWAYS_FALSE]
    state.predicate_codes = np.array([0, 1, 0, 0, 1])

    found = [(predicate, files.tolist()) for predicate, files in state.by_predicate(numbers([0, 3, 4]))]

    assert found == [(ALWAYS_TRUE, [0, 3]), (ALWAYS_FALSE, [4])]
    assert not list(state.by_predicate(numbers([])))
