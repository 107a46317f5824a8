import pytest

from app.suggestions import alike, hint, listed

COLUMNS = ("id", "city", "Amount", "order_id")


@pytest.mark.parametrize(
    ("word", "names"),
    [("citi", ["city"]), ("AMOUNT", ["Amount"]), ("orderid", ["order_id"]), ("zip_code", []), ("", [])],
)
def test_names_that_are_spelled_alike_are_meant(word: str, names: list[str]) -> None:
    assert alike(word, COLUMNS)[:1] == names


def test_another_word_for_a_name_goes_before_its_spelling() -> None:
    synonyms = {"where": "filter"}

    assert alike("WHERE", ["filter", "here"], synonyms) == ["filter"]
    assert alike("where", ["here"], synonyms) == ["here"]


def test_a_hint_goes_on_with_a_message() -> None:
    assert hint("citi", COLUMNS) == ": did you mean 'city'?"
    assert hint("citi", ["city"], plural="columns") == ": did you mean 'city'? Columns: city"
    assert hint("zip", ["city"], plural="columns") == "; columns: city"
    assert hint("zip", ["city"]) == ""
    assert hint("zip", [], plural="columns") == "; there are no columns"


def test_of_many_names_the_first_are_listed_and_the_best_is_found() -> None:
    names = [f"column_{number}" for number in range(100)]

    text = hint("colum_77", names, plural="columns")

    assert "'column_77'" in text
    assert text.endswith("column_23, and 76 more")
    assert listed(["x" * 1000]) == "x" * 64


def test_very_many_names_and_very_long_words_are_compared_in_part() -> None:
    text = hint("x" * 1_000_000, (f"{number}{'x' * 1_000}" for number in range(100_000)), plural="tables")

    assert len(text) < 2_000
    assert text.endswith("and many more")
