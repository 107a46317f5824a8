import pytest

from benchmarks.bounds.asking import OK, Answer

FIRST, BOTH = frozenset({"data-0"}), frozenset({"data-0", "data-1"})


@pytest.mark.parametrize(
    ("answer", "is_right"),
    [
        (Answer(0, OK, FIRST, total=2, is_page=True), True),
        (Answer(0, OK, FIRST, total=1, is_page=True), False),
        (Answer(0, OK, FIRST, total=2), False),
        (Answer(0, OK, BOTH, total=2), True),
    ],
)
def test_a_page_is_right_if_its_files_are_and_all_are_counted(answer: Answer, *, is_right: bool) -> None:
    assert answer.agrees(BOTH) is is_right
