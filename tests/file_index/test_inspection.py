import json
from typing import Any

import pytest

from app.errors import DeadlineExceededError
from app.file_index.container import write
from app.file_index.inspection import inspect
from app.file_index.stacked_index import FileIndex
from app.types import DataType, parse_type
from app.work import time_limit
from tests import golden_cases


def _indexes(name: str, types: dict[str, DataType]) -> dict[str, list[Any]]:
    described = json.loads(json.dumps(inspect(golden_cases.load_index(name).read(), types)))
    return {column["name"]: column["indexes"] for column in described["columns"]}


def test_describes_every_kind_with_the_column_type() -> None:
    (indexes,) = _indexes("one_column-all_four", {"c": parse_type("BIGINT")}).values()

    values = [one for one in golden_cases.load_index("one_column-all_four").columns["c"] if one is not None]
    counts = {"row_count": 150, "null_count": 150 - len(values), "min": min(values), "max": max(values)}
    assert indexes == [
        {"type": "bloom-filter", "offset": 104, "length": 82, "bits": 624, "hash_functions": 4},
        {
            "type": "bitmap",
            "offset": 186,
            "length": 1444,
            "version": 2,
            "cardinality": len(set(values)),
            **counts,
        },
        {
            "type": "range-bitmap",
            "offset": 1630,
            "length": 1307,
            "version": 1,
            "cardinality": len(set(values)),
            **counts,
        },
        {"type": "bsi", "offset": 2937, "length": 1169, "version": 1, **counts},
    ]


def test_tells_without_a_type_what_needs_none() -> None:
    (indexes,) = _indexes("one_column-all_four", {}).values()

    told = [set(index) - {"type", "offset", "length"} for index in indexes]
    assert told == [
        {"bits", "hash_functions"},
        {"version", "row_count", "cardinality", "has_nulls"},
        {"version", "row_count", "cardinality"},
        {"version", "row_count", "null_count"},
    ]


def test_map_keys_have_the_type_of_the_maps_values() -> None:
    types = {"m": parse_type("MAP<STRING, INT>")}

    for indexes in _indexes("map-range", types).values():
        assert {"min": indexes[0]["min"], "max": indexes[0]["max"]} == {"min": -11, "max": 12}


def test_shows_values_in_the_form_of_answers() -> None:
    day = _indexes("columns-0", {"day": parse_type("DATE")})["day"][0]

    assert (day["min"], day["max"]) == ("2020-08-24", "2020-09-01")


def test_bsi_finds_its_smallest_value_although_the_file_does_not_store_it() -> None:
    golden = golden_cases.load_index("bsi-int")
    values = [value for value in golden.columns["c"] if value is not None]

    (index,) = _indexes("bsi-int", {"c": parse_type("INT")})["c"]

    assert (index["min"], index["max"]) == (min(values), max(values))


def test_a_damaged_index_does_not_hide_the_others() -> None:
    index = FileIndex.read(
        write(
            {"c": [("bsi", b"\7"), ("bitmap", None), ("unheard-of", b"?"), ("bloom-filter", b"\0\0\0\1\0")]}
        )
    )

    described = json.loads(json.dumps(inspect(index, {"c": parse_type("INT")})))

    start = index.entries["c"][0].start
    assert described["columns"][0]["indexes"] == [
        {
            "type": "bsi",
            "offset": start,
            "length": 1,
            "error": {
                "detail": "bsi index of column 'c': expected version 1 of the bsi, found 7",
                "offset": start,
            },
        },
        {"type": "bitmap", "offset": -1, "length": 0, "empty": True},
        {
            "type": "unheard-of",
            "offset": start + 1,
            "length": 1,
            "error": {"detail": "'unheard-of' is not a known kind of index", "offset": None},
        },
        {"type": "bloom-filter", "offset": start + 2, "length": 5, "bits": 8, "hash_functions": 1},
    ]


def test_a_file_of_many_indexes_is_described_until_the_deadline() -> None:
    """A small file can list a large index very many times."""
    index = golden_cases.load_index("one_column-all_four").read()

    with time_limit(0), pytest.raises(DeadlineExceededError):
        inspect(index, {})
