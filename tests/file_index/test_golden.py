"""Golden files: our answers and first rows beside the engine's, and what we write beside what it wrote."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pyroaring import BitMap

from app.errors import CorruptIndexError, RequestError
from app.file_index import container
from app.file_index.answers import KEEP, Rows
from app.file_index.container import write_index
from app.file_index.evaluation import evaluate
from app.file_index.index_kinds import KINDS
from app.file_index.stacked_index import FileIndex
from app.file_index.top_rows import top_n
from app.predicates.model import ALWAYS_TRUE, BoundLeaf, BoundPredicate, Operator, Unknown, leaves
from app.types import DataField, DataType, TypeRoot, Value, parse_json, parse_type, sql_key
from app.types.data_types import TIMESTAMP_ROOTS
from tests import golden_cases
from tests.brute_force import matching_rows
from tests.containers import meanings
from tests.examples import share
from tests.file_index.tables import selected
from tests.golden_cases import GoldenIndex
from tests.golden_checks import char_functions, together
from tests.key_columns import key_column


def _tells_nanoseconds_apart(predicate: BoundPredicate) -> bool:
    """Whether the engine answers by microseconds what takes nanoseconds, and so drops rows."""
    unsafe = (Operator.NOT_EQUAL, Operator.NOT_IN, Operator.LESS_THAN, Operator.GREATER_THAN)
    return any(
        isinstance(leaf, BoundLeaf)
        and leaf.operator in unsafe
        and leaf.field.type.root in TIMESTAMP_ROOTS
        and leaf.field.type.precision > 6
        for leaf in leaves(predicate)
    )


def _has_empty_not_in(written: Mapping[str, Any]) -> bool:
    """Return True for a leaf that SQL cannot say. Ours holds for null rows as well, the engine's does not."""
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
    return golden_cases.positions(expected["positions"], row_count)


@together("kind", "name", golden_cases.index_names_by_kind())
def test_keeps_every_match_and_no_more_than_the_engine(name: str) -> None:
    golden = golden_cases.load_index(name)
    index = golden.read()

    for check in share(golden.document["checks"], 3):
        predicate = golden.bind(check["predicate"])
        result = evaluate(predicate, index, row_count=golden.row_count)
        ours = selected(result, golden.row_count)
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
    if any(isinstance(leaf, Unknown) for leaf in leaves(predicate)):
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
    document = golden_cases.document("file-index", "damaged")
    fields = [
        DataField(at, column["name"], parse_type(column["type"]))
        for at, column in enumerate(document["columns"])
    ]
    template = golden_cases.load_index("columns-0")

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


def _ordered(
    rows: BitMap, values: Sequence[Value | None], field: DataField, order: Mapping[str, Any]
) -> list[tuple[Any, int]]:
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


@pytest.mark.parametrize("name", golden_cases.documents("topn"))
def test_holds_the_first_rows_and_no_more_than_the_engine(name: str) -> None:
    golden = golden_cases.load_index(name)
    index = golden.read()

    for request in share(golden_cases.document("topn", name)["requests"], 3):
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

        ours = selected(result, golden.row_count)
        assert ours <= selected(selection, golden.row_count)
        if not any(isinstance(leaf, Unknown) for leaf in leaves(predicate)):
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
            engine = golden_cases.positions(request["expect"]["positions"], golden.row_count)
            assert engine is None or ours == engine, request


_EMPTIED = "empty_entries"


"""Whose entries were deliberately left empty although there are rows."""


_UNSUITED = "column 'c': .* does not take type"
_REFUSALS = {
    "refused-bsi_long_min": "column 'c', row 1: .* up to 9223372036854775807, found -9223372036854775808",
    "refused-bsi_decimal_overflow": "column 'c', row 3: expected an unscaled value of 64 bits",
    "refused-bitmap_version_3": "version must be 1 or 2",
    "refused-bitmap_block_too_small": "column 'c', row 0: .* entries of 15 bytes, which is too few for 1",
    "refused-bitmap2_string_16369": "column 'c', row 0: .* entries of 16380 bytes, which is too few for 'xxx",
}


@together("kind", "name", golden_cases.index_names_by_kind(left_out=_EMPTIED))
def test_writes_what_the_engine_wrote(name: str) -> None:
    golden = golden_cases.load_index(name)
    plain = {field.name for field in golden.fields}
    columns: dict[str, list[tuple[str, bytes | None]]] = {}
    stored: dict[str, list[tuple[str, bytes | None]]] = {}
    index = golden.read()

    for column, entries in index.entries.items():
        described = {one["name"]: one["options"] for one in golden.document["indexes"][column]}
        keys = key_column(golden.columns[column], golden.field(column).type, column)
        for entry in entries:
            kind = KINDS[entry.kind]
            is_key_of_no_rows = column not in plain and golden.row_count == 0
            payload = write_index(kind, keys, kind.parse_options(described[kind]))
            columns.setdefault(column, []).append((kind, None if is_key_of_no_rows else payload))
            stored.setdefault(column, []).append(
                (kind, None if entry.is_empty else bytes(index.payload(entry)))
            )

    assert container.write(stored) == golden.content

    def type_of(column: str) -> DataType:
        return golden.field(column).type

    assert meanings(container.write(columns), type_of) == meanings(golden.content, type_of)


@pytest.mark.parametrize(
    "refused",
    golden_cases.document("file-index", "refused")["refused"],
    ids=lambda refused: str(refused["name"]),
)
def test_refuses_what_the_engine_refuses(refused: Mapping[str, Any]) -> None:
    data_type = parse_type(refused["type"])
    (described,) = refused["indexes"]["c"]
    kind = KINDS[described["name"]]
    values = [parse_json(golden_cases.expand(value), data_type) for value in refused["rows"] or []]

    with pytest.raises(RequestError, match=_REFUSALS.get(refused["name"], _UNSUITED)):
        write_index(kind, key_column(values, data_type), kind.parse_options(described["options"]))
