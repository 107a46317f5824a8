"""The order in which a ``java.util.HashMap`` iterates, which decides how the engine arranges some bytes.

A map has a power-of-two number of slots, at first 16. A key lies in the slot ``h & (slots - 1)``, where ``h``
is its hash code ``^`` the same shifted right by 16 bits, and slots are walked ascending. The engine fills its
maps with ``compute`` and ``computeIfAbsent``, which

* double the slots before the call that finds more than 3/4 of their number taken, even if the key is there;
* put a new key in **front** of the others in its slot, so those come out latest first;
* double the slots as well when one of fewer than 64 comes to hold 8 keys.

Doubling keeps the relative order of keys that stay together. A slot of 8 keys among 64 or more becomes a tree
(:mod:`app.types.java_tree_bins`), which has an order of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

INITIAL_SLOTS: Final = 16
TREE_KEYS: Final = 8
TREE_SLOTS: Final = 64


def spread(hash_codes: NDArray[np.int32]) -> NDArray[np.uint32]:
    """The hashes whose low bits choose the slot."""
    hashes = hash_codes.astype(np.int32, copy=False).view(np.uint32)
    return hashes ^ hashes >> np.uint32(16)


def iteration_order(hash_codes: NDArray[np.int32], *, looked_up_last: bool) -> NDArray[np.intp]:
    """The keys in iteration order, as positions in the order in which they came.

    Args:
        hash_codes: of the distinct keys, in the order in which the map met them first.
        looked_up_last: whether the last call found its key in the map.
    """
    hashes = spread(hash_codes)
    met_before_last = len(hashes) if looked_up_last else len(hashes) - 1
    slots = _slots_of_few(hashes)
    while met_before_last > taken_at_most(slots):
        slots *= 2
    # A stable sort of the keys in reverse leaves each slot's latest key in front.
    backwards = np.argsort((hashes & np.uint32(slots - 1))[::-1], kind="stable")
    return len(hashes) - 1 - backwards


def taken_at_most(slots: int) -> int:
    """How many keys a map may hold that does not double its slots at the next call."""
    return slots * 3 // 4


def _slots_of_few(hashes: NDArray[np.uint32]) -> int:
    """Slots of the map after so few keys that it has at most 64, crowded ones among them."""
    slots = INITIAL_SLOTS
    few = hashes[: taken_at_most(TREE_SLOTS)]
    for taken, key in enumerate(few):
        if taken > taken_at_most(slots):
            slots *= 2
        together = np.count_nonzero((few[: taken + 1] ^ key) & np.uint32(slots - 1) == 0)
        if together >= TREE_KEYS and slots < TREE_SLOTS:
            slots *= 2
    return slots
