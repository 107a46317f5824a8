"""The bloom filters of one column of many files.

A key is hashed once for all of them. Its bits are probed one hash function at a time, and each finds fewer
files left: a filter without the key is ruled out after two probes on average, so that asking costs a few
reads of memory for each file however large the filters are. Nothing is copied.

Many keys are probed together, some keys in all files at a time; a file that may hold one is asked no further.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from app.file_index.answers.conditions import Points
from app.file_index.answers.file_answers import Answer, where
from app.file_index.bloom_filter.bloom_filter import MAX_HASH_FUNCTIONS, spots
from app.file_index.bloom_filter.fast_hash import hash_key, hash_keys
from app.file_index.payloads.cursors import Cursors
from app.types.bytes_column import BytesColumn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from app.file_index.answers.conditions import Condition
    from app.file_index.answers.file_answers import Answers
    from app.file_index.keys.arrow_keys import Keys
    from app.file_index.keys.keys import Key, KeySpace

_BITS_OF_BYTE = 8
_MANY_KEYS = 32
"""So many are looked for together; fewer are faster one by one."""
_PAIRS_AT_ONCE = 1 << 15
"""Files times keys that are probed together: so many stay in the processor's caches."""
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

    @property
    def row_counts(self) -> None:
        """Bloom filters do not tell."""

    def answers(self, condition: Condition, files: NDArray[np.int64]) -> Answers:
        """As :meth:`app.file_index.kind.FileStack.answers`."""
        keys = condition.keys if isinstance(condition, Points) else ()
        return where(self.may_hold(keys, files), Answer.KEEP)

    def may_hold(self, keys: Sequence[Key], files: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each of ``files`` may have a row with one of the keys, shape (len(files),).

        Args:
            keys: what is looked for.
            files: positions of files whose filters are there and not broken.
        """
        found = np.zeros(len(self.starts), bool)
        if len(keys) < _MANY_KEYS:
            left = files
            for key in keys:
                self._find(hash_key(key, self.space), left, found)
                left = files.take(np.flatnonzero(~found.take(files)))
        else:
            hashes = np.concatenate([*hash_keys(_column(keys), self.space)])
            self._find_many(hashes, files, found)
        return found.take(files)

    def _find_many(
        self, hashes: NDArray[np.uint64], files: NDArray[np.int64], found: NDArray[np.bool_]
    ) -> None:
        """Notes which of the files may hold one of many hashes; a file that does is asked no further."""
        left, start = files, 0
        while start < len(hashes) and len(left):
            some = hashes[start : start + max(1, _PAIRS_AT_ONCE // len(left))]
            start += len(some)
            hit = self._hits(some, left)
            found[left[hit]] = True
            left = left[~hit]

    def _hits(self, hashes: NDArray[np.uint64], files: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the files may hold one of the hashes; every hash is probed in every file."""
        starts, hit = self.starts.take(files), np.zeros(len(files), bool)
        bits, counts = (
            np.broadcast_to(each, len(files)) if len(each) == 1 else each.take(files)
            for each in (self.bits, self.hash_functions)
        )
        # All pairs are probed for the first bit, as a table of files and hashes; then those that are left.
        first, *others = (spot.astype(np.int64) for spot in spots(hashes, int(counts.max())))
        at = first % self.bits if len(self.bits) == 1 else first % bits[:, None]
        of_file, of_hash = (self.data.take(starts[:, None] + (at >> 3)) & _MASKS.take(at & 7)).nonzero()
        hit[of_file[counts.take(of_file) == 1]] = True
        for number, spot in enumerate(others, start=2):
            unsure = (~hit.take(of_file)).nonzero()[0]
            of_file, of_hash = of_file.take(unsure), of_hash.take(unsure)
            at = spot.take(of_hash) % bits.take(of_file)
            probed = self.data.take(starts.take(of_file) + (at >> 3)) & _MASKS.take(at & 7)
            passed = probed.nonzero()[0]
            of_file, of_hash = of_file.take(passed), of_hash.take(passed)
            hit[of_file[counts.take(of_file) == number]] = True
        return hit

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


def _column(keys: Sequence[Key]) -> Keys:
    """The same keys as a column."""
    if isinstance(keys[0], bytes):
        return BytesColumn.of(key for key in keys if isinstance(key, bytes))
    return np.array(keys, np.int64)
