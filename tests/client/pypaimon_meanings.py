"""Prints what pypaimon's predicates mean to it, in an environment that has pypaimon.

A line for each predicate of which something is sent: the type of its column, the filter, and the values of
rows that pypaimon finds, be it row by row or by Arrow's expressions.
"""

import sys
import warnings
from collections.abc import Iterator
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.dataset
from pypaimon.common.predicate import Predicate
from pypaimon.schema.data_types import DataTypeParser, PyarrowFieldParser

from paimon_index.pypaimon.filters import to_json
from paimon_index.requests import post
from tests.client.literals import OTHERS, VALUES

_ONE = ("equal", "notEqual", "lessThan", "lessOrEqual", "greaterThan", "greaterOrEqual")
_TEXT = ("startsWith", "endsWith", "contains", "like")


class Row:
    """A row of one field, as pypaimon's readers give it to predicates."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def get_field(self, _: int) -> Any:
        return self._value


def predicates(literals: list[Any]) -> Iterator[Predicate]:
    def leaf(method: str, *listed: Any) -> Predicate:
        return Predicate(method, 0, "c", list(listed))

    yield leaf("isNull")
    yield leaf("isNotNull")
    for literal in literals:
        yield from (leaf(method, literal) for method in (*_ONE, *_TEXT))
        for other in literals:
            pairs = [leaf(method, literal, other) for method in ("in", "notIn", "between", "notBetween")]
            yield from pairs
            yield Predicate("or", None, None, [pairs[0], leaf("notEqual", other)])


def found_by_row(predicate: Predicate, rows: list[Any]) -> Iterator[int]:
    for number, value in enumerate(rows):
        try:
            if predicate.test(Row(value)):
                yield number
        except (TypeError, ValueError, ArithmeticError):
            # Reading fails, with the service and without.
            pass


def found_by_arrow(predicate: Predicate, rows: pa.Table) -> list[int]:
    try:
        wanted = predicate.to_arrow(rows.schema)
        scanner = pyarrow.dataset.InMemoryDataset(rows).scanner(filter=wanted)
        found: list[int] = scanner.to_table().column("number").to_pylist()
    except (pa.ArrowException, TypeError, ValueError, ArithmeticError):
        return []
    return found


def main() -> None:
    warnings.simplefilter("ignore")
    for type_text, given in VALUES.items():
        values = [*given, None]
        type_ = DataTypeParser.parse_data_type(type_text)
        arrow_type = PyarrowFieldParser.from_paimon_type(type_)
        rows = pa.table({"c": pa.array(values, arrow_type), "number": range(len(values))})
        by_row = pl.DataFrame(rows).get_column("c").to_list()
        for predicate in predicates([*given, *OTHERS]):
            sent = to_json(predicate, {"c": str(type_)}, [])
            if sent is None:
                continue
            numbers = {*found_by_row(predicate, by_row)}
            if "like" not in predicate.method and predicate.method not in _TEXT:
                numbers |= {*found_by_arrow(predicate, rows)}
            members = {"type": type_text, "filter": sent, "found": [values[number] for number in numbers]}
            sys.stdout.write((post("", members).body or b"").decode() + "\n")


if __name__ == "__main__":
    main()
