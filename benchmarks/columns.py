"""The columns of the benchmark's table, and real indexes over random rows of them.

======  =======  =============  ==================================================================
column  type     index          rows of a file
======  =======  =============  ==================================================================
id      BIGINT   bloom filter   distinct numbers up to ``IDS``
cat     INT      bitmap, V2     100 of 10,000 categories
score   INT      range bitmap   numbers up to ``SCORES``
amount  INT      bit-slice      numbers up to ``SCORES``; not in the table, only evaluated alone
day     DATE     none           one day for each 20 files: statistics decide
======  =======  =============  ==================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.file_index import bitmap, bloom_filter, bsi, container, range_bitmap
from app.file_index.index_kinds import IndexKind
from app.file_index.keys import key_space
from app.types import DataField, DataType, TypeRoot

if TYPE_CHECKING:
    from random import Random

ROWS: Final = 1_000
IDS: Final = 1 << 62
CATEGORIES: Final = 10_000
SCORES: Final = 1_000_000

DISTINCT_INDEXES: Final = 200
"""Files share this many indexes in turn, since writing one takes longer than reading it many times. Each file
has bytes of its own where they are read."""

ID: Final = DataField(0, "id", DataType(TypeRoot.BIGINT))
CAT: Final = DataField(1, "cat", DataType(TypeRoot.INT))
SCORE: Final = DataField(2, "score", DataType(TypeRoot.INT))
DAY: Final = DataField(3, "day", DataType(TypeRoot.DATE))
AMOUNT: Final = DataField(4, "amount", DataType(TypeRoot.INT))

INDEXES: Final = {
    ID: IndexKind.BLOOM_FILTER,
    CAT: IndexKind.BITMAP,
    SCORE: IndexKind.RANGE_BITMAP,
    AMOUNT: IndexKind.BSI,
}

_CATEGORIES_OF_FILE: Final = 100
_BLOOM_ITEMS: Final = 1_000
_BLOOM_FPP: Final = 0.1


def file_index(columns: tuple[DataField, ...], random: Random) -> bytes:
    """A container with the index of each of these columns, over random rows of one file."""
    return container.write({each.name: [(INDEXES[each], _payload(each, random))] for each in columns})


def _payload(column: DataField, random: Random) -> bytes:
    space = key_space(column.type)
    if space is None:
        raise TypeError(f"{column.type} has no keys")
    match INDEXES[column]:
        case IndexKind.BLOOM_FILTER:
            ids = [random.randrange(IDS) for _ in range(ROWS)]
            return bloom_filter.write(ids, space, _BLOOM_ITEMS, _BLOOM_FPP)
        case IndexKind.BITMAP:
            categories = random.sample(range(CATEGORIES), _CATEGORIES_OF_FILE)
            return bitmap.write(random.choices(categories, k=ROWS), space)
        case IndexKind.RANGE_BITMAP:
            return range_bitmap.write([random.randrange(SCORES) for _ in range(ROWS)], space)
        case IndexKind.BSI:
            return bsi.write([random.randrange(SCORES) for _ in range(ROWS)], space)
