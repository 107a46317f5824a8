"""The table that is planned: one row of a file has these columns.

==========  =======  ========  =============  ============================================================
column      type     in index  index          values of a file
==========  =======  ========  =============  ============================================================
id          BIGINT   KEYS      bloom filter   10,000 numbers below ``IDS``
cat         INT      VALUES    bitmap, V2     ``distinct - 1`` common ones, and one of its index alone
note        STRING             none           anything
score       INT      VALUES    range bitmap   ``distinct`` numbers below ``SCORES``
day         DATE               none           the partition: one day for each ``files_per_day`` files
c0          INT                none           ``number_span`` numbers, in the order of the day's files
c1, c2 ...  INT                none           ``number_span`` numbers of ``NUMBERS``, anywhere
==========  =======  ========  =============  ============================================================

Statistics of indexed columns cover every literal that is asked for, so that only indexes can skip a file by
them; those of ``c0``, ``c1`` and so on are narrow. A file of an index ``KEYS`` has 10,000 rows, others have
1,000. Files share some hundred different indexes in turn, since writing one takes longer than reading it many
times; in memory and in manifests each file has bytes of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from random import Random
from typing import Final

from app.types import DataField, DataType, TypeRoot, parse_type

DATABASE: Final = "golden"
TABLE: Final = "bench"
"""The engine's own benchmark plans the table of this name, with filters on ``id`` and ``cat``."""

IDS: Final = 1 << 62
SCORES: Final = 1_000_000
NUMBERS: Final = 1_000_000
NUMBER_SPAN: Final = NUMBERS // 1_000
FILES_PER_DAY: Final = 100
FIRST_DAY: Final = date(2020, 1, 1)
FIRST_PRIVATE_CATEGORY: Final = 1_000

ID: Final = DataField(0, "id", DataType(TypeRoot.BIGINT))
CAT: Final = DataField(1, "cat", DataType(TypeRoot.INT))
NOTE: Final = DataField(2, "note", parse_type("STRING"))
SCORE: Final = DataField(3, "score", DataType(TypeRoot.INT))
DAY: Final = DataField(4, "day", DataType(TypeRoot.DATE))

_KEYS_OF_FILE: Final = 10_000
_ROWS_WITHOUT_KEYS: Final = 1_000


class Indexed(StrEnum):
    """What the indexes of a file are about."""

    NOTHING = "no index"
    KEYS = "bloom filters"
    VALUES = "bitmaps"


@dataclass(frozen=True, slots=True)
class Layout:
    """What the files of a table have.

    Attributes:
        indexed: which columns have an index.
        is_embedded: indexes lie in the manifest, not beside the data file.
        numbers: how many columns ``c0``, ``c1`` and so on there are.
        distinct: values of ``cat`` and of ``score`` in one file.
        bodies: how many different indexes there are.
        files_per_day: files of one partition.
        number_span: how many values lie between the bounds of ``c0``, ``c1`` and so on in one file.
        has_narrow_cat: those of ``cat`` are as narrow, anywhere below ``NUMBERS``.
    """

    indexed: Indexed
    is_embedded: bool = True
    numbers: int = 10
    distinct: int = 20
    bodies: int = 250
    files_per_day: int = FILES_PER_DAY
    number_span: int = NUMBER_SPAN
    has_narrow_cat: bool = False

    @property
    def columns(self) -> tuple[DataField, ...]:
        """The table's columns."""
        numbers = (
            DataField(DAY.id + 1 + number, f"c{number}", DataType(TypeRoot.INT))
            for number in range(self.numbers)
        )
        return (ID, CAT, NOTE, SCORE, DAY, *numbers)

    @property
    def rows(self) -> int:
        """Rows of one file."""
        return _KEYS_OF_FILE if self.indexed is Indexed.KEYS else _ROWS_WITHOUT_KEYS

    @property
    def title(self) -> str:
        """How tables of results call it."""
        if self.indexed is Indexed.NOTHING:
            return self.indexed.value
        return f"{self.indexed.value}, {'embedded' if self.is_embedded else 'side files'}"


def ids(body: int) -> list[int]:
    """Values of ``id`` of the files that have this index."""
    random = Random(f"ids {body}")
    return [random.randrange(IDS) for _ in range(_KEYS_OF_FILE)]


def categories(body: int, distinct: int) -> list[int]:
    """Values of ``cat`` of such files, the one that no other index has coming last."""
    return [*range(distinct - 1), FIRST_PRIVATE_CATEGORY + body]


def scores(body: int, distinct: int) -> list[int]:
    """Values of ``score`` of such files."""
    return Random(f"scores {body}").sample(range(SCORES), distinct)
