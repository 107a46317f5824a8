from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context

from app.observation import NO_OBSERVER, Observer, Phase, during, observed_by, observer


class Diary(Observer):
    """Writes down what it is told of phases."""

    def __init__(self) -> None:
        self.entries: list[str] = []

    @contextmanager
    def phase(self, phase: Phase) -> Iterator[None]:
        self.entries.append(f"{phase} began")
        yield
        self.entries.append(f"{phase} ended")


def test_without_an_observer_nothing_happens() -> None:
    with during(Phase.LOAD):
        assert observer() is NO_OBSERVER


def test_whoever_observes_is_told_of_phases() -> None:
    diary = Diary()

    with observed_by(diary), during(Phase.EVALUATE), during(Phase.LOAD):
        assert diary.entries == ["evaluate began", "load began"]

    assert diary.entries[2:] == ["load ended", "evaluate ended"]
    assert observer() is NO_OBSERVER


def test_work_with_a_copy_of_the_context_tells_the_same_observer() -> None:
    diary = Diary()
    with observed_by(diary):
        context = copy_context()

    assert context.run(observer) is diary
