"""The Java engine answers about file indexes of ours what is true of the rows they were made of."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyroaring import BitMap

from app.file_index import container
from app.file_index.answers import SKIP
from app.file_index.container import write_index
from app.file_index.evaluation import evaluate
from app.file_index.index_kinds import BITMAP, BLOOM_FILTER, BSI, KINDS, RANGE_BITMAP, IndexKind
from app.file_index.stacked_index import FileIndex
from app.predicates.model import BoundLeaf, Operator
from app.types import DataField, DataType, TypeRoot, Value, sql_key, to_json
from app.types.civil_time import MILLIS_PER_DAY, NANOS_PER_MICRO, NANOS_PER_MILLI
from app.types.data_types import BINARY_ROOTS, FLOATING_ROOTS, INTEGER_BITS, STRING_ROOTS, TIMESTAMP_ROOTS
from app.types.values import integer_range, to_float32
from tests.acceptance.java_engine import JavaEngine
from tests.brute_force import matching_rows
from tests.file_index.strategies import TYPES
from tests.key_columns import key_column

pytestmark = [pytest.mark.engine, pytest.mark.shared]

_OPTIONS: dict[IndexKind, list[dict[str, str]]] = {
    BLOOM_FILTER: [{}, {"items": "100", "fpp": "0.01"}],
    BITMAP: [{}, {"version": "1"}, {"index-block-size": "128 b"}],
    RANGE_BITMAP: [{}, {"chunk-size": "64 b"}, {"chunk-size": "0 b"}],
    BSI: [{}],
}
_NUMBER_OF_LITERALS = {Operator.IS_NULL: 0, Operator.IS_NOT_NULL: 0, Operator.BETWEEN: 2, Operator.IN: 4}
_ASKED = (
    *(Operator.EQUAL, Operator.NOT_EQUAL, Operator.IN, Operator.BETWEEN, Operator.IS_NULL),
    *(Operator.LESS_THAN, Operator.LESS_OR_EQUAL, Operator.GREATER_THAN, Operator.IS_NOT_NULL),
)
_POINTS = {Operator.EQUAL, Operator.IN, Operator.IS_NULL, Operator.IS_NOT_NULL}


@pytest.mark.parametrize(("rows", "distinct"), [(300, 3), (900, 60), (5_000, 2_000), (150_000, 12)])
def test_answers_are_those_of_the_rows(rows: int, distinct: int, engine: JavaEngine, tmp_path: Path) -> None:
    random = Random(rows)  # noqa: S311 - the same rows each time, no secret
    fields: list[DataField] = []
    columns: dict[str, list[Value | None]] = {}
    payloads: dict[str, list[tuple[str, bytes | None]]] = {}
    for data_type in TYPES:
        values = _column(data_type, rows, distinct, random)
        for kind in (kind for kind in KINDS.values() if kind.takes(data_type)):
            field = DataField(len(fields), f"{kind} of {data_type}", data_type)
            options = kind.parse_options(random.choice(_OPTIONS[kind]))
            fields.append(field)
            columns[field.name] = values
            payloads[field.name] = [(kind, write_index(kind, key_column(values, data_type), options))]
    content = container.write(payloads)
    (tmp_path / "file.index").write_bytes(content)
    leaves = [
        leaf
        for field in fields
        for leaf in _leaves(field, columns[field.name], random, most=24 if rows < 10_000 else 3)
    ]

    answers = engine.evaluate_index(
        tmp_path / "file.index", {field.name: field.type for field in fields}, list(map(_written, leaves))
    )

    index = FileIndex.read(content)
    for leaf, answer in zip(leaves, answers, strict=True):
        _check(leaf, columns[leaf.field.name], answer, index)


def _check(
    leaf: BoundLeaf, rows: Sequence[Value | None], answer: Mapping[str, Any], index: FileIndex
) -> None:
    assert "error" not in answer, (leaf, answer)
    truth = matching_rows(leaf, {leaf.field.name: rows}, len(rows))
    kind = KINDS[leaf.field.name.partition(" ")[0]]
    if kind is BLOOM_FILTER:
        assert answer["remain"] or not truth, leaf
        assert answer["remain"] is (evaluate(leaf, index) is not SKIP), leaf
        return
    if kind is BITMAP and leaf.operator is Operator.NOT_EQUAL:
        # The engine leaves the rows without a value in.
        truth |= BitMap([row for row, value in enumerate(rows) if value is None])
    elif kind is BITMAP and leaf.operator not in _POINTS:
        assert answer == {"remain": True, "positions": None}, leaf
        return
    assert BitMap(answer["positions"]) == truth, leaf
    assert answer["remain"] is bool(truth), leaf


def _column(data_type: DataType, rows: int, distinct: int, random: Random) -> list[Value | None]:
    draw = _values(data_type, random)
    pool: list[Value | None] = [draw() for _ in range(distinct)]
    found: list[Value | None] = []
    while len(found) < rows:
        found += [None if random.random() < 0.1 else random.choice(pool)] * random.randrange(1, 6)
    return found[:rows]


def _values(data_type: DataType, random: Random) -> Callable[[], Value]:
    """Draw values; none that the engine is known to be wrong about, as zeros of either sign."""
    root = data_type.root
    if root in INTEGER_BITS:
        low, high = integer_range(data_type)
        return lambda: random.choice([random.randint(low + 1, high), random.randint(-100, 100)])
    if root in STRING_ROOTS:
        return lambda: "".join(random.choices("ab\0é日😀", k=random.randrange(12))).encode()
    if root in BINARY_ROOTS:
        return lambda: random.randbytes(random.randrange(6))
    if root in TIMESTAMP_ROOTS:
        unit = NANOS_PER_MILLI if data_type.is_compact_timestamp else NANOS_PER_MICRO
        return lambda: random.randint(-(10**9), 10**9) * 10**8 // unit * unit
    if root in FLOATING_ROOTS:
        special = [math.nan, math.inf, -math.inf]
        return lambda: random.choice([*special, *(to_float32(random.gauss(0, 9)) for _ in range(9))])
    match root:
        case TypeRoot.BOOLEAN:
            return lambda: random.random() < 0.5
        case TypeRoot.DECIMAL:
            largest = min(10**data_type.precision - 1, (1 << 63) - 1)
            return lambda: random.randint(-largest, largest)
        case TypeRoot.TIME:
            return lambda: random.randrange(MILLIS_PER_DAY)
        case _:
            return lambda: random.randint(-100_000, 100_000)


def _leaves(field: DataField, rows: Sequence[Value | None], random: Random, *, most: int) -> list[BoundLeaf]:
    present = [value for value in rows if value is not None]
    draw, key = _values(field.type, random), sql_key(field.type)
    leaves = []
    for number in range(most):
        operator = _ASKED[number % len(_ASKED)]
        literals = [random.choice([random.choice(present), draw()]) for _ in range(4)]
        by_key = {key(literal): literal for literal in literals[: _NUMBER_OF_LITERALS.get(operator, 1)]}
        chosen = tuple(by_key[each] for each in sorted(by_key))
        if operator is Operator.BETWEEN and len(chosen) == 1:
            chosen *= 2
        leaves.append(BoundLeaf(operator, field, chosen))
    return leaves


def _written(leaf: BoundLeaf) -> dict[str, Any]:
    return {
        "kind": "LEAF",
        "transform": {"name": "FIELD_REF", "fieldRef": {"name": leaf.field.name}},
        "function": leaf.operator.value,
        "literals": [_literal(literal, leaf.field.type) for literal in leaf.literals],
    }


def _literal(value: Value, data_type: DataType) -> object:
    match to_json(value, data_type):
        case {"$hex": digits}:
            return digits
        case str(text) if data_type.root in TIMESTAMP_ROOTS:
            return text.replace("T", " ").removesuffix("Z")
        case written:
            return written
