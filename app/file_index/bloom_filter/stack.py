"""The bloom filters of one column of many files.

A key is hashed once for all files, and its bits are probed one hash function at a time: a filter without the
key is ruled out after two probes on average, however large it is.

Many keys are probed in batches: first one bit of every key, then further bits of the keys that passed. A file
that may hold a key of one batch is not probed for the next. A few files at a time go through all batches, so
that their filters stay in the processor's caches.
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
from app.file_index.keys.arrow_keys import ArrowKeys
from app.file_index.keys.keys import Key, KeySpace
from app.file_index.payloads import Cursors
from app.types import BytesColumn

_BITS_OF_BYTE = 8
# From this number on, probing keys together is faster than one by one.
_MANY_KEYS = 32
# Keys of the first batch. Each further batch has as many as all before it together, up to the largest.
_FIRST_BATCH = SHORT_LIST
_LARGEST_BATCH = 1 << 10
# Files that go through every batch of keys before the next files start.
_FILES_AT_ONCE = 1 << 8
# Files times keys that are probed together: results of this many stay in the processor's caches.
_PAIRS_AT_ONCE = 1 << 14
# A filter is read from memory in order if it has at most this many bytes for each key of a batch.
_DENSE_BYTES = 1 << 8
# Hash functions probed for all pairs before the pairs that passed are picked out.
_DENSE_PROBES = 2
_HASHES = "hashes of bloom filters"
_LARGEST = 1 << 63
_MASKS = np.left_shift(1, np.arange(_BITS_OF_BYTE)).astype(np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class BloomStack:
    """Bloom filters of m files.

    ``starts``: int64, shape (m,): start of each file's bit set in ``data``. ``bits``: int64, shape (m,), or
    (1,) if all filters are alike: size of the bit set. ``hash_functions``: int64, of the shape of ``bits``:
    bits that each key sets.
    """

    space: KeySpace
    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    bits: NDArray[np.int64]
    hash_functions: NDArray[np.int64]
    broken: NDArray[np.bool_]

    @classmethod
    def read(cls, payloads: BytesColumn, space: KeySpace, *, strict: bool = False) -> Self:
        """Read many payloads. See :meth:`app.file_index.kind.Kind.stack`. The bit sets are not copied."""
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
        """None: a bloom filter does not hold the row count."""

    def of_file(self, file: int) -> BloomFilter:
        """Return the filter of one file, which must be present and not broken."""
        at = 0 if len(self.bits) == 1 else file
        start, size = int(self.starts[file]), int(self.bits[at]) // _BITS_OF_BYTE
        return BloomFilter(self.space, int(self.hash_functions[at]), self.data[start : start + size].data)

    def answers(
        self, condition: Condition, files: NDArray[np.int64], out_of_time: OutOfTime = never_out_of_time
    ) -> Answers:
        """Answer a condition for each of ``files``, shape (k,): KEEP unless the condition lists keys."""
        if not isinstance(condition, Points):
            return everywhere(Answer.KEEP, len(files))
        answers = everywhere(Answer.SKIP, len(self.starts))
        if len(condition.keys) < _MANY_KEYS:
            unmatched = files
            for key in condition.keys:
                self._find(hash_key(key, self.space), unmatched, answers)
                unmatched = files.take(np.flatnonzero(answers.take(files) == Answer.SKIP))
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
        batches, alike = _batches(hashes), len(self.bits) == 1
        places: dict[int, _Places | None] = {}
        for start in range(0, len(files), _FILES_AT_ONCE):
            unmatched = files[start : start + _FILES_AT_ONCE]
            for number, batch in enumerate(batches):
                if number and out_of_time():
                    answers[unmatched] = Answer.UNEVALUATED
                    break
                if number not in places:
                    places[number] = _Places.of(batch, self) if alike else None
                hit = self.holding(batch, places[number], unmatched)
                answers[unmatched[hit]] = Answer.KEEP
                unmatched = unmatched[~hit]
                if not len(unmatched):
                    break

    def holding(
        self, hashes: NDArray[np.uint64], places: _Places | None, files: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return True for each file that may hold one of the hashes, shape (len(files),)."""
        hit = np.zeros(len(files), bool)
        together = max(1, _PAIRS_AT_ONCE // len(hashes))
        for start in range(0, len(files), together):
            batch = files[start : start + together]
            if places is None:
                of_file = self._hits(hashes, batch)
            else:
                of_file = places.hits(self.data, self.starts.take(batch))
            hit[start + of_file] = True
        return hit

    def _hits(self, hashes: NDArray[np.uint64], files: NDArray[np.int64]) -> NDArray[np.int64]:
        starts, bits, counts = (
            column.take(files) for column in (self.starts, self.bits, self.hash_functions)
        )
        first, *further = (spot.astype(np.int64) for spot in spots(hashes, int(counts.max())))
        at = first % bits[:, None]
        of_file, of_hash = (self.data.take(starts[:, None] + (at >> 3)) & _MASKS.take(at & 7)).nonzero()
        hits = [of_file[counts.take(of_file) == 1]]
        for number, spot in enumerate(further, start=2):
            at = spot.take(of_hash) % bits.take(of_file)
            probed = self.data.take(starts.take(of_file) + (at >> 3)) & _MASKS.take(at & 7)
            passed = probed.nonzero()[0]
            of_file, of_hash = of_file.take(passed), of_hash.take(passed)
            hits.append(of_file[counts.take(of_file) == number])
        return np.concatenate(hits)

    def _find(self, hashed: int, candidates: NDArray[np.int64], answers: Answers) -> None:
        numbered = enumerate(spots(hashed, int(self.hash_functions.max(initial=0))), start=1)
        if len(self.bits) == 1:
            bits = int(self.bits[0])
            for _, spot in numbered:
                # Filters that are alike are all probed at the same byte and bit.
                byte, mask = spot % bits >> 3, _MASKS[spot % bits & 7]
                candidates = candidates.take(
                    (self.data.take(self.starts.take(candidates) + byte) & mask).nonzero()[0]
                )
                if not len(candidates):
                    return
        else:
            for number, spot in numbered:
                at = spot % self.bits.take(candidates)
                probed = self.data.take(self.starts.take(candidates) + (at >> 3))
                candidates = candidates.take((probed & _MASKS.take(at & 7)).nonzero()[0])
                done = self.hash_functions.take(candidates) == number
                answers[candidates[done]] = Answer.KEEP
                candidates = candidates[~done]
        answers[candidates] = Answer.KEEP


@dataclass(frozen=True, slots=True, eq=False)
class _Places:
    """Bits of n keys in filters that are alike, one entry for each hash function.

    ``size``: bytes of each filter. ``bytes_``: int64, shape (n,) each: byte of the bit. ``masks``: uint8,
    shape (n,) each: mask of the bit in its byte.
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
        self._prefetch(data, starts)
        passed = self._bits(data, starts, 0)
        for number in range(1, min(_DENSE_PROBES, len(self.masks))):
            passed &= self._bits(data, starts, number)
        pairs: NDArray[np.int64] = passed.ravel().nonzero()[0]
        of_file: NDArray[np.int64] = pairs // passed.shape[1]
        of_hash = pairs - of_file * passed.shape[1]
        for byte, mask in zip(self.bytes_[_DENSE_PROBES:], self.masks[_DENSE_PROBES:], strict=True):
            probed = data.take(starts.take(of_file) + byte.take(of_hash)) & mask.take(of_hash)
            passing = probed.nonzero()[0]
            of_file, of_hash = of_file.take(passing), of_hash.take(passing)
        return of_file

    def _prefetch(self, data: NDArray[np.uint8], starts: NDArray[np.int64]) -> None:
        # Reading memory in order is several times faster than reading single bytes, and leaves it in the
        # processor's caches for the probes. This is worthwhile if most filters are going to be probed, with
        # little between them.
        start, end = int(starts.min()), int(starts.max()) + self.size
        if self.size <= _DENSE_BYTES * len(self.masks[0]) and end - start <= 2 * self.size * len(starts):
            data[start:end].max()

    def _bits(self, data: NDArray[np.uint8], starts: NDArray[np.int64], number: int) -> NDArray[np.bool_]:
        probed = data.take(starts[:, None] + self.bytes_[number]) & self.masks[number]
        set_: NDArray[np.bool_] = np.not_equal(probed, 0)
        return set_


def _batches(hashes: NDArray[np.uint64]) -> list[NDArray[np.uint64]]:
    batches, start, size = [], 0, _FIRST_BATCH
    while start < len(hashes):
        batches.append(hashes[start : start + size])
        start += size
        size = min(start, _LARGEST_BATCH)
    return batches


def _hashed(keys: Sequence[Key], space: KeySpace) -> NDArray[np.uint64]:
    column: ArrowKeys
    if isinstance(keys[0], bytes):
        column = BytesColumn.of(key for key in keys if isinstance(key, bytes))
    elif int(keys[0]) >= -_LARGEST and int(keys[-1]) < _LARGEST:
        column = np.array(keys, np.int64)
    else:
        # Timestamps of years beyond 64-bit keys, which no file has.
        return np.array([hash_key(key, space) for key in keys], np.uint64)
    return np.concatenate([*hash_keys(column, space)])
