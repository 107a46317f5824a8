"""What the disk tier keeps of one warehouse: files that never change, and their ranges."""

from __future__ import annotations

from dataclasses import dataclass

from app.storage.disk.disk_entry import Piece
from app.storage.disk.disk_tier import DiskTier


@dataclass(frozen=True, slots=True)
class Copies:
    """Pieces in a disk tier, apart from those of other warehouses by ``identity``.

    Whoever asks knows that the path may be read.
    """

    tier: DiskTier
    identity: str

    def get(
        self, path: str, offset: int = 0, length: int | None = None, *, size: int | None = None
    ) -> bytes | None:
        """A range of a file, or all of it, if it is kept; ``size`` is that of the file, if stated."""
        return self.tier.get(Piece(self.identity, path, size, offset, length))

    def put(
        self,
        content: bytes,
        path: str,
        offset: int = 0,
        length: int | None = None,
        *,
        size: int | None = None,
    ) -> None:
        """Keeps what :meth:`get` answers."""
        self.tier.put(Piece(self.identity, path, size, offset, length), content)
