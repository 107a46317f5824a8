"""Crowded slots of a ``java.util.HashMap``, which are trees besides being lists.

A slot of 64 or more that comes to hold 8 keys becomes a red-black tree over their hashes, as signed integers,
and their natural order. It is still iterated as a list, but what the tree does shows in that list's order:

* the tree's root moves to the front of the list whenever it changes;
* a new key goes right behind the one below which it is attached to the tree;
* when the slots double, both parts of a slot that comes apart keep the list's order: parts of 6 keys or fewer
  are plain lists again, larger ones become new trees, whose roots move to the front.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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
