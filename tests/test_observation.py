from __future__ import annotations

from contextvars import copy_context

import pytest

from app.observation import NOBODY, Observer, Phase, during, observed_by, observer


class Diary(Observer):
    """Writes down what it is told of phases."""

    def __init__(self) -> None:
        self.entries: list[str] = []

    def phase_began(self, phase: Phase) -> None:
        self.entries.append(f"{phase} began")

    def phase_ended(self, phase: Phase) -> None:
        self.entries.append(f"{phase} ended")


def test_without_an_observer_nothing_happens() -> None:
    with during(Phase.LOAD):
        assert observer() is NOBODY


def test_phases_end_however_their_work_ends() -> None:
    diary = Diary()

    with observed_by(diary), during(Phase.EVALUATE), pytest.raises(KeyError), during(Phase.LOAD):
        raise KeyError

    assert diary.entries == ["evaluate began", "load began", "load ended", "evaluate ended"]
    assert observer() is NOBODY


def test_work_with_a_copy_of_the_context_tells_the_same_observer() -> None:
    diary = Diary()
    with observed_by(diary):
        context = copy_context()

    assert context.run(observer) is diary
