"""The order in which a ``java.util.HashMap`` iterates, which decides how the engine arranges some bytes.

A map has a power-of-two number of slots, at first 16. A key lies in the slot ``h & (slots - 1)``, where ``h``
is its hash code ``^`` the same shifted right by 16 bits, and slots are walked ascending. The engine fills its
maps with ``compute`` and ``computeIfAbsent`` mostly, which

* double the slots before the call that finds more than 3/4 of their number taken, even if the key is there;
* put a new key in **front** of the others in its slot, so those come out latest first;
* double the slots as well when one of fewer than 64 comes to hold 8 keys.

Doubling keeps the relative order of keys that stay together. Where one of 64 slots or more comes to hold 8
keys, the order is that of :mod:`app.java_orders.tree_slots`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from app.java_orders.tree_slots import TREE_KEYS, TREE_SLOTS, CrowdedSlots

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_INITIAL_SLOTS: Final = 16


def iteration_order(
    hash_codes: NDArray[np.int32], ranks: NDArray[np.integer], *, looked_up_last: bool
) -> NDArray[np.intp]:
    """The keys in iteration order, as positions in the order in which they came.

    Args:
        hash_codes: of the distinct keys, in the order in which the map met them first.
        ranks: where each of them stands by Java's ``compareTo``.
        looked_up_last: whether the last call found its key in the map.
    """
    hashes = _spread(hash_codes)
    slots_of_few = _slots_of_few(hashes)
    slots = _grown(slots_of_few[-1], len(hashes) if looked_up_last else len(hashes) - 1)
    key_slots = hashes & np.uint32(slots - 1)
    # A stable sort of the keys in reverse leaves each slot's latest key in front.
    order = len(hashes) - 1 - np.argsort(key_slots[::-1], kind="stable")
    ordered_slots = key_slots[order]
    for slot, keys in _crowded_slots(hashes, ranks, slots_of_few, slots):
        start = int(ordered_slots.searchsorted(slot))
        order[start : start + len(keys)] = keys
    return order


def put_order(hash_codes: NDArray[np.int32]) -> NDArray[np.intp]:
    """Iteration order of a HashMap filled by ``put()``; ignores treeified bins.

    It doubles the slots after the call that takes more than 3/4 of them, and puts a new key **behind** the
    others in its slot.
    """
    hashes = _spread(hash_codes)
    return np.argsort(hashes & np.uint32(_grown(_INITIAL_SLOTS, len(hashes)) - 1), kind="stable")


def _spread(hash_codes: NDArray[np.int32]) -> NDArray[np.uint32]:
    """The hashes whose low bits choose the slot."""
    hashes = hash_codes.astype(np.int32, copy=False).view(np.uint32)
    return hashes ^ hashes >> np.uint32(16)


def _taken_at_most(slots: int) -> int:
    """How many keys a map holds at most when a call leaves its slots alone."""
    return slots * 3 // 4


def _grown(slots: int, taken: int) -> int:
    """The slots after a call that finds ``taken`` keys."""
    while taken > _taken_at_most(slots):
        slots *= 2
    return slots


def _slots_of_few(hashes: NDArray[np.uint32]) -> list[int]:
    """The slots that each of the first keys meets, and those that all of these leave behind.

    They are so few that the map has 64 slots at most; later ones add slots by their number only.
    """
    few = hashes[: _taken_at_most(TREE_SLOTS)]
    slots, met = _INITIAL_SLOTS, []
    for taken, key in enumerate(few):
        slots = _grown(slots, taken)
        met.append(slots)
        together = np.count_nonzero((few[: taken + 1] ^ key) & np.uint32(slots - 1) == 0)
        if together >= TREE_KEYS and slots < TREE_SLOTS:
            slots *= 2
    return [*met, slots]


def _crowded_slots(
    hashes: NDArray[np.uint32], ranks: NDArray[np.integer], slots_of_few: list[int], last_slots: int
) -> Iterator[tuple[int, list[int]]]:
    """The slots, when all is done, of keys that once shared a crowded one, with their keys in order."""
    followed = np.zeros(len(hashes), np.bool_)
    slots = TREE_SLOTS
    while slots <= last_slots:
        taken = np.sort(hashes[: _taken_at_most(slots) + 1] & np.uint32(slots - 1))
        crowded = taken[TREE_KEYS - 1 :][taken[TREE_KEYS - 1 :] == taken[: 1 - TREE_KEYS]]
        if len(crowded):
            members = np.isin(hashes & np.uint32(slots - 1), crowded) & ~followed
            followed |= members
            yield from _follow(hashes, ranks, np.flatnonzero(members), slots_of_few, (slots, last_slots))
        slots *= 2


def _follow(
    hashes: NDArray[np.uint32],
    ranks: NDArray[np.integer],
    keys: NDArray[np.intp],
    slots_of_few: list[int],
    slots: tuple[int, int],
) -> Iterator[tuple[int, list[int]]]:
    """Adds ``keys`` one by one while the slots grow from those that first became crowded to the last."""
    crowded_slots, last_slots = slots
    signed = hashes.view(np.int32)
    places = dict(
        zip(keys.tolist(), zip(signed[keys].tolist(), ranks[keys].tolist(), strict=True), strict=True)
    )
    held = CrowdedSlots(crowded_slots, places)
    for key in places:
        met = slots_of_few[key] if key < len(slots_of_few) - 1 else _grown(slots_of_few[-1], key)
        while held.slots < met:
            held.double()
        held.add(key, may_grow_tree=met >= crowded_slots)
    while held.slots < last_slots:
        held.double()
    for slot, listed in held.holding.items():
        yield slot, list(listed)
