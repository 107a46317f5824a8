"""fastavro in place of the native reader: the same records of what the engine wrote, the same refusals."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.errors import CorruptMetadataError
from app.table.avro import blocks
from app.table.avro.container import MAGIC, open_encoded
from app.table.avro.plain_blocks import decode_plainly
from app.table.records.expected import RecordOf
from tests.golden_tables import GoldenWarehouse


def avro_files(*roots: Path) -> Iterator[Path]:
    for root in roots:
        for path in sorted(root.glob("**/manifest/*")):
            with path.open("rb") as file:
                if file.read(len(MAGIC)) == MAGIC:
                    yield path


def test_the_metadata_of_golden_tables_of_every_release_is_decoded_alike(
    golden: GoldenWarehouse, golden_versions: Path
) -> None:
    compared = 0
    for path in avro_files(golden.root, golden_versions):
        file = open_encoded(path.read_bytes(), RecordOf({}))
        stored = list(file.blocks)
        if not stored:
            continue
        native = blocks.decode_blocks(stored, file.schema.text)

        plain = decode_plainly([(each.count, each.expanded) for each in stored], file.schema.text)

        assert plain.type == native.type, path
        assert plain.equals(native), path
        compared += 1
    assert compared > 500


SCHEMA = b'{"type":"record","name":"r","fields":[{"name":"name","type":"string"}]}'


@pytest.mark.parametrize(
    ("count", "content"),
    [
        (1, b"\x02aa"),
        (2, b"\x02a"),
        (1, b"\x04a"),
        (1, b"\x01a"),
        (1, b"\x02\xff"),
        (1, b"\xff" * 12),
        (1, b""),
    ],
)
def test_records_that_do_not_fill_their_block_are_corrupt_without_the_native_reader(
    monkeypatch: pytest.MonkeyPatch, count: int, content: bytes
) -> None:
    monkeypatch.setattr(blocks, "NATIVE", None)
    good = blocks.Block(0, 1, b"\x02a", 2)
    assert blocks.decode_blocks([good], SCHEMA).to_pylist() == [{"name": "a"}]

    with pytest.raises(CorruptMetadataError) as caught:
        blocks.decode_blocks([good, blocks.Block(100, count, content, len(content)), good], SCHEMA)

    assert caught.value.offset == 100
