"""LIKE, STARTS_WITH, ENDS_WITH and CONTAINS on CHAR(n), whose values Spark pads to n characters.

The pattern stays as it is: on CHAR(4) ``c LIKE 'c3'`` matches nothing and ``c LIKE 'c3%'`` every form of
``'c3'``. Where a session sets ``spark.sql.readSideCharPadding`` to false, the pattern meets values as they
are stored. Both are covered.

A padded value matches a pattern if what is stored matches the pattern without as many characters at its end
as there are blanks of padding. The end of a pattern can only stand for blanks where it is a blank, ``_`` or
``%``, so that there are few such patterns: ``'c3 %'`` and ``'c3'`` for ``'c3 %'``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from app.predicates.binding.char_values import BLANK
from app.predicates.like import ANY, ONE, Wildcard, write_pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.predicates.binding.char_values import PaddingRoom
    from app.predicates.like import Pieces

    Unit: TypeAlias = str | Wildcard

_STANDS_FOR_BLANKS: Final = (BLANK, ONE, ANY)


@dataclass(frozen=True, slots=True)
class StoredPatterns:
    """Patterns for values as they are stored.

    Attributes:
        patterns: every value that matches, padded or as it is stored, matches one of them.
        exact: whether the stored values that match one of them are just those that match when padded, and
            just those that match as they are stored.
    """

    patterns: tuple[bytes, ...]
    exact: bool


def stored_patterns(pieces: Pieces, length: int, room: PaddingRoom) -> StoredPatterns:
    """What a pattern for padded values means for stored ones.

    Args:
        pieces: the pattern.
        length: n of the column's type.
        room: gives room for the patterns; without room, one that matches more stands for all of them.
    """
    units: list[Unit] = []
    for piece in pieces:
        units.extend(piece.decode() if isinstance(piece, bytes) else (piece,))
    is_fixed = ANY not in units
    if is_fixed and len(units) != length:
        # A value of so many characters is not padded; if these are less than n, it only is if nobody pads.
        return StoredPatterns((write_pattern(pieces),), exact=len(units) > length)
    ends = [len(units)]
    end = len(units)
    while end and units[end - 1] in _STANDS_FOR_BLANKS:
        end -= 1
        # Whatever matches without the % matches with it.
        if units[end] is not ANY:
            ends.append(end)
    if not room.take(ends):
        return StoredPatterns((_written([*units[:end], ANY]),), exact=False)
    exact = len(ends) == 1 and (is_fixed or units[-1] is ANY)
    return StoredPatterns(tuple(_written(units[:each]) for each in ends), exact)


def _written(units: Sequence[Unit]) -> bytes:
    return write_pattern(tuple(unit if isinstance(unit, Wildcard) else unit.encode() for unit in units))
