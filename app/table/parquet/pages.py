"""What the pages of a Parquet file's columns become, found out before one of them is expanded.

A column of a row group is a series of pages, each a header (:mod:`app.table.parquet.thrift`) and its bytes:

=====  ============================================================================
field  meaning
=====  ============================================================================
1      type: 0 data, 2 dictionary, 3 data of version 2
2, 3   bytes of the page, expanded and as it stands
5      of data: field 1 number of values, 2 encoding
7      of a dictionary: field 1 number of values
8      of data of version 2: field 1 number of values, 4 encoding
=====  ============================================================================

A value that repeats takes nearly nothing: runs of levels stand for as many nulls as they like, and a number
for any value of the dictionary. So values count as well as bytes, and strings of a dictionary as often as
they may be meant.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from app.errors import CorruptMetadataError, UnsupportedFormatError
from app.table.parquet.thrift import read_struct
from app.table.records.arrow_records import is_chosen
from app.table.records.cursor import VarintCursor
from app.table.records.expansion import Allowance

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from app.table.parquet.footer import ColumnChunk, ParquetFooter
    from app.types.roaring import Buffer

# A value takes at most so many in columns and in what they are made with: eight, its length and its levels.
_VALUE_BYTES: Final = 16
_PAGE_BYTES: Final = 1 << 10
_INT32, _INT64, _STRING = 1, 2, 6
_PHYSICAL_TYPES: Final = frozenset({_INT32, _INT64, _STRING})
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_HEADERS: Final = {_DATA: (5, 2), _DATA_V2: (8, 4)}
"""Of data pages: field with their own header, and of their encoding in it."""
_DICTIONARY_ENCODINGS: Final = frozenset({2, 8})
_SHARES_PREFIXES: Final = 7
_LENGTH: Final = struct.Struct("<I")
_SMALL_BYTES: Final = 1 << 20
"""If a column cannot become more, nobody asks how long the strings of its dictionary are."""
_PLAIN: Final = 0
_CODECS: Final = {1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}


@dataclass(frozen=True, slots=True)
class _Page:
    """One page.

    Attributes:
        offset: of its header.
        kind: field 1.
        size: bytes, expanded.
        stored: its bytes as they stand.
        values: number of values.
        encoding: of the values.
    """

    offset: int
    kind: int
    size: int
    stored: memoryview
    values: int
    encoding: int


def check_pages(data: Buffer, footer: ParquetFooter, wanted: Sequence[str]) -> None:
    """Makes sure that reading some columns takes no more memory than a file of this size may.

    Args:
        data: the whole file.
        footer: of the file.
        wanted: names of the columns, with dots before those inside of others.

    Raises:
        CorruptMetadataError: it would take more, or pages do not lie where the footer says.
        UnsupportedFormatError: a column is compressed by an unknown codec.
    """
    allowance = Allowance(len(data))
    rows = 0
    for group in footer.row_groups:
        rows += group.rows
        # Every record names a file of its own, which no codec can shrink below a byte.
        if rows > len(data):
            raise CorruptMetadataError(f"a row group of {group.rows} rows in a file this small")
        for chunk in group.columns:
            if is_chosen(chunk.path, wanted):
                _check_chunk(data, chunk, group.rows, allowance)


def _check_chunk(data: Buffer, chunk: ColumnChunk, rows: int, allowance: Allowance) -> None:
    what = f"column {chunk.path}"
    if chunk.physical_type not in _PHYSICAL_TYPES:
        raise CorruptMetadataError(f"{what} has the unexpected type {chunk.physical_type}")
    allowance.take(rows * _VALUE_BYTES, what)
    pages = list(_pages(memoryview(data)[: chunk.end], chunk))
    for page in pages:
        allowance.take(_PAGE_BYTES + page.size + page.values * _VALUE_BYTES, what, page.offset)
    if chunk.physical_type == _STRING:
        _check_strings(pages, chunk.codec, allowance, what)


def _pages(data: memoryview, chunk: ColumnChunk) -> Iterator[_Page]:
    if not chunk.values:
        # Nothing is read of it, wherever it is said to lie.
        return
    cursor = VarintCursor(data)
    cursor.at = chunk.start
    while cursor.left:
        header = read_struct(cursor)
        kind = header.integer(1)
        values = encoding = 0
        if kind in _HEADERS:
            field, of_encoding = _HEADERS[kind]
            own = header.struct(field)
            values, encoding = own.integer(1), own.integer(of_encoding)
        elif kind != _DICTIONARY:
            raise CorruptMetadataError(f"a page of type {kind}", offset=header.offset)
        stored = cursor.take(header.integer(3), "a page")
        yield _Page(header.offset, kind, header.integer(2), stored, values, encoding)


def _check_strings(pages: list[_Page], codec: int, allowance: Allowance, what: str) -> None:
    """Counts the strings that stand in pages once and in the column perhaps many times."""
    for page in pages:
        if page.encoding == _SHARES_PREFIXES:
            allowance.take(page.values * page.size, what, page.offset)
    meant = sum(page.values for page in pages if page.encoding in _DICTIONARY_ENCODINGS)
    for dictionary in (page for page in pages if page.kind == _DICTIONARY):
        longest = dictionary.size
        if meant * longest > _SMALL_BYTES:
            longest = _longest(dictionary, codec)
        allowance.take(meant * longest, what, dictionary.offset)


def _longest(dictionary: _Page, codec: int) -> int:
    """Bytes of the longest string of a dictionary, in which each has its length before it."""
    content = _expand(dictionary, codec)
    if len(content) < _LENGTH.size:
        return 0
    longest: int = _LENGTH.unpack_from(content)[0]
    count, rest = divmod(len(content), _LENGTH.size + longest)
    if not rest:
        rows = np.frombuffer(content, np.uint8).reshape(count, -1)
        if (rows[:, : _LENGTH.size] == rows[0, : _LENGTH.size]).all():
            return longest
    at = 0
    while at + _LENGTH.size <= len(content):
        length: int = _LENGTH.unpack_from(content, at)[0]
        longest = max(longest, length)
        at += _LENGTH.size + length
    return longest


def _expand(page: _Page, codec: int) -> Buffer:
    if codec == _PLAIN:
        return page.stored
    if codec not in _CODECS:
        raise UnsupportedFormatError(f"Parquet codec {codec} is not supported")
    try:
        expanded: Buffer = pa.Codec(_CODECS[codec]).decompress(page.stored, page.size, asbytes=True)
    except (OSError, pa.ArrowException) as error:
        raise CorruptMetadataError(f"a dictionary cannot be expanded: {error}", offset=page.offset) from error
    return expanded
