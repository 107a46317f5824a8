"""Our answers beside the engine's, for every golden file and predicate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pyroaring import BitMap

from app.errors import CorruptIndexError
from app.file_index.answers.result import KEEP, Result, Rows
from app.file_index.container import FileIndex
from app.file_index.evaluation import evaluate
from app.predicates.model import BoundAnd, BoundLeaf, BoundOr, BoundPredicate, Operator, Unknown
from app.types import DataField, parse_type
from app.types.data_types import TIMESTAMP_ROOTS
from tests import golden_file_index, golden_unit
from tests.brute_force import matching_rows
from tests.golden_cases import together
from tests.golden_checks import char_functions
from tests.golden_file_index import GoldenIndex


def _selected(result: Result, row_count: int) -> BitMap:
    if isinstance(result, Rows):
        return result.positions
    return BitMap(range(row_count)) if result is KEEP else BitMap()


def _leaves(predicate: BoundPredicate) -> Iterator[BoundLeaf | Unknown]:
    match predicate:
        case BoundAnd(children) | BoundOr(children):
            for child in children:
                yield from _leaves(child)
        case BoundLeaf() | Unknown():
            yield predicate
        case _:
            return


def _tells_nanoseconds_apart(predicate: BoundPredicate) -> bool:
    """Whether the engine answers by microseconds what takes nanoseconds, and so drops rows."""
    unsafe = (Operator.NOT_EQUAL, Operator.NOT_IN, Operator.LESS_THAN, Operator.GREATER_THAN)
    return any(
        isinstance(leaf, BoundLeaf)
        and leaf.operator in unsafe
        and leaf.field.type.root in TIMESTAMP_ROOTS
        and leaf.field.type.precision > 6
        for leaf in _leaves(predicate)
    )


def _has_empty_not_in(written: Mapping[str, Any]) -> bool:
    """SQL cannot say this; ours holds it true for null rows as well, the engine does not."""
    if written["kind"] == "COMPOUND":
        return any(map(_has_empty_not_in, written["children"]))
    return written["function"] == "NOT_IN" and not [one for one in written["literals"] if one is not None]


def _engine_selects(expected: Mapping[str, Any], row_count: int) -> BitMap | None:
    """None where the answer was an error, or only its checksum is known."""
    if "error" in expected:
        return None
    if not expected["remain"]:
        return BitMap()
    if expected["positions"] is None:
        return BitMap(range(row_count))
    return golden_file_index.positions(expected["positions"], row_count)


@together("kind", "name", golden_file_index.by_kind())
def test_keeps_every_match_and_no_more_than_the_engine(name: str) -> None:
    golden = golden_file_index.load(name)
    index = golden.read()

    for check in golden.document["checks"]:
        predicate = golden.bind(check["predicate"])
        result = evaluate(predicate, index, row_count=golden.row_count)
        ours = _selected(result, golden.row_count)
        truth = _truth(golden, predicate)
        lost = _lost_to_empty_entries(golden, check)
        shown = f"{predicate} of {check}"
        if truth is None:
            assert len(ours) >= check["matches"], shown
        else:
            assert truth <= ours | lost, shown
        if isinstance(result, Rows) and result.exact:
            assert ours == truth, shown
        is_as_engines_mean_it = not (
            _tells_nanoseconds_apart(predicate) or char_functions(check["predicate"])
        )
        if is_as_engines_mean_it and not _has_empty_not_in(check["predicate"]):
            _holds_no_more_than_the_engine(ours, check, truth or BitMap(), golden.row_count)


def _lost_to_empty_entries(golden: GoldenIndex, check: Mapping[str, Any]) -> BitMap:
    """Rows that an entry hides which says, against the truth, that no row has a value."""
    if "empty_entries" not in golden.document:
        return BitMap()
    return BitMap(check.get("lost", ()))


def _truth(golden: GoldenIndex, predicate: BoundPredicate) -> BitMap | None:
    if any(isinstance(leaf, Unknown) for leaf in _leaves(predicate)):
        return None
    return matching_rows(predicate, golden.columns, golden.row_count)


def _holds_no_more_than_the_engine(
    ours: BitMap, check: Mapping[str, Any], truth: BitMap, row_count: int
) -> None:
    expected = check["expect"]
    engine = _engine_selects(expected, row_count)
    if engine is not None:
        assert ours <= engine | truth, check
    elif "error" not in expected:
        assert len(ours) <= expected["positions"]["count"], check


def test_reads_what_the_damage_left_whole() -> None:
    document = golden_unit.document("file-index", "damaged")
    fields = [
        DataField(at, column["name"], parse_type(column["type"]))
        for at, column in enumerate(document["columns"])
    ]
    template = golden_file_index.load("columns-0")

    for damaged in document["damaged"]:
        # The engine answers from the part of a cut payload that is there; we refuse such a payload.
        whole = damaged["name"] != "truncated_body"
        for check in damaged["checks"]:
            golden = type(template)(document, bytes.fromhex(damaged["hex"]), fields, {})
            predicate = golden.bind(check["predicate"])
            if "error" not in check["expect"] and whole:
                result = evaluate(predicate, golden.read(), row_count=len(document["rows"]))
                assert isinstance(result, Rows)
                assert result.positions == BitMap(check["expect"]["positions"])
            elif (
                "error" in check["expect"] and "Can't find file index" in check["expect"]["error"]["message"]
            ):
                assert evaluate(predicate, golden.read()) is KEEP
            else:
                with pytest.raises(CorruptIndexError):
                    evaluate(predicate, FileIndex.read(golden.content))
