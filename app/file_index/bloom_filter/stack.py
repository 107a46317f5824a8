"""The bloom filters of one column of many files.

A key is hashed once for all of them, and its bits are probed one hash function at a time: a filter without
the key is ruled out after two probes on average, however large it is.

Many keys are probed together, in portions: the first bits of all keys, and the further bits of those keys
that are left. A file that may hold one is asked no further portions. A few files at a time are asked all of
them, so that their filters stay in the processor's caches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from app.file_index.answers import (
    SHORT_LIST,
    Answer,
    Answers,
    Condition,
    OutOfTime,
    Points,
    everywhere,
    never_out_of_time,
)
from app.file_index.bloom_filter.bloom_filter import (
    MAX_HASH_FUNCTIONS,
    BloomFilter,
    hash_key,
    hash_keys,
    spots,
)
from app.file_index.keys.arrow_keys import Keys
from app.file_index.keys.keys import Key, KeySpace
from app.file_index.payloads import Cursors
from app.types import BytesColumn

_BITS_OF_BYTE = 8
_MANY_KEYS = 32
"""So many are looked for together; fewer are faster one by one."""
_PORTION = SHORT_LIST
"""Keys of the first portion; each further one has as many as all before it, up to the largest."""
_LARGEST_PORTION = 1 << 10
_FILES_AT_ONCE = 1 << 8
"""So many are asked every portion of the keys before the next ones are asked any."""
_PAIRS_AT_ONCE = 1 << 14
"""Files times keys that are probed together: what is found of so many stays in the processor's caches."""
_DENSE_BYTES = 1 << 8
"""A filter is read from memory in order if it has no more bytes than so many for each key of a portion."""
_DENSE_PROBES = 2
"""So many bits are probed of all pairs before those are told apart that are left."""
_HASHES = "hashes of bloom filters"
_LARGEST = 1 << 63
_MASKS = np.left_shift(1, np.arange(_BITS_OF_BYTE)).astype(np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class BloomStack:
    """Bloom filters of m files.

    Attributes:
        starts: int64, shape (m,): where the bit set of each file starts in it.
        bits: int64, shape (m,), or (1,) where all filters are alike: size of the bit set.
        hash_functions: int64, of the shape of ``bits``: bits that each key sets.
    """

    space: KeySpace
    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    bits: NDArray[np.int64]
    hash_functions: NDArray[np.int64]
    broken: NDArray[np.bool_]

    @classmethod
    def read(cls, payloads: BytesColumn, space: KeySpace, *, strict: bool = False) -> Self:
        """As :meth:`app.file_index.kind.Kind.stack`; the bit sets stay where they are."""
        cursors = Cursors.of(payloads, strict=strict)
        hash_functions = cursors.i32("number of hash functions")
        cursors.expect(
            (hash_functions >= 1) & (hash_functions <= MAX_HASH_FUNCTIONS),
            f"1 to {MAX_HASH_FUNCTIONS} hash functions",
            hash_functions,
        )
        bits = cursors.remaining * _BITS_OF_BYTE
        cursors.expect(bits > 0, "the bits of a bloom filter", bits)
        broken = ~payloads.is_null & ~cursors.sound
        bits, hash_functions = (np.where(cursors.sound, column, 0) for column in (bits, hash_functions))
        sizes, counts = bits[cursors.sound], hash_functions[cursors.sound]
        if len(sizes) and (sizes == sizes[0]).all() and (counts == counts[0]).all():
            bits, hash_functions = sizes[:1], counts[:1]
        return cls(space, payloads.data, cursors.at, bits, hash_functions, broken)

    @property
    def nbytes(self) -> int:
        """Bytes of memory without the shared buffer."""
        return sum(column.nbytes for column in (self.starts, self.bits, self.hash_functions, self.broken))

    @property
    def row_counts(self) -> None:
        """None: a bloom filter does not know the row count."""

    def of_file(self, file: int) -> BloomFilter:
        """As :meth:`app.file_index.kind.FileStack.of_file`."""
        at = 0 if len(self.bits) == 1 else file
        start, size = int(self.starts[file]), int(self.bits[at]) // _BITS_OF_BYTE
        return BloomFilter(self.space, int(self.hash_functions[at]), self.data[start : start + size].data)

    def answers(
        self, condition: Condition, files: NDArray[np.int64], out_of_time: OutOfTime = never_out_of_time
    ) -> Answers:
        """As :meth:`app.file_index.kind.FileStack.answers`."""
        if not isinstance(condition, Points):
            return everywhere(Answer.KEEP, len(files))
        answers = everywhere(Answer.SKIP, len(self.starts))
        if len(condition.keys) < _MANY_KEYS:
            left = files
            for key in condition.keys:
                self._find(hash_key(key, self.space), left, answers)
                left = files.take(np.flatnonzero(answers.take(files) == Answer.SKIP))
        else:
            self._find_many(self._hashes(condition), files, answers, out_of_time)
        return answers.take(files)

    def _hashes(self, points: Points) -> NDArray[np.uint64]:
        if _HASHES not in points.derived:
            points.derived[_HASHES] = _hashed(points.keys, self.space)
        hashes: NDArray[np.uint64] = points.derived[_HASHES]
        return hashes

    def _find_many(
        self, hashes: NDArray[np.uint64], files: NDArray[np.int64], answers: Answers, out_of_time: OutOfTime
    ) -> None:
        """Notes which of the files may hold one of many hashes; a file that does is asked no further."""
        portions, alike = _portions(hashes), len(self.bits) == 1
        places: dict[int, _Places | None] = {}
        for start in range(0, len(files), _FILES_AT_ONCE):
            left = files[start : start + _FILES_AT_ONCE]
            for number, portion in enumerate(portions):
                if number and out_of_time():
                    answers[left] = Answer.UNASKED
                    break
                if number not in places:
                    places[number] = _Places.of(portion, self) if alike else None
                hit = self.holding(portion, places[number], left)
                answers[left[hit]] = Answer.KEEP
                left = left[~hit]
                if not len(left):
                    break

    def holding(
        self, hashes: NDArray[np.uint64], places: _Places | None, files: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Which of the files may hold one of the hashes, shape (len(files),)."""
        hit = np.zeros(len(files), bool)
        together = max(1, _PAIRS_AT_ONCE // len(hashes))
        for start in range(0, len(files), together):
            portion = files[start : start + together]
            if places is None:
                of_file = self._hits(hashes, portion)
            else:
                of_file = places.hits(self.data, self.starts.take(portion))
            hit[start + of_file] = True
        return hit

    def _hits(self, hashes: NDArray[np.uint64], files: NDArray[np.int64]) -> NDArray[np.int64]:
        starts, bits, counts = (
            column.take(files) for column in (self.starts, self.bits, self.hash_functions)
        )
        first, *others = (spot.astype(np.int64) for spot in spots(hashes, int(counts.max())))
        at = first % bits[:, None]
        of_file, of_hash = (self.data.take(starts[:, None] + (at >> 3)) & _MASKS.take(at & 7)).nonzero()
        hits = [of_file[counts.take(of_file) == 1]]
        for number, spot in enumerate(others, start=2):
            at = spot.take(of_hash) % bits.take(of_file)
            probed = self.data.take(starts.take(of_file) + (at >> 3)) & _MASKS.take(at & 7)
            passed = probed.nonzero()[0]
            of_file, of_hash = of_file.take(passed), of_hash.take(passed)
            hits.append(of_file[counts.take(of_file) == number])
        return np.concatenate(hits)

    def _find(self, hashed: int, left: NDArray[np.int64], answers: Answers) -> None:
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
                answers[left[done]] = Answer.KEEP
                left = left[~done]
        answers[left] = Answer.KEEP


@dataclass(frozen=True, slots=True, eq=False)
class _Places:
    """Where the bits of n keys are in filters that are alike, one entry for each hash function.

    Attributes:
        size: bytes of each filter.
        bytes_: int64, shape (n,) each: in which byte.
        masks: uint8, shape (n,) each: where in it.
    """

    size: int
    bytes_: tuple[NDArray[np.int64], ...]
    masks: tuple[NDArray[np.uint8], ...]

    @classmethod
    def of(cls, hashes: NDArray[np.uint64], stack: BloomStack) -> Self:
        bits, count = int(stack.bits[0]), int(stack.hash_functions[0])
        places = [spot.astype(np.int64) % bits for spot in spots(hashes, count)]
        return cls(
            bits // _BITS_OF_BYTE,
            tuple(at >> 3 for at in places),
            tuple(_MASKS.take(at & 7) for at in places),
        )

    def hits(self, data: NDArray[np.uint8], starts: NDArray[np.int64]) -> NDArray[np.int64]:
        self._bring(data, starts)
        passed = self._bits(data, starts, 0)
        for number in range(1, min(_DENSE_PROBES, len(self.masks))):
            passed &= self._bits(data, starts, number)
        pairs: NDArray[np.int64] = passed.ravel().nonzero()[0]
        of_file: NDArray[np.int64] = pairs // passed.shape[1]
        of_hash = pairs - of_file * passed.shape[1]
        for byte, mask in zip(self.bytes_[_DENSE_PROBES:], self.masks[_DENSE_PROBES:], strict=True):
            probed = data.take(starts.take(of_file) + byte.take(of_hash)) & mask.take(of_hash)
            left = probed.nonzero()[0]
            of_file, of_hash = of_file.take(left), of_hash.take(left)
        return of_file

    def _bring(self, data: NDArray[np.uint8], starts: NDArray[np.int64]) -> None:
        """Reads filters once in order, if most of them are going to be probed and little lies between them.

        They are in the processor's caches then, and memory that is read in order comes several times faster
        than bytes here and there.
        """
        start, end = int(starts.min()), int(starts.max()) + self.size
        if self.size <= _DENSE_BYTES * len(self.masks[0]) and end - start <= 2 * self.size * len(starts):
            data[start:end].max()

    def _bits(self, data: NDArray[np.uint8], starts: NDArray[np.int64], number: int) -> NDArray[np.bool_]:
        """Whether one bit of each key is set, shape (filters, n)."""
        probed = data.take(starts[:, None] + self.bytes_[number]) & self.masks[number]
        set_: NDArray[np.bool_] = np.not_equal(probed, 0)
        return set_


def _portions(hashes: NDArray[np.uint64]) -> list[NDArray[np.uint64]]:
    portions, start, size = [], 0, _PORTION
    while start < len(hashes):
        portions.append(hashes[start : start + size])
        start += size
        size = min(start, _LARGEST_PORTION)
    return portions


def _hashed(keys: Sequence[Key], space: KeySpace) -> NDArray[np.uint64]:
    column: Keys
    if isinstance(keys[0], bytes):
        column = BytesColumn.of(key for key in keys if isinstance(key, bytes))
    elif int(keys[0]) >= -_LARGEST and int(keys[-1]) < _LARGEST:
        column = np.array(keys, np.int64)
    else:
        # Timestamps of years that no file can have.
        return np.array([hash_key(key, space) for key in keys], np.uint64)
    return np.concatenate([*hash_keys(column, space)])
