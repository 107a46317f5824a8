import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import FilterError
from app.predicates.like import ANY, ONE, like, literal_prefix, read_pattern, write_pattern
from tests.examples import examples
from tests.filters import matches_pattern, patterns


@examples(500)
@given(st.text("aé😀%_\\'", max_size=6), patterns())
def test_like_is_what_its_definition_says(value: str, pattern: str) -> None:
    assert like(value.encode(), pattern.encode()) is matches_pattern(value, pattern)


@given(patterns())
def test_patterns_are_written_as_they_are_read(pattern: str) -> None:
    pieces = read_pattern(pattern)

    assert read_pattern(write_pattern(pieces).decode()) == pieces


@given(st.text("ab%_\\", max_size=6), patterns())
def test_what_matches_starts_with_the_literal_prefix(value: str, pattern: str) -> None:
    if like(value.encode(), pattern.encode()):
        assert value.encode().startswith(literal_prefix(pattern.encode()))


@pytest.mark.parametrize("pattern", ["a\\", "\\a", "%\\b%"])
def test_a_backslash_escapes_wildcards_and_itself_only(pattern: str) -> None:
    with pytest.raises(FilterError, match="escapes neither"):
        read_pattern(pattern)


def test_one_behind_any_is_a_character_more() -> None:
    assert read_pattern("a%_%%") == (b"a", ANY, ONE, ANY)
    assert not like(b"a", b"a%_")


def test_another_escape_character_leaves_backslash_plain() -> None:
    assert write_pattern(read_pattern("100#%\\", "#")) == rb"100\%\\"


def test_strings_that_are_not_utf8_are_compared_as_they_are() -> None:
    assert like(b"\xff\x80a", b"%a")
    assert not like(b"\xff", b"")


def test_many_wildcards_do_not_multiply_the_work() -> None:
    assert not like(b"a" * 20_000, b"%a" * 100 + b"b")
