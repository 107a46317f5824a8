"""Every filter of the golden data means the same in its two forms, and selects the rows that really match."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.predicates.model import BoundLeaf, BoundPredicate, leaves
from app.types import DataField, TypeRoot, parse_type
from app.types.data_types import TIMESTAMP_ROOTS
from tests import golden_file_index, golden_tables
from tests.golden_cases import for_each, together
from tests.sessions import bind_json, bind_sql

MICROSECONDS = 6
"""Fraction digits of Spark's timestamps."""
_LONG_NUMBERS = ("DECIMAL(38", "TIMESTAMP(9) WITH LOCAL")
"""Types of which the engine writes numbers with more digits than the floats that these tests read keep."""


def planning_fields(document: dict[str, Any], query: dict[str, Any]) -> Sequence[DataField]:
    """The columns of the schema that a query's filter refers to."""
    at = {key: query[key] for key in ("snapshot_id", "tag", "branch")}
    version = next(each for each in document["versions"] if each["at"] == at)
    schemas = {schema["id"]: schema for schema in document["schemas"]}
    schema = schemas.get(version["schema_id_used"], document["schema"])
    return [DataField(each["id"], each["name"], parse_type(each["type"])) for each in schema["fields"]]


@for_each("table", golden_tables.tables())
def test_filters_of_tables(table: str) -> None:
    document = golden_tables.expected(table)
    for query in document["queries"]:
        if query["predicate"] is None:
            continue
        fields = planning_fields(document, query)
        from_json = bind_json(query["predicate"], fields)
        if query["filter_sql"] is not None and not _means_more_in_sql(from_json):
            from_sql = bind_sql(query["filter_sql"], fields)
            assert repr(from_sql) == repr(from_json), query["filter_sql"]


@together("kind", "name", golden_file_index.by_kind())
def test_filters_of_index_files(name: str) -> None:
    golden = golden_file_index.load(name)
    for check in golden.document["checks"]:
        sql = check["sql"]
        from_json = golden.bind(check["predicate"])
        # A call of concat stands for a long string where JSON spells it out.
        if sql is not None and "concat(" not in sql and not _means_more_in_sql(from_json):
            assert repr(bind_sql(sql, golden.fields)) == repr(from_json), sql


def _means_more_in_sql(predicate: BoundPredicate) -> bool:
    """Whether SQL covers what Spark makes of a value beside what is stored: ``test_char_tests.py`` for CHAR,
    ``test_nanoseconds.py`` for timestamps with more digits than Spark's."""
    return any(
        isinstance(leaf, BoundLeaf)
        and (
            leaf.field.type.root is TypeRoot.CHAR
            or (
                leaf.literals
                and leaf.field.type.root in TIMESTAMP_ROOTS
                and leaf.field.type.precision > MICROSECONDS
            )
        )
        for leaf in leaves(predicate)
    )


def test_the_engines_own_json_is_read() -> None:
    compared = 0
    for table in golden_tables.tables():
        document = golden_tables.expected(table)
        for query in document["queries"]:
            engine = query.get("predicate_engine")
            if engine is None or any(written in str(engine) for written in _LONG_NUMBERS):
                continue
            fields = planning_fields(document, query)
            assert repr(bind_json(engine, fields)) == repr(bind_json(query["predicate"], fields))
            compared += 1

    assert compared > 100
