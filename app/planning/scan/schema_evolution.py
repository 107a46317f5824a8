"""A filter in the columns of the schema that a file was written with.

A file's indexes know columns by the names and types of *its* schema. Columns are matched by id, never by
name: a column that was dropped and added again is another one. A column whose type has changed since keeps
its indexes where every old value survives the change; its literals are then fitted to the old type, so that
``wide = 4294967296`` is false in a file whose ``wide`` was still an INT. Anything else is unknown to indexes.
"""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from typing import Final, assert_never

from app.predicates.binding.comparisons import compare
from app.predicates.model import (
    ALWAYS_FALSE,
    ALWAYS_TRUE,
    BoundAnd,
    BoundLeaf,
    BoundOr,
    BoundPredicate,
    Constant,
    Operator,
    Unknown,
)
from app.predicates.simplify import conjunction, disjunction
from app.predicates.unbound import Column, Leaf, Literal, LiteralKind
from app.table.schema.schema import TableSchema
from app.table.statistics.bounds_cast import bounds_cast
from app.types import DataField, DataType, TypeRoot, Value
from app.types.data_types import FLOATING_ROOTS, INTEGER_BITS

_NUMERIC: Final = frozenset({TypeRoot.DECIMAL, *INTEGER_BITS, *FLOATING_ROOTS})
_NULL_TESTS: Final = (Operator.IS_NULL, Operator.IS_NOT_NULL)


def in_file_schema(
    predicate: BoundPredicate, schema: TableSchema, file_schema: TableSchema
) -> BoundPredicate:
    """The filter in the file's columns; ``Unknown`` stands for what cannot be said of them.

    Args:
        predicate: bound to ``schema``.
        schema: the schema that the plan is made with.
        file_schema: the schema that the file was written with.
    """
    match predicate:
        case BoundLeaf():
            return _leaf(predicate, schema, file_schema)
        case BoundAnd(children):
            into_file = partial(in_file_schema, schema=schema, file_schema=file_schema)
            return conjunction(list(map(into_file, children)))
        case BoundOr(children):
            into_file = partial(in_file_schema, schema=schema, file_schema=file_schema)
            return disjunction(list(map(into_file, children)))
        case Constant() | Unknown():
            return predicate
        case _:
            assert_never(predicate)


def _leaf(leaf: BoundLeaf, schema: TableSchema, file_schema: TableSchema) -> BoundPredicate:
    field, column = leaf.field, schema.by_id[leaf.field.id]
    written = file_schema.by_id.get(field.id)
    if written is None:
        # The column came later: every row of the file reads as null.
        return ALWAYS_TRUE if leaf.operator is Operator.IS_NULL else ALWAYS_FALSE
    unknown = Unknown(str(leaf))
    if field.name != column.name:
        # A map key's index belongs to the map column; its values have the type of the map's values.
        if not written.type.same_kind(column.type):
            return unknown
        return BoundLeaf(
            leaf.operator,
            DataField(field.id, written.name + field.name[len(column.name) :], field.type),
            leaf.literals,
        )
    if written.type.same_kind(field.type):
        return BoundLeaf(leaf.operator, written, leaf.literals)
    if bounds_cast(written.type, field.type) is None:
        return unknown
    if leaf.operator in _NULL_TESTS or (
        written.type.root not in _NUMERIC and _same_form(written.type, field.type)
    ):
        return BoundLeaf(leaf.operator, written, leaf.literals)
    if field.type.root not in _NUMERIC:
        return unknown
    literals = tuple(_literal(value, field.type) for value in leaf.literals)
    leaf_now = Leaf(leaf.operator, Column((field.name,)), literals, str(leaf))
    return compare(leaf_now, leaf.operator, written, None)


def _same_form(written: DataType, present: DataType) -> bool:
    """Whether both types hold a value in the same form; DATE and TIMESTAMP do not."""
    return (written.root is TypeRoot.DATE) == (present.root is TypeRoot.DATE)


def _literal(value: Value, data_type: DataType) -> Literal:
    """A value as a literal of its type, exact in every digit."""
    match data_type.root:
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return Literal(LiteralKind.DOUBLE, float(value))
        case TypeRoot.DECIMAL:
            return Literal(LiteralKind.NUMBER, Decimal(f"{int(value)}e-{data_type.scale}"))
        case _:
            return Literal(LiteralKind.NUMBER, Decimal(int(value)))
