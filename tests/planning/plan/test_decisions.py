"""What is noted of files while a plan is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from app.file_index.result import Rows
from app.planning.plan.decisions import Drafts, decision
from app.planning.plan.file_plan import ExplainStep, KeepReason, SkipStep
from app.planning.version.files import FileColumns, Files
from app.predicates.model import ALWAYS_FALSE, ALWAYS_TRUE, Unknown
from tests.table.entries import entry, manifest

if TYPE_CHECKING:
    from numpy.typing import NDArray

COUNT = 5
ASKED = [0, 1, 3, 4]
SOME = st.sets(st.sampled_from(ASKED)).map(sorted)
CHANGES = st.lists(st.tuples(SOME, st.sampled_from([*SkipStep, *KeepReason])), max_size=6)


def start(*, explain: bool = False) -> Drafts:
    manifests = (manifest([entry(file_name=str(at), row_count=10 + at) for at in range(COUNT)]),)
    files = Files(FileColumns.of(manifests, [np.arange(COUNT)]), manifests)
    return Drafts.start(files, numbers(ASKED), ALWAYS_TRUE, explain=explain)


def numbers(files: list[int]) -> NDArray[np.int64]:
    return np.array(files, np.int64)


def test_at_first_every_asked_file_is_kept_for_want_of_a_filter() -> None:
    drafts = start()

    assert drafts.left().tolist() == ASKED
    assert drafts.live_rows.tolist() == [10, 11, 12, 13, 14]
    assert {decision(code) for code in drafts.decisions(drafts.asked).tolist()} == {KeepReason.NO_FILTER}
    assert not drafts.is_exact(drafts.asked).any()


@given(changes=CHANGES, explain=st.booleans())
@settings(deadline=None)
def test_the_last_word_on_each_file_counts(
    changes: list[tuple[list[int], SkipStep | KeepReason]], *, explain: bool
) -> None:
    drafts = start(explain=explain)
    decided: dict[int, SkipStep | KeepReason] = dict.fromkeys(ASKED, KeepReason.NO_FILTER)
    skips: dict[int, list[SkipStep]] = {file: [] for file in ASKED}
    for files, change in changes:
        if isinstance(change, SkipStep):
            drafts.skip(numbers(files), change, predicate=Unknown("why"))
            for file in files:
                skips[file].append(change)
        else:
            drafts.keep(numbers(files), change)
        decided.update(dict.fromkeys(files, change))

    assert [decision(code) for code in drafts.decisions(drafts.asked).tolist()] == list(decided.values())
    left = [file for file, last in decided.items() if isinstance(last, KeepReason)]
    assert drafts.left().tolist() == left
    assert drafts.is_left(drafts.asked).tolist() == [file in left for file in ASKED]
    if explain:
        assert drafts.steps == {
            file: [ExplainStep(step, "skip", predicate="why") for step in steps]
            for file, steps in skips.items()
        }
    else:
        assert drafts.steps is None


@pytest.mark.parametrize("what", [*KeepReason, *SkipStep])
def test_every_decision_has_a_code_of_its_own(what: KeepReason | SkipStep) -> None:
    drafts, file = start(), numbers([3])
    if isinstance(what, KeepReason):
        drafts.keep(file, what)
    else:
        drafts.skip(file, what)

    (code,) = drafts.decisions(file).tolist()
    assert decision(code) is what
    assert (code < 0) == isinstance(what, KeepReason)


def test_what_is_left_is_exact_by_statistics_or_by_rows_unless_it_merges() -> None:
    drafts = start()
    drafts.proven[[0, 1]] = True
    drafts.answers = {3: Rows(BitMap([1]), exact=True), 4: Rows(BitMap([1]), exact=False)}
    assert drafts.is_exact(drafts.asked).tolist() == [True, True, True, False]

    drafts.raw_convertible[[1, 3]] = False
    assert drafts.is_exact(drafts.asked).tolist() == [True, False, False, False]
    assert drafts.is_exact(numbers([3, 0])).tolist() == [False, True]


def test_files_are_cut_up_by_their_filter() -> None:
    drafts = start()
    drafts.predicates = [ALWAYS_TRUE, ALWAYS_FALSE]
    drafts.predicate_codes = np.array([0, 1, 0, 0, 1])

    found = [(predicate, files.tolist()) for predicate, files in drafts.by_predicate(numbers([0, 3, 4]))]

    assert found == [(ALWAYS_TRUE, [0, 3]), (ALWAYS_FALSE, [4])]
    assert not list(drafts.by_predicate(numbers([])))
