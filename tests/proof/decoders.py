"""``python -m tests.proof.decoders NAME...``: decoders meet bytes that atheris makes by the code they reach.

A decoder gives something or raises an error of the project, whatever the bytes are: ``make decoders``. Ends
with 1 at the first decoder that does not. Arguments that begin with ``-`` are those of atheris.
"""

from __future__ import annotations

import os
import struct
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NoReturn

import atheris
import orjson
from pyroaring import BitMap

with atheris.instrument_imports(include=["app"]):
    import numpy as np

    from app.bucket_index import hash_index
    from app.deletion_vectors import EncodedVector, read_file, write_file
    from app.errors import PaimonIndexError
    from app.file_index import container
    from app.file_index.evaluation import decide_files, evaluate
    from app.file_index.index_kinds import KINDS
    from app.file_index.stacked_index import FileIndex, StackedIndex
    from app.global_index import KINDS as GLOBAL_KINDS
    from app.global_index import KeyBounds, describe
    from app.global_index.bitmap import Dictionary
    from app.global_index.btree import Block
    from app.predicates.json_reader import read_json_filter
    from app.predicates.model import BoundAnd, BoundLeaf, Operator
    from app.predicates.text import read_text
    from app.table.decoding import TableSnapshot
    from app.table.manifests.index_manifest import IndexManifest
    from app.table.manifests.manifest import Manifest
    from app.table.schema.schema import TableSchema
    from app.types import DataField, parse_type
    from app.types.bytes_column import BytesColumn

from tests.global_index_files import Habits, block, btree_file, entries, rows_of
from tests.tables import avro, entry, payload, record

FIELDS: Final = [DataField(at, name, parse_type(name)) for at, name in enumerate(("INT", "STRING", "DOUBLE"))]
ROWS: Final[list[list[Any]]] = [[1, 2, None, 2], [b"a", b"bc", None, b""], [1.5, None, -0.0, 2.0]]
ASKED: Final = BoundAnd(
    (
        BoundLeaf(Operator.EQUAL, FIELDS[0], (2,)),
        BoundLeaf(Operator.IN, FIELDS[1], (b"a", b"x")),
        BoundLeaf(Operator.LESS_THAN, FIELDS[2], (2.0,)),
    )
)


def _file_index(content: bytes) -> None:
    evaluate(ASKED, FileIndex.read(content), row_count=4)


def _stack(content: bytes) -> None:
    stacked = StackedIndex.read(BytesColumn.of([content, content[1:]]))
    decide_files(ASKED, stacked, np.arange(2), np.array([4, 4]))


def _json_filter(content: bytes) -> None:
    try:
        written = orjson.loads(content)
    except ValueError:
        return
    read_json_filter(written)


def _global_index(content: bytes) -> None:
    """Search and describe a file of either kind, and take the bytes for the metadata of an entry."""
    for kind, file_kind in GLOBAL_KINDS.items():
        file = file_kind(len(content), 100, FIELDS[0].type)
        for search in (file.null_rows(), file.rows_with([1, 2]), file.rows_between(1, None)):
            with suppress(PaimonIndexError):
                rows_of(search, content)
        with suppress(PaimonIndexError):
            describe(kind, content, FIELDS[0].type, slice(None))
    KeyBounds.read(content, FIELDS[0].type)


def _compressed_block(content: bytes) -> None:
    """Read a block whose compression and stated length are drawn, behind a checksum that is right."""
    packed = content[1:] + bytes([content[0] % 4 if content else 0])
    stored = packed + struct.pack("<I", zlib.crc32(packed))
    for read in (Block.read, Dictionary.read):
        with suppress(PaimonIndexError):
            read(stored, FIELDS[1].type)


def _indexes() -> bytes:
    return container.write(
        {
            field.name: [
                (kind, payload(kind, rows, field)) for kind in KINDS.values() if kind.takes(field.type)
            ]
            for field, rows in zip(FIELDS, ROWS, strict=True)
        }
    )


DECODERS: Final[Mapping[str, tuple[Callable[[bytes], object], Callable[[], bytes]]]] = {
    "file-index": (_file_index, _indexes),
    "stacked-index": (_stack, _indexes),
    "deletion-vectors": (
        read_file,
        lambda: write_file([EncodedVector.encode("a", BitMap([1, 2, 70_000]), is64=False)], "x").content,
    ),
    "hash-index": (hash_index.read, lambda: hash_index.write([1, -2])),
    "btree-block": (
        lambda content: Block.read(block(content), FIELDS[0].type).rows(slice(None), 100),
        lambda: entries([(b"\1\0\0\0", b"\2\3\4"), (b"\2\0\0\0", b"\1\7")]),
    ),
    "bitmap-dictionary": (
        lambda content: Dictionary.read(block(content), FIELDS[1].type),
        lambda: b"\2\1a\0\x09\2bc\x09\x09",
    ),
    "global-block": (_compressed_block, lambda: b"\1" + block(bytes(1 << 20), "zstd")[:-5]),
    "global-index": (
        _global_index,
        lambda: btree_file([(1, 0), (None, 1), (2, 2)], FIELDS[0].type, Habits(block_bytes=1))[0],
    ),
    "manifest": (Manifest.read, lambda: avro([record(entry())])),
    "index-manifest": (IndexManifest.read, IndexManifest(()).write),
    "schema": (TableSchema.read, lambda: b'{"id": 0, "fields": [{"id": 0, "name": "a", "type": "INT"}]}'),
    "snapshot": (
        TableSnapshot.read,
        lambda: b'{"id": 1, "schemaId": 0, "baseManifestList": "a", "deltaManifestList": "b"}',
    ),
    "text-filter": (
        lambda content: read_text(content.decode(errors="replace")),
        lambda: b"a = 1 AND NOT (b IN ('x', NULL) OR c BETWEEN 1.5 AND 2e3) AND `d` LIKE 'a%'",
    ),
    "json-filter": (
        _json_filter,
        lambda: (
            b'{"kind": "LEAF", "transform": {"name": "FIELD_REF", "fieldRef": {"name": "a"}}, '
            b'"function": "EQUAL", "literals": [1]}'
        ),
    ),
}


def main(arguments: Sequence[str]) -> int:
    others = [each for each in arguments if each.startswith("-")]
    for name in (each for each in arguments if each not in others):
        with TemporaryDirectory(prefix="paimon-index-decoders-") as directory:
            # What is imported and instrumented, which takes longer than many runs, all of them share.
            child = os.fork()
            if not child:
                _fuzz(name, Path(directory), others)
            _, status = os.waitpid(child, 0)
        if status:
            return 1
    return 0


def _fuzz(name: str, directory: Path, arguments: Sequence[str]) -> NoReturn:
    """End this process with a status other than 0 where the decoder raises anything else."""
    decode, example = DECODERS[name]

    def test(content: bytes) -> None:
        with suppress(PaimonIndexError):
            decode(content)

    (directory / "example").write_bytes(example())
    atheris.Setup([sys.argv[0], str(directory), *arguments], test)
    atheris.Fuzz()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
