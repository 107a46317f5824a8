"""What the streams of an ORC file's columns become, found out before pyarrow reads one of them.

The last byte of a file is the length of the *postscript* before it. That has the length of the *footer*,
which stands before it and names the columns' types and the stripes, of a series of rows each. A stripe ends
with a footer of its own: its streams, one after the other from its start, and how each column is encoded.

==================  ===================================================================================
message             fields
==================  ===================================================================================
postscript          1 bytes of the footer, 2 codec, 3 block size, 5 bytes of metadata (of no use here)
footer              3 stripes, 4 types
stripe              1 offset, 2 bytes of indexes, 3 of data, 4 of its footer, 5 rows
type                1 kind, 2 numbers of the types inside, 3 their names
footer of a stripe  1 streams, 2 encodings by type, 3 the writer's time zone
stream              1 kind (1 data, 2 lengths, 3 dictionary), 2 type, 3 bytes
encoding            1 kind (0 plain, 1 dictionary; 2, 3 the same with runs of version 2), 2 entries of the
                    dictionary
==================  ===================================================================================

The reader makes room for as many bytes, items and values as lengths claim, and it repeats an entry of a
dictionary as often as it is meant. A run of lengths takes a few bytes, so each of them is looked at.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final, Self

from app.errors import CorruptMetadataError, UnsupportedFormatError
from app.table.orc.chunks import ChunkCodec
from app.table.orc.lengths import read_lengths
from app.table.orc.messages import Message
from app.table.records.arrow_records import is_chosen
from app.table.records.expansion import Allowance

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from app.types.roaring import Buffer


class _Kind(IntEnum):
    """Types of columns that metadata has."""

    BYTE = 1
    SHORT = 2
    INT = 3
    LONG = 4
    STRING = 7
    BINARY = 8
    LIST = 10
    STRUCT = 12


_MAGIC: Final = b"ORC"
_VALUE_BYTES: Final = 16
_MAX_TAIL_BYTES: Final = 8 << 20
_MAX_TYPES: Final = 1000
_MAX_STRIPES: Final = 10_000
_LENGTHS: Final = 2
_VERSION_1: Final = frozenset({0, 1})
_DICTIONARY_V2: Final = 3
_HAS_LENGTHS: Final = frozenset({_Kind.STRING, _Kind.BINARY, _Kind.LIST})
# What a byte of lengths may take: a run of two bytes is looked at as if it were a long one.
_LENGTH_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class _Type:
    """A type of the file: a column, or what is inside of one."""

    kind: int
    inner: tuple[int, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Tail:
    """What stands at the end of a file."""

    codec: ChunkCodec
    types: tuple[_Type, ...]
    stripes: tuple[Message, ...]

    @classmethod
    def read(cls, data: Buffer) -> Self:
        size = len(data)
        end = bytes(data[-1 - len(_MAGIC) : -1])
        if end != _MAGIC:
            raise CorruptMetadataError(
                f"expected a postscript that ends with {_MAGIC!r}, found {end!r}", offset=size - 1
            )
        postscript_at = size - 1 - data[-1]
        if postscript_at < 0:
            raise CorruptMetadataError(
                f"a postscript of {data[-1]} bytes in a file of {size}", offset=size - 1
            )
        postscript = Message.read(data[postscript_at : size - 1])
        codec = ChunkCodec(postscript.number(2), postscript.number(3))
        start = postscript_at - postscript.number(1)
        if start < postscript.number(5) or postscript_at - start > _MAX_TAIL_BYTES:
            raise CorruptMetadataError(
                f"an ORC footer of {postscript.number(1)} bytes in a file of {size}", offset=postscript_at
            )
        footer = Message.read(codec.expand(data[start:postscript_at], _MAX_TAIL_BYTES))
        types, stripes = footer.sized(4), footer.sized(3)
        if not 0 < len(types) <= _MAX_TYPES or len(stripes) > _MAX_STRIPES:
            raise CorruptMetadataError(f"an ORC file of {len(types)} types and {len(stripes)} stripes")
        described = tuple(_type(Message.read(each), number, len(types)) for number, each in enumerate(types))
        inside = [each for one in described for each in one.inner]
        if len(set(inside)) < len(inside):
            raise CorruptMetadataError("an ORC file with a type that is inside of two others")
        return cls(codec, described, tuple(map(Message.read, stripes)))

    def chosen(self, wanted: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Types of the columns of these names and of what is inside, each after the one that it is in.

        Yields:
            Number of a type, and of the one that it is in.
        """
        pending = [(0, each, name) for each, name in self._named(0, "")]
        while pending:
            parent, number, path = pending.pop()
            inner = [(number, each, name) for each, name in self._named(number, path)]
            if is_chosen(path, wanted) or any(is_chosen(each, [path]) for each in wanted):
                yield number, parent
                pending += inner

    def _named(self, number: int, path: str) -> list[tuple[int, str]]:
        """What is inside of a type, and the paths of it."""
        found = self.types[number]
        if found.kind != _Kind.STRUCT:
            return [(each, f"{path}.[]") for each in found.inner]
        pairs = zip(found.inner, found.names, strict=True)
        return [(each, f"{path}.{name}" if path else name) for each, name in pairs]


def check_streams(data: Buffer, wanted: Sequence[str]) -> None:
    """Makes sure that reading some columns takes no more memory than a file of this size may.

    Args:
        data: the whole file.
        wanted: names of the columns, with dots before those inside of others.

    Raises:
        CorruptMetadataError: it would take more, or its parts do not lie where the tail says.
        UnsupportedFormatError: the codec is unknown, or runs are of version 1.
    """
    tail = _Tail.read(data)
    allowance = Allowance(len(data))
    chosen = list(tail.chosen(wanted))
    for number, _ in chosen:
        if tail.types[number].kind not in frozenset(_Kind):
            raise CorruptMetadataError(f"an ORC file with a column of type {tail.types[number].kind}")
    rows = 0
    for stripe in tail.stripes:
        rows += stripe.number(5)
        # Every record names a file of its own, which no codec can shrink below a byte.
        if rows > len(data):
            raise CorruptMetadataError(f"an ORC file of {rows} rows in {len(data)} bytes")
        _Stripe(data, tail, stripe, allowance).check(chosen)


class _Stripe:
    """The streams of one stripe."""

    def __init__(self, data: Buffer, tail: _Tail, stripe: Message, allowance: Allowance) -> None:
        self._tail = tail
        self._rows = stripe.number(5)
        self._allowance = allowance
        start = stripe.number(1)
        end = start + stripe.number(2) + stripe.number(3)
        if end + stripe.number(4) > len(data):
            raise CorruptMetadataError(f"expected a stripe within the file, found bytes {start} to {end}")
        footer = Message.read(tail.codec.expand(data[end : end + stripe.number(4)], _MAX_TAIL_BYTES))
        self._encodings = footer.messages(2)
        if len(self._encodings) != len(tail.types):
            raise CorruptMetadataError(
                f"expected encodings of {len(tail.types)} types in a stripe, found {len(self._encodings)}"
            )
        self._streams: Mapping[int, list[tuple[int, Buffer]]] = defaultdict(list)
        for each in footer.messages(1):
            length = each.number(3)
            if length > end - start:
                raise CorruptMetadataError(f"a stream of {length} bytes beyond its stripe", offset=start)
            self._streams[each.number(2)].append((each.number(1), data[start : start + length]))
            start += length

    def check(self, chosen: Sequence[tuple[int, int]]) -> None:
        """Uses up what the chosen types take; each comes after the one that it is in."""
        # The reader has a block of each stream at a time.
        streams = sum(len(self._streams[number]) for number, _ in chosen)
        self._allowance.require(streams * self._tail.codec.block_bytes, "an ORC stripe")
        values = {0: self._rows}
        for number, parent in chosen:
            values[number] = self._check_type(number, values[parent])

    def _check_type(self, number: int, values: int) -> int:
        """Uses up what so many values of a type take, and returns how many there are of what is inside."""
        kind, encoding = self._tail.types[number].kind, self._encodings[number]
        what = f"ORC column {number}"
        self._allowance.take(values * _VALUE_BYTES, what)
        if kind not in _HAS_LENGTHS:
            return values
        if encoding.number(1) in _VERSION_1:
            raise UnsupportedFormatError("ORC files with runs of version 1 are not supported")
        if encoding.number(1) != _DICTIONARY_V2:
            total = int(self._lengths(number, values, what).sum())
            if kind == _Kind.LIST:
                return total
            self._allowance.take(total, what)
            return 0
        entries = encoding.number(2)
        self._allowance.take(entries * _VALUE_BYTES, what)
        lengths = self._lengths(number, entries, what)
        self._allowance.take(int(lengths.sum()) + values * int(lengths.max(initial=0)), what)
        return 0

    def _lengths(self, number: int, count: int, what: str) -> NDArray[np.int64]:
        """The first lengths of a type."""
        found = [stream for kind, stream in self._streams[number] if kind == _LENGTHS]
        if len(found) > 1:
            raise CorruptMetadataError(f"{what} has its lengths twice")
        expanded = self._tail.codec.expand(b"".join(found), self._allowance.left // _LENGTH_BYTES)
        self._allowance.take(len(expanded) * _LENGTH_BYTES, what)
        return read_lengths(expanded, count)


def _type(message: Message, number: int, count: int) -> _Type:
    inner = tuple(message.numbers(2))
    names = tuple(each.decode(errors="replace") for each in message.sized(3))
    found = _Type(message.number(1), inner, names)
    if not all(number < each < count for each in inner):
        raise CorruptMetadataError(f"an ORC type {number} with types {inner} inside, of {count}")
    if found.kind == _Kind.STRUCT and len(names) != len(inner):
        raise CorruptMetadataError(f"an ORC type {number} with {len(inner)} fields and {len(names)} names")
    return found
