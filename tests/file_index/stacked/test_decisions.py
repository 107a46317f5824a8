from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.file_index.answers.file_answers import Answer
from app.file_index.stacked.evaluation import FileDecisions

FILES = 6
KINDS = ("bloom-filter", "bitmap", "a kind that nobody knows")
CODES = (Answer.SKIP, Answer.ROWS, Answer.KEEP)


@st.composite
def decisions(draw: st.DrawFn) -> FileDecisions:
    """What indexes say of some files, and what that comes to, in whatever way it was combined."""
    said = []
    for kind in draw(st.lists(st.sampled_from(KINDS), max_size=4)):
        at = np.array(sorted(draw(st.sets(st.integers(0, FILES - 1)))), np.int64)
        said.append((kind, at, np.array([draw(st.sampled_from(CODES)) for _ in at], np.int8)))
    answers = np.array([draw(st.sampled_from(CODES)) for _ in range(FILES)], np.int8)
    return FileDecisions(answers, np.ones(FILES, bool), np.zeros(FILES, bool), {}, said)


@given(decisions())
def test_each_skipped_file_counts_for_one_kind(decided: FileDecisions) -> None:
    counted = sum((skipped.astype(int) for _, skipped in decided.skipped_by()), np.zeros(FILES, int))

    assert counted.tolist() == decided.skip.astype(int).tolist()


def test_the_last_kind_that_ruled_a_file_out_counts() -> None:
    everything = np.arange(3)
    skip, keep = Answer.SKIP, Answer.KEEP
    said = [
        ("bloom-filter", everything, np.array([skip, keep, keep])),
        ("bitmap", everything[1:], np.array([skip, keep])),
    ]
    decided = FileDecisions(np.array([skip, skip, skip]), np.ones(3, bool), np.zeros(3, bool), {}, said)

    by_kind = {kind: np.flatnonzero(skipped).tolist() for kind, skipped in decided.skipped_by()}

    # The third was ruled out by what both say together.
    assert by_kind == {None: [], "bloom-filter": [0], "bitmap": [1, 2]}
