"""The order in which a ``java.util.HashMap`` with integer keys iterates.

The engine tries non-full buckets in that order, so it decides which bucket a new key goes to. The map has a
power-of-two number of slots; a key lies in the slot ``(key ^ key >>> 16) & (slots - 1)``, slots are walked
ascending. The engine fills the map with ``compute``, which

* puts a new key in **front** of the others in its slot, so those come out latest first;
* doubles the slots before the insertion that finds more than 3/4 of their number taken;
* doubles them as well when a slot comes to hold 8 keys while there are fewer than 64 slots.

Doubling keeps the relative order of keys that stay together. With 64 slots or more, Java turns a slot of 8
keys into a tree, which moves one of its keys to the front; that is not reproduced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_INITIAL_SLOTS: Final = 16
_TREE_KEYS: Final = 8
_TREE_SLOTS: Final = 64


def iteration_order(keys: Iterable[int]) -> list[int]:
    """The keys in iteration order.

    Args:
        keys: distinct, not negative, in the order in which ``compute`` met them first.
    """
    slots: list[list[int]] = [[] for _ in range(_INITIAL_SLOTS)]
    for taken, key in enumerate(keys):
        if taken > len(slots) * 3 // 4:
            slots = _doubled(slots)
        slot = slots[_slot(key, len(slots))]
        slot.append(key)
        if len(slot) >= _TREE_KEYS and len(slots) < _TREE_SLOTS:
            slots = _doubled(slots)
    return [key for slot in slots for key in reversed(slot)]


def _slot(key: int, slots: int) -> int:
    return (key ^ (key >> 16)) & (slots - 1)


def _doubled(slots: list[list[int]]) -> list[list[int]]:
    """Twice the slots; each is held oldest key first, an order that doubling keeps."""
    doubled: list[list[int]] = [[] for _ in range(2 * len(slots))]
    for slot in slots:
        for key in slot:
            doubled[_slot(key, len(doubled))].append(key)
    return doubled
