"""Global index files as the engine and pypaimon write them: the counterpart of what the service reads."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import cramjam
from pyroaring import BitMap, BitMap64

from app.file_index import condition_of
from app.global_index import KINDS, KeyBounds, Part, Search, searches
from app.predicates.model import BoundLeaf
from app.types import DataType, TypeRoot, Value
from app.types.data_types import FLOATING_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS

from backports.zstd import compress as zstd_compress  # isort: skip

_FORMS: Final = {
    TypeRoot.BOOLEAN: "<b",
    TypeRoot.TINYINT: "<b",
    TypeRoot.SMALLINT: "<h",
    TypeRoot.INT: "<i",
    TypeRoot.DATE: "<i",
    TypeRoot.TIME: "<i",
    TypeRoot.BIGINT: "<q",
    TypeRoot.FLOAT: "<f",
    TypeRoot.DOUBLE: "<d",
}
COMPRESSIONS: Final = {"none": 0, "zstd": 1, "lz4": 2, "lzo": 3}


def is_held(data_type: DataType) -> bool:
    """Tell whether global indexes hold values of a type."""
    return data_type.root in {*_FORMS, *STRING_ROOTS, *TIMESTAMP_ROOTS, TypeRoot.DECIMAL}


def varint(number: int) -> bytes:
    written = b""
    while number > 127:
        written += bytes([number & 127 | 128])
        number >>= 7
    return written + bytes([number])


@dataclass(frozen=True, kw_only=True)
class Habits:
    """What writers do differently.

    ``cuts``: pypaimon cuts timestamps to microseconds, and takes both zeros for one key. ``flags``: of 2.0
    and later, in the metadata of entries.
    """

    block_bytes: int = 1 << 16
    compression: str = "none"
    cuts: bool = False
    flags: bool = True
    bloom: bytes = b""


def stored(value: Value, data_type: DataType, habits: Habits) -> bytes:
    root = data_type.root
    if root in _FORMS:
        return struct.pack(_FORMS[root], value)
    if root in STRING_ROOTS:
        return bytes(value)  # type: ignore[arg-type] # the form of texts
    number: Any = value
    if root is TypeRoot.DECIMAL and data_type.is_compact_decimal:
        return struct.pack("<q", number)
    if root is TypeRoot.DECIMAL:
        size = 1
        while not -(1 << 8 * size - 1) <= number < 1 << 8 * size - 1:
            size += 1
        return number.to_bytes(size, "big", signed=True)  # type: ignore[no-any-return]
    millis, nanos = divmod(number, 1_000_000)
    if data_type.is_compact_timestamp:
        return struct.pack("<q", millis)
    return struct.pack("<q", millis) + varint(nanos // 1000 * 1000 if habits.cuts else nanos)


def _order(data_type: DataType, habits: Habits) -> Callable[[Value], Any]:
    if data_type.root not in FLOATING_ROOTS:
        return lambda value: value

    def order(value: Any) -> tuple[bool, float, bool]:
        if math.isnan(value):
            return True, 0.0, False
        return False, value, not habits.cuts and math.copysign(1, value) > 0

    return order


def metadata(low: bytes | None, high: bytes | None, *, has_nulls: bool, flags: bool) -> bytes:
    """Keys of a file, as its entry tells of them."""
    parts = [part for key in (low, high) for part in (struct.pack("<i", len(key or b"")), key or b"")]
    rest = bytes([has_nulls]) + (bytes([1, (low is None) | (high is None) << 1]) if flags else b"")
    return b"".join(parts) + rest


def block(content: bytes, compression: str = "none") -> bytes:
    """Return a block with its trailer."""
    packed = content
    if compression == "zstd":
        packed = varint(len(content)) + zstd_compress(content)
    elif compression == "lz4":
        body = bytes(cramjam.lz4.compress_block(content, store_size=False))
        packed = varint(len(content)) + struct.pack("<ii", len(body), len(content)) + body
    packed += bytes([COMPRESSIONS[compression]])
    return packed + struct.pack("<I", zlib.crc32(packed))


def entries(pairs: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Return a block of entries, without its trailer."""
    parts = [varint(len(key)) + key + varint(len(value)) + value for key, value in pairs]
    body, sizes = b"".join(parts), [len(part) for part in parts]
    if len(set(sizes)) == 1:
        return body + struct.pack("<Ib", sizes[0], 0)
    starts = [sum(sizes[:at]) for at in range(len(sizes))]
    return body + struct.pack(f"<{len(starts)}IIb", *starts, len(starts), 1)


def _handle(offset: int, size: int) -> bytes:
    return varint(offset) + varint(size)


def btree_file(
    rows: Sequence[tuple[Value | None, int]], data_type: DataType, habits: Habits
) -> tuple[bytes, bytes]:
    """Return a file of rows with their values, and the metadata of its entry."""
    nulls = BitMap64([row for value, row in rows if value is None])
    order = _order(data_type, habits)
    having = sorted(
        ((value, row) for value, row in rows if value is not None), key=lambda each: order(each[0])
    )
    pairs = []
    for _, same in groupby(having, key=lambda each: order(each[0])):
        listed = list(same)
        ids = b"".join(varint(row) for _, row in listed)
        pairs.append((stored(listed[-1][0], data_type, habits), varint(len(listed)) + ids))
    written, index = b"", []
    while pairs:
        count = 1
        while count < len(pairs) and len(entries(pairs[:count])) <= habits.block_bytes:
            count += 1
        some, pairs = pairs[:count], pairs[count:]
        stored_block = block(entries(some), habits.compression)
        index.append((some[-1][0], _handle(len(written), len(stored_block) - 5)))
        written += stored_block
    null_handle = (0, 0)
    if nulls:
        content = nulls.serialize()
        null_handle = len(written), len(content)
        written += content + struct.pack("<I", zlib.crc32(content))
    bloom_handle = (len(written), len(habits.bloom), len(index)) if habits.bloom else (0, 0, 0)
    written += habits.bloom
    stored_block = block(entries(index), habits.compression)
    index_handle = len(written), len(stored_block) - 5
    written += stored_block
    written += struct.pack("<qiqqiqiii", *bloom_handle, *index_handle, *null_handle, 1, 0x50425449)
    ends = (
        [stored(each[0], data_type, habits) for each in (having[0], having[-1])] if having else [None, None]
    )
    return written, metadata(*ends, has_nulls=bool(nulls), flags=habits.flags)


def bitmap_file(
    rows: Sequence[tuple[Value | None, int]], data_type: DataType, habits: Habits
) -> tuple[bytes, bytes]:
    """Return a file of the format of 2.1, and the metadata of its entry."""
    by_key: dict[bytes, BitMap64] = {}
    for value, row in rows:
        if value is not None:
            by_key.setdefault(stored(value, data_type, habits), BitMap64()).add(row)
    written = b""
    handles = []
    for some in (
        [row for value, row in rows if value is None],
        [row for value, row in rows if value is not None],
    ):
        content = BitMap64(some).serialize()
        handles.append((len(written), len(content)))
        written += content
    index, pending = [], dict(sorted(by_key.items()))
    places = {}
    for key, bitmap in pending.items():
        content = bitmap.serialize()
        places[key] = _handle(len(written), len(content))
        written += content
    keys = list(places)
    while keys:
        count = 1
        while count < len(keys) and len(_dictionary(places, keys[:count])) <= habits.block_bytes:
            count += 1
        some_keys, keys = keys[:count], keys[count:]
        stored_block = block(_dictionary(places, some_keys), habits.compression)
        index.append((some_keys[0], _handle(len(written), len(stored_block) - 5)))
        written += stored_block
    stored_block = block(_dictionary(dict(index), [key for key, _ in index]), habits.compression)
    handles.append((len(written), len(stored_block) - 5))
    written += stored_block
    numbers = [number for handle in handles for number in handle]
    written += struct.pack(">qiqiqiiii", *numbers, len(by_key), 1, 0x42474958)
    order = _order(data_type, habits)
    having = sorted((value for value, _ in rows if value is not None), key=order)
    ends = [stored(each, data_type, habits) for each in (having[0], having[-1])] if having else [None, None]
    has_nulls = any(value is None for value, _ in rows)
    return written, metadata(*ends, has_nulls=has_nulls, flags=habits.flags)


def _dictionary(places: Mapping[bytes, bytes], keys: Sequence[bytes]) -> bytes:
    return varint(len(keys)) + b"".join(varint(len(key)) + key + places[key] for key in keys)


WRITERS: Final = {"btree": btree_file, "bitmap": bitmap_file}


def rows_of(search: Search, content: bytes) -> BitMap:
    """Return what a search finds in the bytes of a file."""
    decoded: Any = None
    while True:
        try:
            pieces = search.send(decoded)
        except StopIteration as end:
            found: BitMap = end.value
            return found
        decoded = [piece.read(content[piece.offset : piece.offset + piece.size]) for piece in pieces]


def found_by(leaf: BoundLeaf, files: Sequence[tuple[str, bytes, bytes | None]], row_count: int) -> BitMap:
    """Return the rows that satisfy a test, of a range that has these files."""
    parts = [
        Part(KINDS[kind](len(content), row_count, leaf.field.type), KeyBounds.read(told, leaf.field.type))
        for kind, content, told in files
    ]
    condition = condition_of(leaf)
    assert condition is not None
    chosen = searches(condition, parts)
    found = BitMap.union(BitMap(), *(rows_of(begin(), files[at][1]) for at, begin in chosen.searches))
    return BitMap(range(row_count)) - found if chosen.is_complement else found
