"""Where the engine, up to release 1.4.2, loses rows or fails, a plan does not: one test per known defect.

Golden queries bring the rows that truly match; where the engine's own answer is recorded to differ from them,
the test first makes sure that the tables really show the defect.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from app.errors import CorruptIndexError
from app.file_index.index_kinds import KINDS
from app.planning.evaluated_files import FileVerdict
from app.planning.plan.answers import Plan
from app.planning.request.requests import (
    ColumnRef,
    EvaluateRequest,
    IndexFileRef,
    PlanRequest,
    SortKey,
    TopN,
)
from app.planning.service import IndexService
from app.types import DataField, Value, parse_type
from tests.copied_tables import CopyTable
from tests.golden_cases import expected
from tests.golden_checks import positions
from tests.tables import golden_ref, index_of

_ZEROS = ("zero", "neg_zero")


def golden_query(table: str, name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(each for each in expected(table)["queries"] if each["name"] == name)
    return found


def plan(service: IndexService, table: str, query: Mapping[str, Any]) -> Plan:
    return service.plan(golden_ref(table), PlanRequest(filter=query["filter_sql"]))


def assert_holds_every_match(service: IndexService, table: str, query: Mapping[str, Any]) -> None:
    kept = {file.file_name: file for file in plan(service, table, query).files}
    assert query["matching"]
    for file, recorded in query["matching"].items():
        chosen = kept[file].selection
        assert chosen is None or positions(recorded) <= set(chosen)


def made(kind: str, data_type: str, values: Sequence[Value | None]) -> bytes:
    return index_of({DataField(0, "c", parse_type(data_type)): values}, KINDS[kind])


def ask(
    service: IndexService, data_type: str, content: bytes, rows: int, written: str | None, **asked: Any
) -> FileVerdict:
    request = EvaluateRequest(
        schema=[ColumnRef(name="c", type=data_type), ColumnRef(name="other", type="INT")],
        files=[IndexFileRef(content=content)],
        row_count=rows,
        filter=written,
        **asked,
    )
    (answer,) = service.evaluate("golden", request).files
    assert answer.error is None
    return answer


def selected(answer: FileVerdict, rows: int) -> set[int]:
    if answer.skip:
        return set()
    return set(range(rows)) if answer.selection is None else set(answer.selection)


LOST_BY_STATISTICS = {
    "zeros of either sign are equal": [
        (table, f"{column}_{zero}")
        for table in ("all_types", "all_types_orc")
        for column, zeros in (("float", _ZEROS), ("double", (*_ZEROS, "ge_zero", "le_neg_zero")))
        for zero in zeros
    ],
    "NaN lies beyond the maximum of ORC files": [
        *(("all_types_orc", f"double_{test}") for test in ("nan", "gt_inf", "ge_nan", "gt_1e300")),
        *(("all_types_orc", f"float_{test}") for test in ("nan", "gt_big")),
    ],
    "timestamps of one microsecond differ": [
        ("all_types", test) for test in ("ts9_ne", "ts9_not_in", "ltz9_ne")
    ],
    "text above the basic plane sorts by its bytes": [("all_types_orc", "string_high")],
}


@pytest.mark.parametrize("defect", LOST_BY_STATISTICS)
def test_what_the_engine_loses_by_statistics_is_kept(service: IndexService, defect: str) -> None:
    for table, name in LOST_BY_STATISTICS[defect]:
        query = golden_query(table, name)
        assert query["engine_differs"]

        assert_holds_every_match(service, table, query)


@pytest.mark.parametrize("kind", ["bloom-filter", "range-bitmap", "bitmap"])
@pytest.mark.parametrize("data_type", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize("stored", [0.0, -0.0])
@pytest.mark.parametrize("written", ["0.0D", "-0.0D"])
def test_signed_zeros_are_equal_in_indexes(
    service: IndexService, kind: str, data_type: str, stored: float, written: str
) -> None:
    content = made(kind, data_type, [1.0, stored, None])

    for test in (f"c = {written}", f"c IN ({written}, 7.0D)", f"c <= {written}", f"c >= {written}"):
        assert 1 in selected(ask(service, data_type, content, 3, test), 3), test


@pytest.mark.parametrize("data_type", ["INT", "STRING"])
def test_a_range_bitmap_without_values_finds_every_null(service: IndexService, data_type: str) -> None:
    content = made("range-bitmap", data_type, [None] * 9)

    assert selected(ask(service, data_type, content, 9, "c IS NULL"), 9) == set(range(9))
    assert ask(service, data_type, content, 9, "c IS NOT NULL").skip


@pytest.mark.parametrize(
    ("operator", "matching"),
    [(">", {0, 1, 2}), (">=", {0, 1, 2}), ("<>", {0, 1, 2}), ("<=", set()), ("=", set())],
)
def test_the_smallest_bigint_has_no_absolute_value_in_a_bsi(
    service: IndexService, operator: str, matching: set[int]
) -> None:
    content = made("bsi", "BIGINT", [-5, -(1 << 63) + 1, 7, None])

    answer = ask(service, "BIGINT", content, 4, f"c {operator} -9223372036854775808")

    assert selected(answer, 4) >= matching


@pytest.mark.parametrize("kind", ["bloom-filter", "bitmap", "range-bitmap", "bsi"])
def test_a_null_literal_matches_nothing_and_fails_nothing(service: IndexService, kind: str) -> None:
    content = made(kind, "INT", [1, 2, None])

    assert ask(service, "INT", content, 3, "c = NULL").skip
    assert ask(service, "INT", content, 3, "c NOT IN (1, NULL)").skip
    assert 0 in selected(ask(service, "INT", content, 3, "c IN (1, NULL)"), 3)
    assert ask(service, "INT", content, 3, "c IN (9, NULL) AND c = NULL").skip


@pytest.mark.parametrize("test", ["other = 1", "c > 0 AND other = 1", "c <> 9 AND other IS NULL"])
def test_rows_that_the_filter_may_remove_crowd_nobody_out_of_top_n(service: IndexService, test: str) -> None:
    values = list(range(1, 11))
    content = made("range-bitmap", "INT", values)
    first_two = TopN(order_by=(SortKey(column="c", direction="desc", nulls="last"),), limit=2)

    answer = ask(service, "INT", content, len(values), test, top_n=first_two)

    assert selected(answer, len(values)).issuperset(range(8))


def test_top_n_narrows_where_the_filter_is_answered_exactly(service: IndexService) -> None:
    content = made("range-bitmap", "INT", [5, 1, None, 9, 7, 3])
    first_two = TopN(order_by=(SortKey(column="c", direction="desc", nulls="last"),), limit=2)

    answer = ask(service, "INT", content, 6, "c < 9", top_n=first_two)

    assert selected(answer, 6) == {0, 4}


def test_a_further_sort_key_keeps_all_ties(service: IndexService) -> None:
    content = made("range-bitmap", "INT", [5, 9, 9, 9, 7])
    keys = (SortKey(column="c", direction="desc", nulls="last"), SortKey(column="other"))

    answer = ask(service, "INT", content, 5, None, top_n=TopN(order_by=keys, limit=2))

    assert selected(answer, 5) >= {1, 2, 3}


def test_the_checksum_of_a_deletion_vector_is_verified(copy_table: CopyTable) -> None:
    copied = copy_table("append_dv32")
    holder = next(file for file in expected("append_dv32")["versions"][0]["files"] if file["deletion"])
    place = holder["deletion"]
    path = copied.directory / place["path"]
    content = bytearray(path.read_bytes())
    checksum = place["offset"] + 4 + place["length"]
    content[checksum] ^= 1
    path.write_bytes(content)

    with pytest.raises(CorruptIndexError, match=path.name):
        copied.plan()


def test_64_bit_deletions_are_left_out_of_what_top_n_chooses(service: IndexService) -> None:
    """Deleted rows are no candidates, so they push no live row out."""
    document = expected("append_dv64")
    version = document["versions"][0]
    column = next(iter(document["options"]["file-index.range-bitmap.columns"].split(",")))
    deleted = {
        file["file"]: positions(file["deletion"]["positions"])
        for file in version["files"]
        if file["deletion"]
    }
    assert deleted
    for descending in (True, False):
        request = PlanRequest(
            top_n=TopN(
                order_by=(SortKey(column=column, direction=("asc", "desc")[descending], nulls="last"),),
                limit=5,
            )
        )

        answer = service.plan(golden_ref("append_dv64"), request)

        assert sum(file.selected_rows for file in answer.files) >= 5
        for file in answer.files:
            assert not set(file.selection or ()) & deleted.get(file.file_name, set())


@pytest.mark.parametrize(("low", "high"), [(b"\x01", b"\xff"), (b"\x7f", b"\x80")])
def test_bytes_are_compared_without_a_sign(service: IndexService, low: bytes, high: bytes) -> None:
    content = made("bloom-filter", "BYTES", [low, high])

    for test, row in ((f"c > X'{low.hex()}'", 1), (f"c < X'{high.hex()}'", 0)):
        assert row in selected(ask(service, "BYTES", content, 2, test), 2)


@pytest.mark.parametrize("data_type", ["INT", "DOUBLE", "STRING"])
def test_an_or_over_blooms_keeps_what_either_side_may_hold(service: IndexService, data_type: str) -> None:
    stored: dict[str, list[Any]] = {"INT": [1, 2], "DOUBLE": [1.0, 2.0], "STRING": [b"1", b"2"]}
    content = made("bloom-filter", data_type, stored[data_type])
    one, absent = ("'1'", "'x'") if data_type == "STRING" else ("1", "-77")

    assert not ask(service, data_type, content, 2, f"c = {one} OR c = {absent}").skip
    assert not ask(service, data_type, content, 2, f"c = {absent} OR other = 1").skip
    assert not ask(service, data_type, content, 2, f"c = {absent} OR c IS NULL").skip
    assert ask(service, data_type, content, 2, f"c = {absent}").skip


def test_nan_in_a_range_bitmap_is_the_largest_value(service: IndexService) -> None:
    content = made("range-bitmap", "DOUBLE", [1.0, math.nan, math.inf])

    for test in ("c = CAST('NaN' AS DOUBLE)", "c > 1e300D", "c >= CAST('NaN' AS DOUBLE)"):
        assert 1 in selected(ask(service, "DOUBLE", content, 3, test), 3), test
