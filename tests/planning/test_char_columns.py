"""Plans over CHAR columns: nothing is lost, however writers padded what they stored."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bucket_index import BucketFunction, buckets_of
from app.file_index.index_kinds import KINDS, RANGE_BITMAP, IndexKind
from app.planning.plan.answers import Plan
from app.planning.plan.file_plan import FilePlan
from app.planning.request.requests import DeletionsRequest, LookupRequest, SelectionForm, SortKey, TopN
from app.table.manifests.manifest_entry import ManifestEntry
from app.types import DataField, parse_type
from app.types.binary_row.row import serialize_row
from app.types.binary_row.rows import fields_of
from tests.char_meaning import LETTERS, CharTest, char_tests, texts
from tests.examples import examples
from tests.tables import MadeTable, MadeTables, entry, file_of, names_of, no_statistics

LENGTH = 4
CODE = DataField(0, "c", parse_type(f"CHAR({LENGTH})"))
ID = DataField(1, "id", parse_type("INT"))
_KINDS = [kind for kind in KINDS.values() if kind.takes(CODE.type)]
_FORMS = [b"c3", b"c3 ", b"c3  "]


def _table(
    warehouse: MadeTables, files: Sequence[Sequence[str | None]], kinds: Sequence[IndexKind], *, bounds: bool
) -> MadeTable:
    made = warehouse.make([CODE])
    made.commit([_file(at, rows, kinds, bounds=bounds) for at, rows in enumerate(files)])
    return made


def _file(at: int, rows: Sequence[str | None], kinds: Sequence[IndexKind], *, bounds: bool) -> ManifestEntry:
    stored = [None if value is None else value.encode() for value in rows]
    return file_of(f"data-{at}", {CODE: stored}, *kinds, bounded=bounds)


_FILES = st.lists(st.lists(st.none() | texts(LENGTH), min_size=1, max_size=5), min_size=1, max_size=4)


@examples(60)
@given(
    _FILES,
    st.lists(st.sampled_from(_KINDS), unique=True),
    st.booleans(),
    st.lists(char_tests(), min_size=1, max_size=8),
)
def test_no_row_is_lost_by_statistics_or_indexes_of_any_kind(
    warehouse: MadeTables,
    files: list[list[str | None]],
    kinds: list[IndexKind],
    bounds: bool,
    asked: list[CharTest],
) -> None:
    made = _table(warehouse, files, kinds, bounds=bounds)
    for each in asked:
        forms: list[Any] = [each.text("c")] + ([each.json("c")] if each.function != "NOT_LIKE" else [])
        for form in forms:
            plan = made.plan(warehouse.service, form, selection=SelectionForm.POSITIONS)
            _check(plan, files, each, stored_too=form is not forms[0])


def _check(plan: Plan, files: list[list[str | None]], asked: CharTest, *, stored_too: bool) -> None:
    kept = {file.file_name: file for file in plan.files}
    for at, rows in enumerate(files):
        true = {row for row, value in enumerate(rows) if value is not None and asked.spark(value, LENGTH)}
        if stored_too:
            true |= {row for row, value in enumerate(rows) if value is not None and asked.as_stored(value)}
        file = kept.get(f"data-{at}")
        selected = set() if file is None else _rows(file)
        assert selected >= true, (asked, rows)
        if file is not None and not file.residual:
            assert selected == true, (asked, rows)


def _rows(file: FilePlan) -> set[int]:
    return set(range(file.row_count)) if file.selection is None else set(file.selection)


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("stored", _FORMS)
def test_an_index_is_asked_for_every_form(warehouse: MadeTables, kind: IndexKind, stored: bytes) -> None:
    made = _table(warehouse, [[stored.decode(), "x"], ["y", "z"]], [kind], bounds=False)

    assert names_of(made.plan(warehouse.service, "c = 'c3'").files) == ["data-0"]


_FIRST = st.sampled_from([True, False])


@examples(60)
@given(_FILES, st.integers(1, 6), _FIRST, _FIRST)
def test_the_first_rows_are_those_of_padded_values(
    warehouse: MadeTables, files: list[list[str | None]], limit: int, descending: bool, nulls_first: bool
) -> None:
    made = _table(warehouse, files, [RANGE_BITMAP], bounds=True)
    order = TopN(
        order_by=(
            SortKey(column="c", direction=("asc", "desc")[descending], nulls=("last", "first")[nulls_first]),
        ),
        limit=limit,
    )

    plan = made.plan(warehouse.service, top_n=order, selection=SelectionForm.POSITIONS)

    rows = [value for file in files for value in file]
    left = [
        files[int(file.file_name.removeprefix("data-"))][row] for file in plan.files for row in _rows(file)
    ]
    assert _first(left, limit, descending, nulls_first) == _first(rows, limit, descending, nulls_first)


def _first(rows: list[str | None], limit: int, descending: bool, nulls_first: bool) -> list[str | None]:
    padded = sorted((value.ljust(LENGTH) for value in rows if value is not None), reverse=descending)
    nulls = [None] * rows.count(None)
    return ([*nulls, *padded] if nulls_first else [*padded, *nulls])[:limit]


@examples(50)
@given(st.lists(st.text(LETTERS, max_size=LENGTH), min_size=1, max_size=6, unique=True), char_tests())
def test_no_partition_is_lost(warehouse: MadeTables, values: list[str], asked: CharTest) -> None:
    made = warehouse.make([ID, CODE], [CODE])
    made.commit(
        [
            entry(file_name=value, partition=serialize_row([value.encode()], [CODE.type]), **no_statistics())
            for value in values
        ]
    )

    kept = names_of(made.plan(warehouse.service, asked.text("c")).files)

    assert set(kept) >= {value for value in values if asked.spark(value, LENGTH)}


@pytest.mark.parametrize("stored", _FORMS)
def test_a_partition_is_named_in_any_form(warehouse: MadeTables, stored: bytes) -> None:
    made = warehouse.make([ID, CODE], [CODE])
    made.commit([entry(file_name="data", partition=serialize_row([stored], [CODE.type]), **no_statistics())])

    found = warehouse.service.deletions(made.ref, DeletionsRequest(partition={"c": "c3"}, files=("data",)))

    assert [file.file_name for file in found.deletions] == ["data"]


def _buckets(values: Sequence[bytes], total: int) -> list[int]:
    fields = fields_of([(value,) for value in values], [CODE.type])
    return [int(each) for each in buckets_of(BucketFunction.DEFAULT, fields, len(values), total)]


def _bucketed(warehouse: MadeTables) -> MadeTable:
    """Return a file in each of 16 buckets."""
    made = warehouse.make([CODE, ID], options={"bucket": "16", "bucket-key": "c"})
    files = [entry(file_name=f"data-{bucket}", bucket=bucket, **no_statistics()) for bucket in range(16)]
    made.commit([replace(file, total_buckets=16) for file in files])
    return made


def test_no_bucket_of_any_form_is_pruned(warehouse: MadeTables) -> None:
    made = _bucketed(warehouse)

    plan = made.plan(warehouse.service, "c = 'c3'")

    assert {file.bucket for file in plan.files} == set(_buckets(_FORMS, 16))


def test_a_key_is_in_the_bucket_of_its_padded_form_or_of_another(warehouse: MadeTables) -> None:
    made = _bucketed(warehouse)

    found = warehouse.service.lookup(made.ref, LookupRequest(keys=({"c": "c3"}, {"c": "abcd"})))

    unpadded, half, padded = _buckets(_FORMS, 16)
    (full,) = _buckets([b"abcd"], 16)
    assert [(each.bucket, each.other_buckets) for each in found.buckets] == [
        (padded, tuple(sorted({unpadded, half} - {padded}))),
        (full, ()),
    ]
