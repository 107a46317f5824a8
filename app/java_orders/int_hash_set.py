"""A set of 32-bit integers that iterates as fastutil's ``IntOpenHashSet``, which the engine writes out.

The order of a hash index file is the order of that set, so a file is the engine's byte for byte only if the
set's slots are. It probes linearly: a key lies in the first free slot at or after
``(x ^ x >>> 16) & (slots - 1)`` where ``x = key * 0x9E3779B9``, and so finds its place among those that came
before it. Slots double once an insertion finds 3/4 of them taken; keys move to the new slots from the last
slot to the first, which is the order of iteration as well. 0 marks a free slot, so the key 0 is only noted,
and comes first.

Many keys are inserted at once: each claims its next slot, the earliest of those that claim one slot keeps it,
the others go on to the slot after it, until nobody is turned away. That is where one insertion after the
other would have put them, since an earlier key never makes way for a later one.
"""

from __future__ import annotations

import math
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Hashes: TypeAlias = NDArray[np.int32]
Slots: TypeAlias = NDArray[np.int64]

_GOLDEN_RATIO: Final = np.uint32(0x9E3779B9)
_HALF: Final = np.uint32(16)
_LOAD_FACTOR: Final = 0.75
_DEFAULT_EXPECTED: Final = 16
_FREE: Final = 0


class IntHashSet:
    """The set; it only grows.

    Args:
        expected: the number of keys that it has room for at first.
    """

    def __init__(self, expected: int = _DEFAULT_EXPECTED) -> None:
        self._slots = np.zeros(_slots_for(expected), np.int32)
        self._holds_zero = False
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self._slots.nbytes

    def add(self, hashes: Hashes) -> int:
        """Inserts keys in their order.

        Returns:
            How many of them are new.
        """
        _, firsts = np.unique(hashes, return_index=True)
        candidates = hashes[np.sort(firsts)]
        new = candidates[~self._holds(candidates)]
        at = 0
        while at < len(new):
            # At least one, since after 2**24 keys Java's arithmetic may double the slots one key late.
            room = max(1, self._most_keys() + 1 - self._size)
            self._insert(new[at : at + room])
            at += room
            if self._size > self._most_keys():
                self._grow()
        return len(new)

    def to_array(self) -> Hashes:
        """All keys in the order of iteration."""
        backwards = self._slots[::-1]
        keys = backwards[backwards != _FREE]
        return np.concatenate((np.zeros(1, np.int32), keys)) if self._holds_zero else keys

    def _holds(self, keys: Hashes) -> NDArray[np.bool_]:
        held = np.zeros(len(keys), np.bool_)
        asked, slots = np.arange(len(keys)), self._home(keys)
        while len(asked):
            found = self._slots[slots]
            held[asked] = found == keys[asked]
            go_on = (found != _FREE) & ~held[asked]
            asked, slots = asked[go_on], self._next(slots[go_on])
        held[keys == _FREE] = self._holds_zero
        return held

    def _insert(self, keys: Hashes) -> None:
        """Inserts keys that are new and for which there is room."""
        self._size += len(keys)
        placed = keys[keys != _FREE]
        self._holds_zero |= len(placed) < len(keys)
        slots = self._home(placed)
        # The earlier the key, the greater its claim; 0 is none. Pages that nobody touches cost no memory.
        claims = np.zeros(len(self._slots), np.int32)
        strengths = np.arange(len(placed), 0, -1, dtype=np.int32)
        moving = np.arange(len(placed))
        while len(moving):
            self._pass_taken(moving, slots)
            wanted = slots[moving]
            before = claims[wanted]
            np.maximum.at(claims, wanted, strengths[moving])
            won = claims[wanted] == strengths[moving]
            displaced = before[won & (before > 0)]
            moving = np.concatenate((moving[~won], len(placed) - displaced))
            slots[moving] = self._next(slots[moving])
        self._slots[slots] = placed

    def _pass_taken(self, moving: Slots, slots: Slots) -> None:
        """Moves keys past the slots of keys that were there before all of these."""
        blocked = moving
        while len(blocked := blocked[self._slots[slots[blocked]] != _FREE]):
            slots[blocked] = self._next(slots[blocked])

    def _grow(self) -> None:
        keys = self.to_array()
        self._slots = np.zeros(_slots_for(self._size + 1), np.int32)
        self._size, self._holds_zero = 0, False
        self._insert(keys)

    def _most_keys(self) -> int:
        """The number of keys at which the next insertion doubles the slots."""
        slots = len(self._slots)
        return min(math.ceil(slots * _LOAD_FACTOR), slots - 1)

    def _home(self, keys: Hashes) -> Slots:
        mixed = keys.view(np.uint32) * _GOLDEN_RATIO
        return ((mixed ^ (mixed >> _HALF)) & np.uint32(len(self._slots) - 1)).astype(np.int64)

    def _next(self, slots: Slots) -> Slots:
        return (slots + 1) & (len(self._slots) - 1)


def _slots_for(keys: int) -> int:
    """The power of two that holds so many keys; divides in 32 bits as Java does."""
    needed = math.ceil(float(np.float32(keys) / np.float32(_LOAD_FACTOR)))
    return max(2, 1 << max(0, needed - 1).bit_length())
