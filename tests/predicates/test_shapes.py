"""What is told of a filter: its form, and none of its values."""

import pytest

from app.predicates.binding import bind
from app.predicates.model import shape_of
from app.predicates.text import read_text
from tests.tables import columns_of

FIELDS = columns_of("a: INT; b`c: STRING; m: MAP<STRING, INT>")


def shape(condition: str) -> str:
    return shape_of(bind(read_text(condition), FIELDS))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a = 5", "`a` = ?"),
        ("a IN (5, 6, 7)", "`a` IN (?, ?)"),
        ("a BETWEEN 5 AND 6 AND `b``c` LIKE 'x%y'", "`a` BETWEEN ? AND ? AND `b``c` LIKE ?"),
        ("a IS NULL OR a > 5 AND `b``c` <> 'x'", "`a` IS NULL OR (`a` > ? AND `b``c` <> ?)"),
        ("a > 5 AND upper(`b``c`) = 'secret'", "`a` > ? AND TRUE"),
    ],
)
def test_question_marks_stand_for_values(condition: str, expected: str) -> None:
    assert shape(condition) == expected


@pytest.mark.parametrize("condition", ["TRUE", "upper(`b``c`) = 'secret'", "m['secret'] = 5"])
def test_what_is_known_by_its_values_alone_has_no_shape(condition: str) -> None:
    assert shape(condition) == ""


def test_a_long_filter_has_no_shape() -> None:
    tests = [f"`b``c` LIKE '%{number}%'" for number in range(17)]
    assert shape(" OR ".join(tests[:16])) == " OR ".join(["`b``c` LIKE ?"] * 16)
    assert shape(" OR ".join(tests)) == ""
