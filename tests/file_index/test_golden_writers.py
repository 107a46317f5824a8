"""What we write of the golden rows is, byte for byte, what the engine wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from app.file_index import bitmap, bloom_filter, bsi, container, range_bitmap
from app.file_index.index_kinds import IndexKind, takes
from app.file_index.keys import key_space
from app.types import TypeRoot, parse_json, parse_type
from tests import golden_file_index, golden_unit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.types import DataType, Value

_UNITS = {"b": 1, "kb": 1 << 10, "mb": 1 << 20}
_MOST_ROWS = 20_000
_REFUSALS = "bsi holds absolute values|no version 3|does not fit a block"
_ONE_ENTRY_A_CHUNK = (TypeRoot.BOOLEAN, TypeRoot.TINYINT, TypeRoot.SMALLINT)


def _size(options: Mapping[str, str], name: str, default: int) -> int:
    number, unit = options.get(name, f"{default} b").split()
    return int(number) * _UNITS[unit]


def _written(
    kind: str, values: Sequence[Value | None], data_type: DataType, options: Mapping[str, Any]
) -> bytes:
    space = key_space(data_type)
    assert space is not None
    match IndexKind(kind):
        case IndexKind.BLOOM_FILTER:
            items = int(options.get("items", bloom_filter.DEFAULT_ITEMS))
            return bloom_filter.write(
                values, space, items, float(options.get("fpp", bloom_filter.DEFAULT_FPP))
            )
        case IndexKind.BITMAP:
            version = int(options.get("version", bitmap.VERSION_2))
            block_bytes = _size(options, "index-block-size", bitmap.DEFAULT_BLOCK_BYTES)
            return bitmap.write(values, space, version, block_bytes)
        case IndexKind.RANGE_BITMAP:
            default = 0 if data_type.root in _ONE_ENTRY_A_CHUNK else range_bitmap.DEFAULT_CHUNK_BYTES
            return range_bitmap.write(values, space, _size(options, "chunk-size", default))
        case IndexKind.BSI:
            return bsi.write(values, space)


@pytest.mark.parametrize("name", [name for name in golden_file_index.names() if name != "empty_entries"])
def test_writes_what_the_engine_wrote(name: str) -> None:
    golden = golden_file_index.load(name)
    index = golden.read()
    columns: dict[str, list[tuple[str, bytes | None]]] = {}

    for column, entries in index.entries.items():
        for entry in entries:
            payload = None if entry.is_empty else bytes(index.payload(entry))
            columns.setdefault(column, []).append((entry.kind, payload))
            if payload is None or golden.row_count > _MOST_ROWS:
                continue
            described = golden.document["indexes"][column]
            options = next(one["options"] for one in described if one["name"] == entry.kind)
            written = _written(entry.kind, golden.columns[column], golden.field(column).type, options)
            if entry.kind == IndexKind.BITMAP:
                # The order of the bitmaps is that of a Java hash map.
                assert len(written) == len(payload)
            else:
                assert written == payload

    assert container.write(columns) == golden.content


@pytest.mark.parametrize(
    "refused",
    golden_unit.document("file-index", "refused")["refused"],
    ids=lambda refused: str(refused["name"]),
)
def test_refuses_what_the_engine_refuses(refused: Mapping[str, Any]) -> None:
    data_type = parse_type(refused["type"])
    (described,) = refused["indexes"]["c"]
    kind = IndexKind(described["name"])
    if refused["rows"] is None:
        assert not takes(kind, data_type)
        return
    values = [parse_json(golden_file_index.expand(value), data_type) for value in refused["rows"]]

    with pytest.raises(ValueError, match=_REFUSALS):
        _written(kind, values, data_type, described["options"])
