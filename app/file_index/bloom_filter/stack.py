"""The bloom filters of one column of many files.

A key is hashed once for all of them. Its bits are probed one hash function at a time, and each finds fewer
files left: a filter without the key is ruled out after two probes on average, so that asking costs a few
reads of memory for each file however large the filters are. Nothing is copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from app.file_index.bloom_filter.bloom_filter import MAX_HASH_FUNCTIONS, spots
from app.file_index.bloom_filter.fast_hash import hash_key
from app.file_index.payloads.cursors import Cursors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from app.file_index.keys.keys import Key, KeySpace
    from app.types.bytes_column import BytesColumn

_BITS_OF_BYTE = 8
_MASKS = np.left_shift(1, np.arange(_BITS_OF_BYTE)).astype(np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class BloomStack:
    """Bloom filters of m files.

    Attributes:
        space: how values become keys.
        data: the shared buffer, uint8.
        starts: int64, shape (m,): where the bit set of each file starts in it.
        bits: int64, shape (m,), or (1,) where all filters are alike: size of the bit set.
        hash_functions: int64, of the shape of ``bits``: bits that each key sets.
        broken: bool, shape (m,): which filters cannot be read; nothing may be asked of these.
    """

    space: KeySpace
    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    bits: NDArray[np.int64]
    hash_functions: NDArray[np.int64]
    broken: NDArray[np.bool_]

    @classmethod
    def read(cls, payloads: BytesColumn, space: KeySpace) -> Self:
        """Reads the heads; the bit sets stay where they are. A null is a file without such an index."""
        cursors = Cursors.of(payloads)
        hash_functions, bits = cursors.i32(), cursors.remaining * _BITS_OF_BYTE
        cursors.expect((hash_functions >= 1) & (hash_functions <= MAX_HASH_FUNCTIONS))
        cursors.expect(bits > 0)
        broken = ~payloads.is_null & ~cursors.sound
        bits, hash_functions = (np.where(cursors.sound, each, 0) for each in (bits, hash_functions))
        sizes, counts = bits[cursors.sound], hash_functions[cursors.sound]
        if len(sizes) and (sizes == sizes[0]).all() and (counts == counts[0]).all():
            bits, hash_functions = sizes[:1], counts[:1]
        return cls(space, payloads.data, cursors.at, bits, hash_functions, broken)

    @property
    def nbytes(self) -> int:
        """Bytes of memory without the shared buffer."""
        return sum(each.nbytes for each in (self.starts, self.bits, self.hash_functions, self.broken))

    def may_hold(self, keys: Sequence[Key], files: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each of ``files`` may have a row with one of the keys, shape (len(files),).

        Args:
            keys: what is looked for.
            files: positions of files whose filters are there and not broken.
        """
        found = np.zeros(len(self.starts), bool)
        left = files
        for key in keys:
            self._find(hash_key(key, self.space), left, found)
            left = files.take(np.flatnonzero(~found.take(files)))
        return found.take(files)

    def _find(self, hashed: int, left: NDArray[np.int64], found: NDArray[np.bool_]) -> None:
        """Notes which of the files ``left`` may hold a hash."""
        numbered = enumerate(spots(hashed, int(self.hash_functions.max(initial=0))), start=1)
        if len(self.bits) == 1:
            bits = int(self.bits[0])
            for _, spot in numbered:
                # Filters that are alike are all probed at the same byte and bit.
                byte, mask = spot % bits >> 3, _MASKS[spot % bits & 7]
                left = left.take((self.data.take(self.starts.take(left) + byte) & mask).nonzero()[0])
                if not len(left):
                    return
        else:
            for number, spot in numbered:
                at = spot % self.bits.take(left)
                probed = self.data.take(self.starts.take(left) + (at >> 3))
                left = left.take((probed & _MASKS.take(at & 7)).nonzero()[0])
                done = self.hash_functions.take(left) == number
                found[left[done]] = True
                left = left[~done]
        found[left] = True
