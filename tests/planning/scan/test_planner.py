"""One warning of files that a filter keeps since neither bounds nor an index decide it."""

import pytest

from app.file_index.index_kinds import BLOOM_FILTER
from app.planning.plan.answers import Plan
from app.types import DataField, Value, parse_type
from tests.tables import MadeTables, entry, file_of, no_statistics

DAY, NAME = DataField(0, "day", parse_type("INT")), DataField(1, "name", parse_type("STRING"))
MOMENT = DataField(2, "moment", parse_type("TIMESTAMP(6) WITH LOCAL TIME ZONE"))
ROWS: list[Value | None] = [b"anna", b"brien"]


def planned(
    warehouse: MadeTables,
    condition: str,
    *,
    bounded: bool = False,
    options: dict[str, str] | None = None,
    **asked: object,
) -> Plan:
    made = warehouse.make((DAY, NAME, MOMENT), options=options)
    made.commit([file_of(f"data-{at}", {NAME: ROWS}, BLOOM_FILTER, bounded=bounded) for at in range(3)])
    return made.plan(warehouse.service, condition, **asked)


@pytest.mark.parametrize(
    ("condition", "tests"),
    [
        (
            "day = 5",
            ["day = 5 (bounds of day would, or an index of it: bloom-filter, bitmap, range-bitmap, bsi)"],
        ),
        ("day <> 5", ["day <> 5 (bounds of day would, or an index of it: bitmap, range-bitmap, bsi)"]),
        (
            "5 < day AND day < 9",
            ["day > 5 (bounds of day would, or an", "; day < 9 (bounds of day would, or an"],
        ),
        ("day IS NULL", ["day IS NULL (bounds of day would, or an index of it: bitmap, range-bitmap, bsi)"]),
        (
            "name LIKE 'anna%'",
            ["name STARTS WITH 'anna' (bounds of name would, or an index of it: bitmap, range-bitmap)"],
        ),
        (
            "name <> 'anna'",
            ["name <> 'anna' (bounds of name would, or an index of it: bitmap, range-bitmap)"],
        ),
        (
            "name LIKE '%rie%'",
            ["name CONTAINS 'rie' (only patterns with a fixed beginning can", "decided: name LIKE 'abc%')"],
        ),
        (" OR ".join(f"day > {each} AND name <> '{each}'" for each in range(9)), ["; and 13 more tests"]),
    ],
)
def test_files_that_nobody_could_be_asked_of_are_counted_with_what_would_decide(
    warehouse: MadeTables, condition: str, tests: list[str]
) -> None:
    for _ in range(2):
        (warning,) = planned(warehouse, condition).warnings

        assert warning.startswith(
            "3 files are kept undecided, since none of them has bounds or an index that decide "
        )
        assert all(test in warning for test in tests), warning


def test_a_table_that_does_not_want_its_indexes_read_is_not_told_of_indexes(warehouse: MadeTables) -> None:
    (warning,) = planned(warehouse, "day = 5", options={"file-index.read.enabled": "false"}).warnings

    assert warning.endswith("(bounds of day would)")


def test_an_index_that_is_declared_and_missing_is_named_with_the_job_that_builds_it(
    warehouse: MadeTables,
) -> None:
    declared = {"file-index.bitmap.columns": "day", "file-index.bloom-filter.columns": "name"}

    (warning,) = planned(warehouse, "day <> 5", options=declared).warnings
    (of_a_range,) = planned(warehouse, "name > 'anna'", options=declared).warnings

    assert "day <> 5 (declared: bitmap; these files lack it: `paimon-index job build-index " in warning
    assert "bounds of name would, or an index of it" in of_a_range  # a bloom filter would not decide it


@pytest.mark.parametrize(
    ("condition", "bounded"),
    [
        ("name = 'anna'", False),  # the index says that it may be there
        ("name = 'anna' AND name LIKE '%n%'", False),
        ("name >= 'b'", True),
        ("name LIKE 'b%' OR name <> 'c'", True),
        ("name IS NULL", True),
        ("name = 'other'", False),
    ],
)
def test_files_of_which_somebody_was_asked_are_not_undecided(
    warehouse: MadeTables, condition: str, *, bounded: bool
) -> None:
    assert not planned(warehouse, condition, bounded=bounded).warnings


def test_bounds_say_nothing_of_what_stands_within_a_text(warehouse: MadeTables) -> None:
    (warning,) = planned(warehouse, "name LIKE '%rie%'", bounded=True).warnings

    assert "name CONTAINS 'rie'" in warning


@pytest.mark.parametrize(
    "condition", ["moment = '2026-11-03 00:00:00' OR upper(name) = 'B'", "day = 5", "name LIKE '%n%'"]
)
def test_nothing_is_said_of_narrowing_an_answer_without_files(warehouse: MadeTables, condition: str) -> None:
    plan = planned(warehouse, f"name = 'other' AND ({condition})")

    assert (len(plan.files), plan.warnings) == (0, ())


def test_remembered_plans_say_so_too(warehouse: MadeTables) -> None:
    made = warehouse.make((DAY, NAME, MOMENT))
    made.commit([entry(file_name="data", row_count=2, **no_statistics())])

    first, again = (made.plan(warehouse.service, "day = 5") for _ in range(2))

    assert first is again
    assert len(again.warnings) == 1
