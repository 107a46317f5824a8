"""What is made of a file that never changes, kept as arrays in the disk tier."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version

from app.storage.array_file import ArrayFile, Block, array_file_parts
from app.storage.disk_entry import Piece
from app.storage.disk_tier import DiskTier


@dataclass(frozen=True, slots=True)
class KeptArrays:
    """A place for one thing that is made of one file."""

    tier: DiskTier
    piece: Piece
    form: str
    group: str

    @property
    def key(self) -> bytes:
        """What tells it from all others, and from what other versions of the program make."""
        return self.piece.key + json.dumps([self.form, _version()]).encode("ascii")

    @property
    def is_kept(self) -> bool:
        """Whether something was put there."""
        return self.tier.has(self.key)

    def get(self) -> ArrayFile | None:
        """The arrays, mapped, if they are there."""
        return self.tier.map(self.key, self.group)

    def put(self, blocks: Mapping[str, Block]) -> None:
        """Keeps arrays, those of one block used together, if the tier can take them."""
        self.tier.put_parts(self.key, array_file_parts(self.key, blocks))

    def drop(self) -> None:
        """Forgets them, since they are damaged."""
        self.tier.drop(self.key)


@cache
def _version() -> str:
    return version("paimon-index")
