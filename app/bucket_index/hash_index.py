"""Hash index files: the key hashes of one bucket of a dynamic-bucket table.

======  =====  ===========================================================
offset  width  meaning
======  =====  ===========================================================
0       i32    key hashes, big endian, back to back to the end, unordered
======  =====  ===========================================================

There is no header and no checksum. One file lists every key hash of its bucket, and each commit that adds a
key rewrites it. Keys with equal hashes share an entry, so a hash that is listed says that a key *may* be in
the bucket, and one that is not says that no such key is. As in the engine, a tail shorter than 4 bytes is
ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.types.binary_row import Buffer

Hashes = npt.NDArray[np.int32]

_STORED: Final = np.dtype(">i4")


def read(buffer: Buffer) -> Hashes:
    """The hashes in the order of the file; any bytes are one."""
    return np.frombuffer(buffer, _STORED, len(buffer) // _STORED.itemsize).astype(np.int32)


def write(hashes: Sequence[int] | Hashes) -> bytes:
    """A file of these hashes, in this order."""
    return np.asarray(hashes, dtype=np.int32).astype(_STORED).tobytes()
