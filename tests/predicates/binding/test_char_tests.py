"""Tests of CHAR columns: nothing is lost, however values are padded where they are stored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.predicates.binding.binding import bind
from app.predicates.json_reader import read_json_filter
from app.predicates.model import BoundLeaf, BoundPredicate, Unknown, leaves
from app.predicates.sql.reader import read_sql
from app.types import DataField, parse_type
from tests.char_meaning import LISTS, CharTest, char_tests, texts
from tests.examples import examples
from tests.row_matches import matches

_LENGTHS = st.integers(1, 5)


def _column(length: int) -> DataField:
    return DataField(3, "c", parse_type(f"CHAR({length})"))


def _sql(written: str, length: int) -> BoundPredicate:
    return bind(read_sql(written), [_column(length)])


def _keeps(predicate: BoundPredicate, stored: str) -> bool | None:
    return matches(predicate, {3: stored.encode()})


def _is_proven(predicate: BoundPredicate) -> bool:
    return not any(isinstance(leaf, Unknown) for leaf in leaves(predicate))


@examples(300)
@given(char_tests(), texts(), _LENGTHS)
def test_sql_keeps_what_spark_keeps_and_proves_nothing_else(
    asked: CharTest, stored: str, length: int
) -> None:
    kept = _keeps(_sql(asked.sql("c"), length), stored)

    for means in (asked.spark(stored, length), asked.spark_3(stored, length)):
        assert kept is not False or not means
        assert kept is not True or means


@examples(300)
@given(char_tests(), texts(), _LENGTHS)
def test_json_keeps_what_spark_or_the_engine_keeps(asked: CharTest, stored: str, length: int) -> None:
    if asked.function == "NOT_LIKE":
        return
    kept = _keeps(bind(read_json_filter(asked.json("c")), [_column(length)]), stored)

    for means in (asked.spark(stored, length), asked.spark_3(stored, length), asked.as_stored(stored)):
        assert kept is not False or not means
        assert kept is not True or means


@examples(300)
@given(char_tests(), texts(), _LENGTHS)
def test_a_key_of_a_map_keeps_what_any_reader_keeps(asked: CharTest, stored: str, length: int) -> None:
    of_map = DataField(3, "m", parse_type(f"MAP<STRING, CHAR({length})>"))
    forms = [read_sql(asked.sql("m['k']"))]
    if asked.function != "NOT_LIKE":
        forms.append(read_json_filter(asked.json("m[k]")))
    for form in forms:
        kept = _keeps(bind(form, [of_map]), stored)

        for means in (asked.of_map_key(stored, length), asked.spark(stored, length), asked.as_stored(stored)):
            assert kept is not False or not means
            assert kept is not True or means


@examples(300)
@given(char_tests(), texts(), _LENGTHS)
def test_equalities_and_lists_of_sql_are_exact(asked: CharTest, stored: str, length: int) -> None:
    if asked.function not in ("EQUAL", "NOT_EQUAL", *LISTS) or max(map(len, asked.literals)) > length:
        return
    assert _keeps(_sql(asked.sql("c"), length), stored) is asked.spark(stored, length)


@examples(300)
@given(char_tests(), texts(), _LENGTHS)
def test_negations_keep_what_the_test_does_not(asked: CharTest, stored: str, length: int) -> None:
    negated = _sql(f"NOT ({asked.sql('c')})", length)

    for means in (asked.spark(stored, length), asked.spark_3(stored, length)):
        assert _keeps(negated, stored) is not False or means
        assert _keeps(negated, stored) is not True or not means


@given(char_tests(), _LENGTHS)
def test_null_passes_no_test(asked: CharTest, length: int) -> None:
    assert matches(_sql(asked.sql("c"), length), {3: None}) is not True


def test_lengths_are_of_characters() -> None:
    assert str(_sql("c = 'é'", 3)) == "c IN ('é', 'é ', 'é  ')"


def test_null_in_a_list_finds_and_proves_nothing() -> None:
    assert str(_sql("c NOT IN ('c3', NULL)", 4)) == "FALSE"
    assert str(_sql("c IN (NULL)", 4)) == "FALSE"
    # Spark 4.0 overlooks a literal of the list; whoever reads the rows has to ask it again.
    assert not _is_proven(_sql("c IN ('abcd', 'c3', NULL)", 4))
    assert _keeps(_sql("c IN ('abcd', 'c3', NULL)", 4), "c3") is None


def test_not_null_safe_equal_keeps_null() -> None:
    assert matches(_sql("NOT (c <=> 'c3')", 4), {3: None}) is True


@pytest.mark.parametrize(
    ("written", "bound"),
    [
        ("c = 'abcd'", "c = 'abcd'"),
        ("c <> 'abcd'", "c <> 'abcd'"),
        ("c LIKE 'c3%'", "c STARTS WITH 'c3'"),
        ("c LIKE 'a_d%'", "c LIKE 'a_d%'"),
        ("contains(c, '3')", "c CONTAINS '3'"),
        ("c LIKE '%'", "c IS NOT NULL"),
        ("startswith(c, '')", "c IS NOT NULL"),
    ],
)
def test_what_all_readers_understand_alike_is_said_simply(written: str, bound: str) -> None:
    assert str(_sql(written, 4)) == bound


@pytest.mark.parametrize(
    ("written", "bound"),
    [
        ("c >= 'c3'", "c >= 'c3'"),
        ("c < 'c3 '", "(c < 'c3' OR c STARTS WITH 'c3')"),
        ("c BETWEEN 'aa' AND 'c3'", "c >= 'aa' AND (c < 'c3' OR c STARTS WITH 'c3')"),
        ("c LIKE '%3'", "c CONTAINS '3'"),
        ("c LIKE 'c3  '", "c STARTS WITH 'c3'"),
        ("c = 'abcdef'", "c STARTS WITH 'abcdef'"),
    ],
)
def test_what_readers_understand_in_several_ways_is_wider_and_not_proven(written: str, bound: str) -> None:
    found = _sql(written, 4)

    assert str(found) == f"{bound} AND {written}"
    assert not _is_proven(found)


@examples(200)
@given(char_tests(), texts())
def test_more_forms_than_there_is_room_for_keep_more(asked: CharTest, stored: str) -> None:
    length = 5_000_000
    predicate = _sql(asked.sql("c"), length)

    # Characters are what matters, so a shorter CHAR that pads all of these means the same.
    assert _keeps(predicate, stored) is not False or not asked.spark(stored, 20)
    assert len(str(predicate)) < 10_000


def test_forms_of_all_literals_share_the_room() -> None:
    many = " OR ".join(f"c = 'x{number}'" for number in range(2_000))

    predicate = _sql(many, 255)

    listed = [leaf.literals for leaf in leaves(predicate) if isinstance(leaf, BoundLeaf)]
    assert sum(map(len, listed)) < 200_000
    assert _keeps(predicate, "x0") is True
    assert _keeps(predicate, "x1999") is None
    assert _keeps(predicate, "y") is False


@pytest.mark.parametrize("key", ["k", "k ", "abc "])
def test_a_key_of_char_that_may_be_stored_in_several_forms_is_not_decided(key: str) -> None:
    fields = [DataField(3, "m", parse_type("MAP<CHAR(4), INT>"))]
    in_json = CharTest("IS_NULL", ()).json(f"m[{key}]")

    for form in (read_sql(f"m['{key}'] = 5"), read_sql(f"m['{key}'] IS NULL"), read_json_filter(in_json)):
        assert isinstance(bind(form, fields), Unknown)


def test_a_key_of_char_as_long_as_its_type_is_decided() -> None:
    fields = [DataField(3, "m", parse_type("MAP<CHAR(4), INT>"))]

    assert str(bind(read_sql("m['abcd'] = 5"), fields)) == "m[abcd] = 5"
