r"""Which stored values of a CHAR(n) column stand where beside a literal.

Spark pads: a column's values to n characters when it reads them, and the shorter side of a comparison. What
is *stored* may be padded, in part or not at all, as the writer liked (Spark and Flink pad, the Java API does
not check), and may even be longer than n. Bounds, indexes and key hashes are of stored bytes, so a test has
to be said of stored bytes: of all that mean the same.

Let ``target`` be the literal as it is compared, and ``padded(s)`` a stored value with blanks up to ``width``
characters. For nearly every ``s`` the order of ``s`` and ``target`` as bytes is that of ``padded(s)`` and
``target``. All exceptions are beginnings of ``target`` (or the whole), since only there padding is compared:

=================================  ==================  ======================================================
``s``, a beginning of ``target``   what follows in it  ``padded(s)``
=================================  ==================  ======================================================
``"c3"`` of ``"c3  "``             blanks to the end   equals it, if it is ``width`` characters long, and is
                                                       above it, if it is shorter
``"c"`` of ``"c\x01"``              below a blank       above it
``"c"`` of ``"c x"``, ``"c3"``     above a blank       below it, as the bytes are
=================================  ==================  ======================================================

So with ``equal`` and ``above``, the exceptions of the first two kinds, of any ``s``::

    padded(s) = target   is   s in equal
    padded(s) < target   is   s < target   and s not in equal or above
    padded(s) <= target  is   s <= target  and s not in above
    padded(s) > target   is   s > target   or s in above
    padded(s) >= target  is   s > target   or s in equal or above
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

BLANK: Final = " "
MAX_BYTES: Final = 16 * 1024 * 1024
BELOW_BLANK: Final = re.compile(r"[\x00-\x1f]")
_VALUE_BYTES: Final = 64
"""About what Python takes for a value beside its bytes."""


@dataclass(slots=True)
class PaddingRoom:
    """How much memory the stored forms of a filter's literals may still take, all of them together.

    A literal of one character on CHAR(255) has 255 forms, and a filter may have many thousand literals.
    """

    _left: int = field(default=MAX_BYTES)

    def take(self, ends: Collection[int]) -> bool:
        """Whether there was room for beginnings of a text that end there; if so, it is taken."""
        characters = len(ends) * (ends[0] + ends[-1]) // 2 if isinstance(ends, range) and ends else sum(ends)
        wanted = characters + _VALUE_BYTES * len(ends)
        if wanted > self._left:
            return False
        self._left -= wanted
        return True


@dataclass(frozen=True, slots=True)
class Standing:
    """Where stored values stand beside a literal, see the module's docstring.

    Attributes:
        target: the literal as it is compared.
        equal: stored values that equal it; with ``above`` they hold ``target`` itself in any case.
        above: stored values up to ``target`` in bytes, but above it once padded.
        cut: Spark cuts values that are longer than ``target`` before it compares them.
    """

    target: bytes
    equal: tuple[bytes, ...]
    above: tuple[bytes, ...]
    cut: bool = False

    @property
    def not_below(self) -> tuple[bytes, ...]:
        """The stored values up to ``target`` in bytes that are equal to it or above it."""
        return self.equal + self.above


def stand_padded(text: str, length: int, longest: int, room: PaddingRoom) -> Standing | None:
    """A literal of which the shorter side is padded: ``=``, ``<`` and IN of a column and literals.

    Args:
        text: the literal.
        length: n of the column's type.
        longest: characters of the longest literal of the list, of this one where there is no list.
        room: gives room for the stored values.

    Returns:
        None if there is no room.
    """
    width = max(length, longest)
    return _stand(text, width, width, room, cut=width > length)


def stand_beside_padded(text: str, length: int, room: PaddingRoom) -> Standing | None:
    """A literal that stays as it is, beside values padded to ``length``: BETWEEN, and keys of maps."""
    return _stand(text, len(text), length, room)


def stand_as_stored(text: str) -> Standing:
    """A literal that is compared with values as they are stored, as the engine does."""
    target = text.encode()
    return Standing(target, (target,), ())


def _stand(text: str, size: int, width: int, room: PaddingRoom, *, cut: bool = False) -> Standing | None:
    """Where values stand that are padded to ``width``, beside a literal that is padded to ``size``."""
    stem = text.rstrip(BLANK)
    # With the blanks at its end, up to all of them.
    padded = range(len(stem), size + 1)
    above = _above_for_controls(stem, width)
    if not room.take(padded) or not room.take(above):
        return None
    target = text.ljust(size, BLANK)
    forms, higher = _beginnings(target, padded), _beginnings(target, above)
    if size < width:
        return Standing(target.encode(), (), higher + forms, cut)
    # Beside a longer target, values that are padded to less are beginnings of it, and below it.
    return Standing(target.encode(), forms if size == width else forms[-1:], higher, cut)


def _above_for_controls(stem: str, width: int) -> list[int]:
    """Where beginnings of ``stem`` end that are above it once padded, since less than a blank follows."""
    ends: list[int] = []
    if BELOW_BLANK.search(stem) is None:
        return ends
    following = len(stem)
    for end in range(len(stem) - 1, -1, -1):
        if stem[end] != BLANK:
            following = end
        if stem[following] < BLANK and following < width:
            ends.append(end)
    return ends


def _beginnings(target: str, ends: Iterable[int]) -> tuple[bytes, ...]:
    return tuple(target[:end].encode() for end in ends)
