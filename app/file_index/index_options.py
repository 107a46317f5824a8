"""The options of each kind of index, as objects and as they are written.

==============  ====================  ===========  =======================================================
kind            option                default      meaning
==============  ====================  ===========  =======================================================
bloom-filter    ``items``             1000000      number of distinct values to make room for
bloom-filter    ``fpp``               0.1          wanted probability of a false positive
bitmap          ``version``           2            1 or 2
bitmap          ``index-block-size``  16 kb        version 2: bound on the size of a block of entries
range-bitmap    ``chunk-size``        16 kb        bound on the further keys of a chunk of the dictionary;
                                                   0 b for BOOLEAN, TINYINT and SMALLINT
==============  ====================  ===========  =======================================================

Files do not store them, and nobody needs them for reading.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

from app.errors import RequestError
from app.file_index.bitmap import DEFAULT_BLOCK_BYTES, VERSION_1, VERSION_2
from app.file_index.bloom_filter import DEFAULT_FPP, DEFAULT_ITEMS
from app.file_index.index_kinds import IndexKind
from app.options.memory_size import memory_size

if TYPE_CHECKING:
    from collections.abc import Mapping

PARAMETERS: Final = {
    IndexKind.BLOOM_FILTER: ("items", "fpp"),
    IndexKind.BITMAP: ("version", "index-block-size"),
    IndexKind.RANGE_BITMAP: ("chunk-size",),
    IndexKind.BSI: (),
}
"""The names of each kind's options."""

_LARGEST_INT = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class BloomFilterOptions:
    """How large a bloom filter is made.

    Attributes:
        items: number of distinct values to make room for.
        fpp: wanted probability of a false positive.

    Raises:
        RequestError: there is no such filter, or it would be too large for a file.
    """

    items: int = DEFAULT_ITEMS
    fpp: float = DEFAULT_FPP

    def __post_init__(self) -> None:
        if self.items < 1:
            raise RequestError(f"items must be at least 1, found {self.items}")
        if not 0 < self.fpp < 1:
            raise RequestError(f"fpp must lie between 0 and 1, found {self.fpp}")
        if -self.items * math.log(self.fpp) / math.log(2) ** 2 >= _LARGEST_INT:
            raise RequestError(
                f"a bloom filter of {self.items} items at an fpp of {self.fpp} takes more than 256 MB"
            )


@dataclass(frozen=True, slots=True)
class BitmapOptions:
    """How a bitmap index is laid out.

    Attributes:
        version: 1 or 2.
        block_bytes: version 2: bound on the size of a block of entries.

    Raises:
        RequestError: there is no such layout.
    """

    version: int = VERSION_2
    block_bytes: int = DEFAULT_BLOCK_BYTES

    def __post_init__(self) -> None:
        if self.version not in (VERSION_1, VERSION_2):
            raise RequestError(f"version must be {VERSION_1} or {VERSION_2}, found {self.version}")
        if not 0 < self.block_bytes <= _LARGEST_INT:
            raise RequestError(f"index-block-size must be from 1 b to 2 gb, found {self.block_bytes} b")


@dataclass(frozen=True, slots=True)
class RangeBitmapOptions:
    """How the dictionary of a range-bitmap is laid out.

    Attributes:
        chunk_bytes: bound on the further keys of a chunk; None for the default of the column's type.

    Raises:
        RequestError: there is no such layout.
    """

    chunk_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.chunk_bytes is not None and not 0 <= self.chunk_bytes <= _LARGEST_INT:
            raise RequestError(f"chunk-size must be from 0 b to 2 gb, found {self.chunk_bytes} b")


@dataclass(frozen=True, slots=True)
class BsiOptions:
    """A bsi has none."""


IndexOptions: TypeAlias = BloomFilterOptions | BitmapOptions | RangeBitmapOptions | BsiOptions


def parse_options(kind: IndexKind, written: Mapping[str, str]) -> IndexOptions:
    """Reads the options of a kind.

    Args:
        kind: the kind.
        written: text of each option that is set, by its name; no others than the kind has.

    Raises:
        RequestError: a text is not what the option takes.
    """
    match kind:
        case IndexKind.BLOOM_FILTER:
            items = _whole("items", written.get("items", str(DEFAULT_ITEMS)))
            return BloomFilterOptions(items, _fraction("fpp", written.get("fpp", str(DEFAULT_FPP))))
        case IndexKind.BITMAP:
            version = _whole("version", written.get("version", str(VERSION_2)))
            size = written.get("index-block-size", f"{DEFAULT_BLOCK_BYTES} b")
            return BitmapOptions(version, memory_size("index-block-size", size))
        case IndexKind.RANGE_BITMAP:
            chunk_size = written.get("chunk-size")
            return RangeBitmapOptions(None if chunk_size is None else memory_size("chunk-size", chunk_size))
        case IndexKind.BSI:
            return BsiOptions()
        case _:
            assert_never(kind)


def _whole(name: str, text: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,10}", text, re.ASCII) or not -_LARGEST_INT <= int(text) <= _LARGEST_INT:
        raise RequestError(f"{name} must be a whole number of 32 bits, found {text!r:.100}")
    return int(text)


def _fraction(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise RequestError(f"{name} must be a number, found {text!r:.100}") from error
