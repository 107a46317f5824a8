"""Tests of CHAR columns: nothing is lost, however values are padded where they are stored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.predicates.model import BoundLeaf, BoundPredicate, Unknown, leaves
from app.types import DataField, parse_type
from tests.bound_filters import bind_json, bind_text
from tests.char_meaning import LISTS, CharTest, char_tests, texts
from tests.examples import examples
from tests.row_matches import matches

_LENGTHS = st.integers(1, 5)


def _column(length: int) -> DataField:
    return DataField(3, "c", parse_type(f"CHAR({length})"))


def _text(written: str, length: int) -> BoundPredicate:
    return bind_text(written, [_column(length)])


def _keeps(predicate: BoundPredicate, stored: str) -> bool | None:
    return matches(predicate, {3: stored.encode()})


def _is_proven(predicate: BoundPredicate) -> bool:
    return not any(isinstance(leaf, Unknown) for leaf in leaves(predicate))


@examples(300)
@given(char_tests(), texts(), _LENGTHS)
def test_text_keeps_what_readers_keep_and_proves_nothing_else(
    asked: CharTest, stored: str, length: int
) -> None:
    kept = _keeps(_text(asked.text("c"), length), stored)

    for means in (asked.spark(stored, length), asked.spark_3(stored, length)):
        assert kept is not False or not means
        assert kept is not True or means


@examples(300)
@given(char_tests(), texts(), _LENGTHS)
def test_json_keeps_what_spark_or_the_engine_keeps(asked: CharTest, stored: str, length: int) -> None:
    if asked.function == "NOT_LIKE":
        return
    kept = _keeps(bind_json(asked.json("c"), [_column(length)]), stored)

    for means in (asked.spark(stored, length), asked.spark_3(stored, length), asked.as_stored(stored)):
        assert kept is not False or not means
        assert kept is not True or means


@examples(300)
@given(char_tests(), texts(), _LENGTHS)
def test_a_key_of_a_map_keeps_what_any_reader_keeps(asked: CharTest, stored: str, length: int) -> None:
    of_map = DataField(3, "m", parse_type(f"MAP<STRING, CHAR({length})>"))
    bound = [bind_text(asked.text("m['k']"), [of_map])]
    if asked.function != "NOT_LIKE":
        bound.append(bind_json(asked.json("m[k]"), [of_map]))
    for predicate in bound:
        kept = _keeps(predicate, stored)

        for means in (asked.of_map_key(stored, length), asked.spark(stored, length), asked.as_stored(stored)):
            assert kept is not False or not means
            assert kept is not True or means


@examples(300)
@given(char_tests(), texts(), _LENGTHS)
def test_equalities_and_lists_of_text_are_exact(asked: CharTest, stored: str, length: int) -> None:
    if asked.function not in ("EQUAL", "NOT_EQUAL", *LISTS) or max(map(len, asked.literals)) > length:
        return
    assert _keeps(_text(asked.text("c"), length), stored) is asked.spark(stored, length)


@examples(300)
@given(char_tests(), texts(), _LENGTHS)
def test_negations_keep_what_the_test_does_not(asked: CharTest, stored: str, length: int) -> None:
    negated = _text(f"NOT ({asked.text('c')})", length)

    for means in (asked.spark(stored, length), asked.spark_3(stored, length)):
        assert _keeps(negated, stored) is not False or means
        assert _keeps(negated, stored) is not True or not means


@given(char_tests(), _LENGTHS)
def test_null_passes_no_test(asked: CharTest, length: int) -> None:
    assert matches(_text(asked.text("c"), length), {3: None}) is not True


def test_lengths_are_of_characters() -> None:
    assert str(_text("c = 'é'", 3)) == "c IN ('é', 'é ', 'é  ')"


def test_null_in_a_list_finds_and_proves_nothing() -> None:
    assert str(_text("c NOT IN ('c3', NULL)", 4)) == "FALSE"
    assert str(_text("c IN (NULL)", 4)) == "FALSE"
    # Spark 4.0 overlooks a literal of the list; whoever reads the rows has to ask it again.
    assert not _is_proven(_text("c IN ('abcd', 'c3', NULL)", 4))
    assert _keeps(_text("c IN ('abcd', 'c3', NULL)", 4), "c3") is None


def test_not_null_safe_equal_keeps_null() -> None:
    assert matches(_text("NOT (c <=> 'c3')", 4), {3: None}) is True


@pytest.mark.parametrize(
    "written",
    [
        "c < 'c3'",
        "c >= 'c3'",
        "c BETWEEN 'aa' AND 'c3'",
        "c NOT BETWEEN 'aa' AND 'c3'",
        "c LIKE 'c3%'",
        "c <> 'abcdef'",
    ],
)
def test_other_tests_and_longer_literals_are_unknown(written: str) -> None:
    bound = _text(written, 4)

    assert isinstance(bound, Unknown)
    assert bound.reason is not None


def test_a_longer_literal_covers_what_begins_with_it() -> None:
    found = _text("c IN ('abcdef', 'c3')", 4)

    assert _keeps(found, "abcdefgh") is None
    assert _keeps(found, "c3") is None
    assert _keeps(found, "abc") is False


def test_forms_of_all_literals_share_the_room() -> None:
    many = " OR ".join(f"c = 'x{number}'" for number in range(2_000))

    predicate = _text(many, 255)

    listed = [leaf.literals for leaf in leaves(predicate) if isinstance(leaf, BoundLeaf)]
    assert sum(map(len, listed)) < 200_000
    assert _keeps(predicate, "x0") is True
    assert _keeps(predicate, "x1999") is None


@pytest.mark.parametrize("key", ["k", "k ", "abc "])
def test_a_key_of_char_that_may_be_stored_in_several_forms_is_not_decided(key: str) -> None:
    fields = [DataField(3, "m", parse_type("MAP<CHAR(4), INT>"))]
    in_json = CharTest("IS_NULL", ()).json(f"m[{key}]")

    for bound in (
        bind_text(f"m['{key}'] = 5", fields),
        bind_text(f"m['{key}'] IS NULL", fields),
        bind_json(in_json, fields),
    ):
        assert isinstance(bound, Unknown)


def test_a_key_of_char_as_long_as_its_type_is_decided() -> None:
    fields = [DataField(3, "m", parse_type("MAP<CHAR(4), INT>"))]

    assert str(bind_text("m['abcd'] = 5", fields)) == "m[abcd] = 5"
