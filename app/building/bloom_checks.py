"""Whether a bloom filter admits every value of its column, and how many others it admits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.building.actual_values import ActualValues
from app.building.row_checks import Mismatch
from app.file_index.bloom_filter.bloom_filter import BloomFilter, places
from app.file_index.bloom_filter.fast_hash import hash_keys
from app.file_index.keys.arrow_keys import Keys
from app.types.bytes_column import BytesColumn

_ABSENT_KEYS: Final = 50_000
_ABSENT_BYTES: Final = 16
_ASKED_KEYS: Final = 1_000


@dataclass(frozen=True, slots=True)
class BloomFindings:
    """What a bloom filter is worth.

    Attributes:
        hash_functions: bits that each value sets.
        size_bits: of the bit set.
        false_positive_rate: the part of absent values that it admits, as measured; None if every value of
            the type is present.
        expected_rate: the same as its size and the number of distinct values let expect.
        wasted_bytes: by how much it is larger than its hash functions need for so many distinct values.
    """

    hash_functions: int
    size_bits: int
    false_positive_rate: float | None
    expected_rate: float
    wasted_bytes: int


def find_refused(
    bloom: BloomFilter, actual: ActualValues, checked: NDArray[np.int64], random: np.random.Generator
) -> Mismatch | None:
    """The first row whose value the filter refuses; None if there is none.

    Args:
        bloom: the filter.
        actual: the column.
        checked: ranks of the keys to look up, ascending.
        random: chooses keys to ask one by one, as plans do; the others are looked up together.
    """
    refused = checked[~_admitted(bloom, actual.keys.take(checked))]
    asked = random.choice(checked, min(_ASKED_KEYS, len(checked)), replace=False).tolist()
    alone = [rank for rank in asked if not bloom.may_hold(actual.key(rank))]
    ranks = np.concatenate([refused, np.array(alone, np.int64)])
    if not len(ranks):
        return None
    # The rows of a key ascend, so its first one is the smallest.
    row = int(actual.grouped[actual.starts[ranks]].min())
    return Mismatch(row, lost=True, question=f"= {actual.shown(int(actual.ranks[row]))}")


def measure(bloom: BloomFilter, actual: ActualValues, random: np.random.Generator) -> BloomFindings:
    """How many absent values a filter admits, and how many it should."""
    size_bits, distinct = 8 * len(bloom.bits), len(actual.keys)
    absent = _absent_keys(actual, random)
    rate = float(_admitted(bloom, absent).mean()) if len(absent) else None
    expected = (1 - math.exp(-bloom.hash_functions * distinct / size_bits)) ** bloom.hash_functions
    needed_bytes = math.ceil(distinct * bloom.hash_functions / math.log(2) / 8)
    wasted_bytes = max(0, len(bloom.bits) - max(1, needed_bytes))
    return BloomFindings(bloom.hash_functions, size_bits, rate, expected, wasted_bytes)


def _admitted(bloom: BloomFilter, keys: Keys) -> NDArray[np.bool_]:
    """Which keys the filter may hold."""
    bits = np.frombuffer(bloom.bits, np.uint8)
    parts = [np.zeros(0, np.bool_)]
    for hashes in hash_keys(keys, bloom.space):
        admitted = np.ones(len(hashes), np.bool_)
        for place in places(hashes, bloom.hash_functions, 8 * len(bits)):
            admitted &= bits[place >> 3] >> (place & 7) & 1 != 0
        parts.append(admitted)
    return np.concatenate(parts)


def _absent_keys(actual: ActualValues, random: np.random.Generator) -> Keys:
    """Keys that no row has."""
    if isinstance(actual.keys, BytesColumn):
        # So many random bytes are nobody's value.
        drawn = random.bytes(_ABSENT_KEYS * _ABSENT_BYTES)
        starts = np.arange(_ABSENT_KEYS, dtype=np.int64) * _ABSENT_BYTES
        return BytesColumn(np.frombuffer(drawn, np.uint8), starts, np.full(_ABSENT_KEYS, _ABSENT_BYTES))
    span = np.iinfo(actual.keys.dtype)
    drawn_keys = random.integers(span.min, span.max, _ABSENT_KEYS, actual.keys.dtype, endpoint=True)
    return drawn_keys[~np.isin(drawn_keys, actual.keys)]
