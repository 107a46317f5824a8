"""The order in which a ``java.util.HashMap`` iterates, which decides how the engine arranges some bytes.

A map has a power-of-two number of slots, at first 16. A key lies in the slot ``h & (slots - 1)``, where ``h``
is its hash code ``^`` the same shifted right by 16 bits, and slots are walked ascending. The engine fills its
maps with ``compute`` and ``computeIfAbsent`` mostly, which

* double the slots before the call that finds more than 3/4 of their number taken, even if the key is there;
* put a new key in **front** of the others in its slot, so those come out latest first;
* double the slots as well when one of fewer than 64 comes to hold 8 keys.

Doubling keeps the relative order of keys that stay together.

A crowded slot is a tree besides being a list: one of 64 or more that comes to hold 8 keys becomes a red-black
tree over their hashes, as signed integers, and their natural order. It is still iterated as a list, but what
the tree does shows in that list's order:

* the tree's root moves to the front of the list whenever it changes;
* a new key goes right behind the one below which it is attached to the tree;
* when the slots double, both parts of a slot that comes apart keep the list's order: parts of 6 keys or fewer
  are plain lists again, larger ones become new trees, whose roots move to the front.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

TREE_KEYS: Final = 8
TREE_SLOTS: Final = 64

_LIST_KEYS: Final = 6

Place: TypeAlias = tuple[int, int]
"""Where a key stands among the others: its hash, signed, and its rank by Java's ``compareTo``."""


@dataclass(slots=True, eq=False)
class _Node:
    """A key in its tree and in its list.

    Attributes:
        key: the key's number.
        place: where it stands.
        red: the colour.
        parent: in the tree; None for the root.
        children: the smaller and the larger side.
        before: in the list.
        behind: in the list.
    """

    key: int
    place: Place
    red: bool = False
    parent: _Node | None = None
    children: list[_Node | None] = field(default_factory=lambda: [None, None])
    before: _Node | None = None
    behind: _Node | None = None


class TreeSlot:
    """A slot that is a tree; iterating it gives its keys in the order of the list."""

    __slots__ = ("_first", "_root")

    def __init__(self, keys: Sequence[int], places: Mapping[int, Place]) -> None:
        """Makes the tree of some keys (at least one), which are listed as they are given."""
        nodes = [_Node(key, places[key]) for key in keys]
        for before, behind in pairwise(nodes):
            before.behind, behind.before = behind, before
        self._first = self._root = nodes[0]
        for node in nodes[1:]:
            self._attach(node)
            self._balance(node)
        self._move_root_to_front()

    def __iter__(self) -> Iterator[int]:
        node: _Node | None = self._first
        while node is not None:
            yield node.key
            node = node.behind

    def insert(self, key: int, place: Place) -> None:
        """Adds a key that is not there."""
        node = _Node(key, place)
        above = self._attach(node)
        node.before, node.behind = above, above.behind
        if above.behind is not None:
            above.behind.before = node
        above.behind = node
        self._balance(node)
        self._move_root_to_front()

    def _attach(self, node: _Node) -> _Node:
        """Makes it a leaf of the tree; returns the node above."""
        above, below = self._root, self._root.children[node.place > self._root.place]
        while below is not None:
            above, below = below, below.children[node.place > below.place]
        node.parent, node.red = above, True
        above.children[node.place > above.place] = node
        return above

    def _balance(self, node: _Node) -> None:
        while (
            (parent := node.parent) is not None and parent.red and (grandparent := parent.parent) is not None
        ):
            side = grandparent.children[1] is parent
            uncle = grandparent.children[not side]
            if uncle is not None and uncle.red:
                parent.red = uncle.red = False
                grandparent.red = True
                node = grandparent
                continue
            if parent.children[not side] is node:
                self._sink(parent, side)
                node, parent = parent, node
            parent.red, grandparent.red = False, True
            self._sink(grandparent, not side)
        self._root.red = False

    def _sink(self, node: _Node, side: bool) -> None:  # noqa: FBT001 - 0 or 1, the smaller or the larger
        """Rotates: the node goes down on one side, its child of the other side takes its place."""
        riser = node.children[not side]
        if riser is None:
            raise AssertionError("a node only sinks where it has a child to rise")
        passed = riser.children[side]
        node.children[not side] = passed
        if passed is not None:
            passed.parent = node
        riser.parent = node.parent
        if node.parent is None:
            self._root = riser
        else:
            node.parent.children[node.parent.children[1] is node] = riser
        riser.children[side] = node
        node.parent = riser

    def _move_root_to_front(self) -> None:
        root, first = self._root, self._first
        if root is first:
            return
        if root.before is not None:
            root.before.behind = root.behind
        if root.behind is not None:
            root.behind.before = root.before
        root.before, root.behind, first.before = None, first, root
        self._first = root


class CrowdedSlots:
    """The keys that once shared a slot, as they are added and the slots double.

    Attributes:
        slots: of the whole map.
        holding: the keys of each slot in the order of the list.
    """

    __slots__ = ("_places", "holding", "slots")

    def __init__(self, slots: int, places: Mapping[int, Place]) -> None:
        """Starts without keys, in a map with so many slots, at least 64."""
        self.slots = slots
        self.holding: dict[int, list[int] | TreeSlot] = {}
        self._places = places

    def add(self, key: int, *, may_grow_tree: bool) -> None:
        """Adds a key as ``compute`` does; lists only become trees in maps of 64 slots or more."""
        held = self.holding.setdefault(self._slot(key), [])
        if isinstance(held, TreeSlot):
            held.insert(key, self._places[key])
            return
        held.insert(0, key)
        if may_grow_tree and len(held) >= TREE_KEYS:
            self.holding[self._slot(key)] = TreeSlot(held, self._places)

    def double(self) -> None:
        """Twice the slots."""
        halved = self.holding
        self.slots *= 2
        self.holding = {}
        for held in halved.values():
            parts: dict[int, list[int]] = {}
            for key in held:
                parts.setdefault(self._slot(key), []).append(key)
            for slot, part in parts.items():
                if isinstance(held, list) or len(part) <= _LIST_KEYS:
                    self.holding[slot] = part
                else:
                    self.holding[slot] = held if len(parts) == 1 else TreeSlot(part, self._places)

    def _slot(self, key: int) -> int:
        return self._places[key][0] & (self.slots - 1)


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
