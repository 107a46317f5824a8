"""Top-n over every golden file: by its definition, and beside the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pyroaring import BitMap

from app.file_index.answers.result import KEEP, Result, Rows
from app.file_index.evaluation import evaluate
from app.file_index.top_n import top_n
from app.predicates.model import ALWAYS_TRUE, BoundAnd, BoundOr, BoundPredicate, Unknown
from app.types import DataField, TypeRoot, Value, sql_key
from tests import golden_file_index, golden_unit
from tests.brute_force import matching_rows


def _has_unknown(predicate: BoundPredicate) -> bool:
    match predicate:
        case BoundAnd(children) | BoundOr(children):
            return any(map(_has_unknown, children))
        case _:
            return isinstance(predicate, Unknown)


def _selected(result: Result, row_count: int) -> BitMap:
    if isinstance(result, Rows):
        return result.positions
    return BitMap(range(row_count)) if result is KEEP else BitMap()


def _ordered(
    rows: BitMap, values: Sequence[Value | None], field: DataField, order: Mapping[str, Any]
) -> list[tuple[Any, int]]:
    """``(key, row)`` in the order of a sort key; None is the key of a null row."""
    key = sql_key(field.type)
    nulls: list[tuple[Any, int]] = [(None, row) for row in rows if values[row] is None]
    valued: list[tuple[Any, int]] = [(key(value), row) for row in rows if (value := values[row]) is not None]
    valued.sort(key=lambda one: one[0], reverse=order["direction"] == "DESC")
    return nulls + valued if order["nulls"] == "NULLS FIRST" else valued + nulls


def _holds_the_first_rows(
    ours: BitMap, ordered: Sequence[tuple[Any, int]], limit: int, *, strict: bool
) -> None:
    first = ordered[:limit]
    if not first:
        return
    last = first[-1][0]
    before = BitMap([row for key, row in first if key != last])
    tied = BitMap([row for key, row in ordered if key == last])
    assert before <= ours
    assert len(ours & tied) >= len(first) - len(before)
    if not strict:
        assert tied <= ours


@pytest.mark.parametrize("name", golden_unit.documents("topn"))
def test_holds_the_first_rows_and_no_more_than_the_engine(name: str) -> None:
    golden = golden_file_index.load(name)
    index = golden.read()

    for request in golden_unit.document("topn", name)["requests"]:
        order, limit, strict = request["order"][0], request["limit"], len(request["order"]) == 1
        field = golden.field(order["column"])
        unfiltered = request["predicate"] is None
        predicate = ALWAYS_TRUE if unfiltered else golden.bind(request["predicate"])
        selection = evaluate(predicate, index, row_count=golden.row_count)

        result = top_n(
            index,
            field,
            descending=order["direction"] == "DESC",
            nulls_first=order["nulls"] == "NULLS FIRST",
            limit=limit,
            strict=strict,
            selection=selection,
        )

        ours = _selected(result, golden.row_count)
        assert ours <= _selected(selection, golden.row_count)
        if not _has_unknown(predicate):
            truth = matching_rows(predicate, golden.columns, golden.row_count)
            if field.name in golden.columns and limit > 0:
                ordered = _ordered(truth, golden.columns[field.name], field, order)
                _holds_the_first_rows(ours, ordered, limit, strict=strict)
        if field.type.root is TypeRoot.CHAR:
            # Padded, values may stand in another order than the engine's.
            continue
        # Of a column without values the engine takes the first and the last row, whatever the limit.
        right = "defect" not in request and "positions" in request["expect"]
        if unfiltered and right and any(value is not None for value in golden.columns.get(field.name, ())):
            engine = golden_file_index.positions(request["expect"]["positions"], golden.row_count)
            assert engine is None or ours == engine, request
