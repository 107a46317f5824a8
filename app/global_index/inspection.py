"""Describes the content of a global index file, as JSON."""

from __future__ import annotations

import re
from typing import Any, Final

from app.errors import CorruptIndexError, UnsupportedFormatError
from app.file_index import open_payload
from app.file_index.bitmap import BITMAP
from app.file_index.keys import Key, key_space
from app.global_index import bitmap, btree
from app.global_index.blocks import TRAILER_BYTES, Entries, compression_name, decoding, read_varints
from app.global_index.index_file import Search, Tail
from app.global_index.keys import Keys, read_keys
from app.global_index.search import KINDS
from app.types import DataType, Json, parse_type, to_json
from app.work import check_deadline

_NAME: Final = re.compile(r"(?:.*/)?(btree|bitmap)-global-index-[^/]+\.index", re.DOTALL)
_MARKS: Final = {btree.MAGIC.to_bytes(4, "little"): "btree", bitmap.MAGIC.to_bytes(4, "big"): "bitmap"}
_MOST_ROWS: Final = 1 << 32
_BYTES: Final = parse_type("STRING")


def kind_of(name: str, content: bytes) -> str | None:
    """Return the kind of a global index file by its name, or else by its last bytes.

    Return None for other files.
    """
    named = _NAME.fullmatch(name)
    return named[1] if named else _MARKS.get(content[-4:])


def describe(kind: str, content: bytes, data_type: DataType | None, listed: slice) -> dict[str, Json]:
    """Describe a file, and the ``listed`` ones of its blocks of keys. A damaged block has an ``error``.

    ``data_type``: type of the column. Without it no keys are shown.

    Raises CorruptIndexError if the footer, or a part other than a block of keys, is damaged. Raises
    UnsupportedFormatError if such a part has an unknown version or compression.
    """
    tail, read_as = Tail(0, content), data_type or _BYTES
    footer = btree.Footer.read(tail) if kind == "btree" else bitmap.Footer.read(tail)
    if footer is None:
        # The whole file is a file index, as release 1.4 writes it.
        if data_type is None:
            return BITMAP.describe_untyped(content)
        return BITMAP.describe(open_payload(BITMAP, content, data_type).of_file(0), data_type)
    index = _stored(tail, footer.index_offset, footer.index_size)
    nulls = KINDS[kind](len(content), _MOST_ROWS, read_as).null_rows() if footer.nulls_size else None
    places = _of_btree(index) if kind == "btree" else _of_bitmap(index)
    return {
        "version": 1,
        "size": len(content),
        "null_count": 0 if nulls is None else _count(nulls, content),
        "block_count": len(places),
        "blocks": [_block(kind, tail, *place, data_type) for place in places[listed]],
    }


def _of_btree(index: bytes) -> list[tuple[int, int]]:
    """Return places of the data blocks."""
    with decoding() as claim:
        offsets, sizes = btree.read_places(Entries.read(index, claim))
        return [*zip(offsets.tolist(), sizes.tolist(), strict=True)]


def _of_bitmap(index: bytes) -> list[tuple[int, int]]:
    """Return places of the dictionary blocks."""
    blocks = bitmap.Dictionary.read(index, _BYTES)
    return [*zip(blocks.offsets.tolist(), blocks.sizes.tolist(), strict=True)]


def _block(kind: str, tail: Tail, offset: int, size: int, data_type: DataType | None) -> dict[str, Json]:
    # An index block can list one large block very many times.
    check_deadline()
    described: dict[str, Json] = {"offset": offset, "size": size}
    try:
        stored = _stored(tail, offset, size)
        described["compression"] = compression_name(stored[size])
        if kind == "bitmap":
            return described | _of_keys(bitmap.Dictionary.read(stored, data_type or _BYTES).keys, data_type)
        with decoding() as claim:
            entries = Entries.read(stored, claim)
            # Text is copied once more as it is cut up.
            claim(len(entries.data))
            keys = read_keys(entries.data, entries.key_starts, entries.key_ends, data_type or _BYTES)
            described["row_count"] = int(read_varints(entries.data, entries.value_starts)[0].sum())
            return described | _of_keys(keys, data_type)
    except (CorruptIndexError, UnsupportedFormatError) as error:
        detail = error.expectation if isinstance(error, CorruptIndexError) else str(error)
        return described | {"error": {"detail": detail, "offset": offset}}


def _of_keys(keys: Keys, data_type: DataType | None) -> dict[str, Json]:
    described: dict[str, Json] = {"key_count": len(keys)}
    if data_type is not None and len(keys):
        described["min"], described["max"] = (_shown(end(keys.tolist()), data_type) for end in (min, max))
    return described


def _stored(tail: Tail, offset: int, size: int) -> bytes:
    return tail.piece(offset, size + TRAILER_BYTES, "a block", bytes).content or b""


def _shown(key: Key, data_type: DataType) -> Json:
    space = key_space(data_type)
    return to_json(key if space is None else space.value(key), data_type)


def _count(search: Search, content: bytes) -> int:
    decoded: Any = None
    while True:
        try:
            pieces = search.send(decoded)
        except StopIteration as end:
            return len(end.value)
        decoded = [piece.read(content[piece.offset : piece.offset + piece.size]) for piece in pieces]
