"""Names that clients may have from one schema or another."""

from __future__ import annotations

from typing import Any

import pytest

from app.errors import FilterError
from app.iceberg.columns import ReadColumns
from app.table.schema.schema import TableSchema
from app.types import DataField, parse_type


def schema(number: int, **columns: tuple[int, str]) -> TableSchema:
    fields = tuple(DataField(id_, name, parse_type(written)) for name, (id_, written) in columns.items())
    return TableSchema(number, fields)


def read(*schemas: TableSchema, **how: Any) -> ReadColumns:
    """Their columns, of which the first schema is planned in."""
    return ReadColumns.of(schemas, **{"case_sensitive": True, **how})


def test_a_name_that_two_columns_have_is_neither() -> None:
    columns = read(schema(1, a=(1, "INT"), b=(0, "INT")), schema(0, a=(0, "INT"), b=(1, "INT"), c=(2, "INT")))

    assert columns.named("a") is columns.named("b") is None


def test_a_name_of_an_older_schema_is_the_column_that_has_another_name_now() -> None:
    newest = schema(1, renamed=(0, "INT"))
    columns = read(newest, schema(0, a=(0, "INT"), gone=(1, "INT")))

    assert columns.named("a") is columns.named("renamed") is columns.of_id(0) is newest.fields[0]
    assert columns.named("gone") is columns.of_id(1) is None


@pytest.mark.parametrize(
    ("older", "newest", "is_same"),
    [
        ("INT", "INT NOT NULL", True),
        ("TINYINT", "INT", True),
        ("VARCHAR(3)", "STRING", True),
        ("TIMESTAMP(4)", "TIMESTAMP(6)", True),
        ("INT", "BIGINT", False),
        ("FLOAT", "DOUBLE", False),
        ("DECIMAL(9, 2)", "DECIMAL(12, 2)", False),
        ("TIME(3)", "TIME(3)", False),
    ],
)
def test_a_column_is_the_same_if_clients_see_the_same_type(older: str, newest: str, is_same: bool) -> None:  # noqa: FBT001 - of a parameter
    columns = read(schema(1, a=(0, newest), b=(1, "INT")), schema(0, a=(0, older)))

    assert (columns.named("a") is not None) is is_same
    assert [each.name for each in columns.listed(["a", "b"])] == (["a", "b"] if is_same else ["b"])


def test_a_name_that_no_schema_has_is_refused_by_the_names_of_the_newest() -> None:
    columns = read(schema(1, amount=(0, "INT")), schema(0, b=(0, "INT")))

    with pytest.raises(FilterError, match="did you mean 'amount'"):
        columns.named("amonut")


def test_names_that_one_schema_cannot_tell_apart_are_those_of_the_other() -> None:
    columns = read(
        schema(1, a=(0, "INT"), A=(1, "INT")), schema(0, a=(0, "INT"), b=(1, "INT")), case_sensitive=False
    )

    assert columns.named("a") == columns.planned.fields[0]
    with pytest.raises(FilterError, match="several columns"):
        read(columns.planned, case_sensitive=False).named("a")
