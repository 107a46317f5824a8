"""Paimon's schemas as Iceberg states them."""

import json
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.table.name_mapping import parse_mapping_from_json

from app.errors import UnsupportedFormatError
from app.iceberg.field_ids import NameMapping
from app.iceberg.refusals import check_file_schema, reason_against
from app.iceberg.schema import last_column_id, names_by_id, partition_specs, schema_json
from app.jobs.rows.data_file import file_schema
from app.options.table_options import TableOptions
from app.table import TableSchema
from app.types import DataField, parse_type
from tests.golden_cases import GoldenWarehouse
from tests.iceberg.rows import field_ids
from tests.iceberg.specification import validate_schema


def schema(*columns: tuple[str, Any], number: int = 0, first_id: int = 0, **members: Any) -> TableSchema:
    fields = tuple(
        DataField(first_id + at, name, parse_type(written)) for at, (name, written) in enumerate(columns)
    )
    return TableSchema(number, fields, **members)


def types(found: TableSchema, *, millis: bool = False) -> list[Any]:
    written: Any = schema_json(found, millis=millis)
    validate_schema(written, "Schema")
    return [field["type"] for field in written["fields"]]


@pytest.mark.parametrize(
    ("paimon", "iceberg"),
    [
        ("TINYINT", "int"),
        ("SMALLINT", "int"),
        ("INT", "int"),
        ("BIGINT", "long"),
        ("DECIMAL(12, 2)", "decimal(12,2)"),
        ("CHAR(4)", "string"),
        ("STRING", "string"),
        ("BINARY(3)", "binary"),
        ("BYTES", "binary"),
        ("TIMESTAMP(6)", "timestamp"),
        ("TIMESTAMP(4) WITH LOCAL TIME ZONE", "timestamptz"),
    ],
)
def test_simple_types_have_a_counterpart(paimon: str, iceberg: str) -> None:
    assert types(schema(("c", paimon))) == [iceberg]


@pytest.mark.parametrize("written", ["TIME(3)", "TIMESTAMP(9)", "TIMESTAMP(3)", "VARIANT", "MULTISET<INT>"])
def test_other_types_are_refused_by_the_name_of_their_column(written: str) -> None:
    inside = {"type": "ARRAY", "element": written}
    for each in (written, inside) if "<" not in written else (written,):
        with pytest.raises(ValueError, match=r"'c|'element'"):
            schema_json(schema(("c", each)), millis=False)
        assert "Iceberg's clients cannot read this" in (reason_against(schema(("c", each)), "t") or "")


def test_milliseconds_have_a_counterpart_for_clients_that_read_them() -> None:
    assert types(schema(("c", "TIMESTAMP(3)")), millis=True) == ["timestamp"]


@pytest.mark.parametrize("table", ["all_types", "map_index", "append_sidecar"])
def test_ids_are_those_in_the_data_files(golden: GoldenWarehouse, table: str) -> None:
    found = TableSchema.read((golden.table(table) / "schema" / "schema-0").read_bytes())
    ours = {number: name.rpartition(".")[2] for number, name in names_by_id(found.fields)}

    for path in sorted(golden.table(table).glob("*/*.parquet")):
        assert field_ids(path) == ours
    assert last_column_id(found) == max(ours)


def test_identifier_fields_are_the_primary_key() -> None:
    keyed = schema(("a", "INT NOT NULL"), ("b", "STRING NOT NULL"), primary_keys=("a", "b"))
    floating = schema(("a", "DOUBLE NOT NULL"), primary_keys=("a",))

    assert schema_json(keyed, millis=False)["identifier-field-ids"] == [0, 1]
    assert "identifier-field-ids" not in schema_json(floating, millis=False)


def test_partition_columns_of_one_form_are_partition_fields() -> None:
    keys = ("day", "kind", "share")
    found = schema(("day", "DATE"), ("kind", "CHAR(3)"), ("share", "DOUBLE"), partition_keys=keys)

    unpartitioned, partitioned = partition_specs(found)
    assert unpartitioned == {"spec-id": 0, "fields": []}
    validate_schema(partitioned, "PartitionSpec")
    assert [field["name"] for field in partitioned["fields"]] == ["day"]  # type: ignore[index,call-overload,union-attr] # JSON
    assert partition_specs(schema(("kind", "CHAR(3)"), partition_keys=("kind",))) == [unpartitioned]


def test_names_lead_to_the_columns_that_had_them_last() -> None:
    old = schema(("a", "INT"), ("b", "INT"), ("m", {"type": "MAP", "key": "STRING", "value": "INT"}))
    renamed = TableSchema(1, (DataField(0, "x", parse_type("INT")), DataField(3, "b", parse_type("INT"))))

    mapping = NameMapping.of([renamed, old])
    written: Any = mapping.json()

    by_id = {each["field-id"]: each for each in written}
    assert by_id[0]["names"] == ["x", "a"]
    assert (by_id[3]["names"], by_id[1]["names"]) == (["b"], [])
    assert [part["names"] for part in by_id[2]["fields"]] == [["key"], ["value"]]
    assert mapping.fits(renamed.fields)
    assert not mapping.fits(old.fields)


def test_pyiceberg_finds_an_id_for_every_column_of_a_file_with_keys() -> None:
    described = schema(("day", "DATE"), ("k", "BIGINT NOT NULL"), ("v", "STRING"), primary_keys=("k",))
    with_ids = file_schema(described)
    without_ids = pa.schema([each.remove_metadata() for each in with_ids])

    mapping = parse_mapping_from_json(json.dumps(NameMapping.of([described]).json()))

    assert pyarrow_to_schema(without_ids, mapping) == pyarrow_to_schema(with_ids)
    assert [each.name for each in with_ids][:3] == ["_KEY_k", "_SEQUENCE_NUMBER", "_VALUE_KIND"]


@pytest.mark.parametrize(
    ("stored", "present"),
    [
        ("INT", "BIGINT"),
        ("TINYINT", "INT"),
        ("FLOAT", "DOUBLE"),
        ("DECIMAL(10, 2)", "DECIMAL(12, 2)"),
        ("VARCHAR(3)", "STRING"),
        ("TIMESTAMP(4)", "TIMESTAMP(6)"),
        ("INT NOT NULL", "INT"),
        ({"type": "ARRAY", "element": "INT"}, {"type": "ARRAY", "element": "BIGINT"}),
    ],
)
def test_files_of_narrower_types_are_read(stored: Any, present: Any) -> None:
    check_file_schema(schema(("c", stored)), schema(("c", present), number=1))


@pytest.mark.parametrize(
    ("stored", "present"),
    [
        ("BIGINT", "INT"),
        ("INT", "STRING"),
        ("DECIMAL(10, 2)", "DECIMAL(14, 4)"),
        ("STRING", "VARCHAR(3)"),
        ("CHAR(3)", "STRING"),
        ("TIMESTAMP(3)", "TIMESTAMP(6)"),
        ("TIMESTAMP(6)", "TIMESTAMP(4)"),
        ({"type": "ARRAY", "element": "INT"}, {"type": "ARRAY", "element": "STRING"}),
    ],
)
def test_files_of_types_that_are_cast_are_refused(stored: Any, present: Any) -> None:
    with pytest.raises(UnsupportedFormatError, match="hold column 'c' as"):
        check_file_schema(schema(("c", stored)), schema(("c", present), number=1))


def test_columns_that_came_and_went_are_no_obstacle() -> None:
    check_file_schema(schema(("a", "INT")), schema(("b", "STRING"), number=1, first_id=5))


def test_a_column_of_time_is_in_the_way_even_when_it_is_gone() -> None:
    with pytest.raises(UnsupportedFormatError, match="hold column 't' of TIME"):
        check_file_schema(schema(("a", "INT"), ("t", "TIME(3)")), schema(("a", "INT"), number=1))


@pytest.mark.parametrize(
    ("options", "keys", "part"),
    [
        ({}, (), None),
        ({"file.format": "orc"}, (), "Parquet"),
        ({"data-evolution.enabled": "true", "row-tracking.enabled": "true"}, (), "data-evolution"),
        ({"scan.mode": "from-snapshot"}, (), "scan.mode"),
        ({}, ("a",), "merged"),
        ({"merge-engine": "first-row"}, ("a",), None),
        ({"deletion-vectors.enabled": "true"}, ("a",), "32 bits"),
        ({"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": "true"}, ("a",), None),
    ],
)
def test_what_speaks_against_a_table_is_known_from_its_schema(
    options: dict[str, str], keys: tuple[str, ...], part: str | None
) -> None:
    described = schema(("a", "INT NOT NULL"), primary_keys=keys, options=TableOptions(options))
    found = reason_against(described, "t")

    assert found is None if part is None else part in (found or "")
