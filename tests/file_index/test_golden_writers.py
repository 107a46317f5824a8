"""What we write of the golden rows is what the engine wrote, but for the order of bitmaps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from app.errors import RequestError
from app.file_index import container
from app.file_index.container import write_index
from app.file_index.index_kinds import KINDS
from app.types import DataType, parse_json, parse_type
from tests import golden_file_index, golden_unit
from tests.containers import meanings
from tests.golden_cases import together
from tests.key_columns import key_column

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


@together("kind", "name", golden_file_index.by_kind(left_out=_EMPTIED))
def test_writes_what_the_engine_wrote(name: str) -> None:
    golden = golden_file_index.load(name)
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
    golden_unit.document("file-index", "refused")["refused"],
    ids=lambda refused: str(refused["name"]),
)
def test_refuses_what_the_engine_refuses(refused: Mapping[str, Any]) -> None:
    data_type = parse_type(refused["type"])
    (described,) = refused["indexes"]["c"]
    kind = KINDS[described["name"]]
    values = [parse_json(golden_file_index.expand(value), data_type) for value in refused["rows"] or []]

    with pytest.raises(RequestError, match=_REFUSALS.get(refused["name"], _UNSUITED)):
        write_index(kind, key_column(values, data_type), kind.parse_options(described["options"]))
