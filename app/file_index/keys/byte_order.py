"""Sorting byte strings where they lie, without making objects of them.

A radix sort of large digits: a *word* is the next seven bytes of a string and, in the last byte, how many
bytes were left, or that there are more. So strings that end are smaller than those that go on, trailing zero
bytes count, and equal words end the comparison unless they go on. Each round sorts only the strings that are
still tied; where common starts are long or few strings are tied, Python sorts the rest.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.file_index.payloads.cursors import NO_LONGER_WORTH_A_STEP, words

_WORD_BYTES: Final = 8
_DIGIT_BYTES: Final = 7
_GOES_ON: Final = 8
_MAX_ROUNDS: Final = 32
_CODE_BITS: Final = 32
_STRINGS_AT_ONCE: Final = 1 << 16


def rank(
    data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sorts the strings of a buffer bytewise.

    Args:
        data: the buffer.
        starts: shape (n,): where each string starts; all of them lie within the buffer.
        lengths: shape (n,): bytes of each.

    Returns:
        The strings in ascending order, as positions, shape (n,); and the rank of each string among the
        distinct ones, shape (n,).
    """
    order = np.arange(len(starts))
    begins = np.zeros(len(starts), bool)
    begins[:1] = True
    tied = np.arange(len(starts))
    for depth in range(_MAX_ROUNDS):
        if len(tied) <= NO_LONGER_WORTH_A_STEP:
            break
        tied = _refine(_digits(data, starts, lengths, order[tied], depth), order, begins, tied)
    if len(tied):
        _finish(data, starts, lengths, order, begins, tied)
    ranks = np.empty(len(starts), np.int64)
    ranks[order] = np.cumsum(begins) - 1
    return order, ranks


def _digits(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    strings: NDArray[np.int64],
    depth: int,
) -> NDArray[np.uint64]:
    """The word of each string at a depth."""
    offset = depth * _DIGIT_BYTES
    if len(data) < _WORD_BYTES:
        data = np.append(data, np.zeros(_WORD_BYTES, np.uint8))
    digits = np.empty(len(strings), np.uint64)
    for start in range(0, len(strings), _STRINGS_AT_ONCE):
        block = strings[start : start + _STRINGS_AT_ONCE]
        left = np.minimum(lengths[block] - offset, _GOES_ON)
        at = starts[block] + offset
        within = np.minimum(at, len(data) - _WORD_BYTES)
        found = words(data, within) << ((at - within) * 8).astype(np.uint64)
        # Bytes behind the end of the string belong to others.
        unused = ((_WORD_BYTES - np.minimum(left, _DIGIT_BYTES)) * 8).astype(np.uint64)
        digits[start : start + len(block)] = found >> unused << unused | left.astype(np.uint64)
    return digits


def _refine(
    digits: NDArray[np.uint64], order: NDArray[np.int64], begins: NDArray[np.bool_], tied: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Sorts tied strings, which stand together, by their words; returns the places that are still tied."""
    groups = np.cumsum(begins[tied])
    by_digits = np.argsort(digits)
    if groups[-1] > 1:
        codes = np.empty(len(tied), np.int64)
        codes[by_digits] = np.cumsum(_differs(digits[by_digits]))
        by_digits = np.argsort(groups << _CODE_BITS | codes)
    order[tied] = order[tied[by_digits]]
    digits = digits[by_digits]
    begins[tied] |= _differs(digits)
    alone = begins[tied] & np.append(begins, True)[tied + 1]
    still: NDArray[np.bool_] = ~alone & (digits & np.uint64(0xFF) == _GOES_ON)
    return tied[still]


def _differs(digits: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which of them differ from the one before."""
    found = np.ones(len(digits), bool)
    np.not_equal(digits[1:], digits[:-1], out=found[1:])
    return found


def _finish(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    order: NDArray[np.int64],
    begins: NDArray[np.bool_],
    tied: NDArray[np.int64],
) -> None:
    """Sorts what is tied as Python does."""
    strings, view = order[tied], data.data
    ends = starts + lengths
    groups = np.cumsum(begins[tied]).tolist()
    keys = [
        (group, bytes(view[starts[string] : ends[string]]))
        for group, string in zip(groups, strings.tolist(), strict=True)
    ]
    by_key = sorted(range(len(tied)), key=keys.__getitem__)
    order[tied] = strings[by_key]
    for place, this, before in zip(tied[1:].tolist(), by_key[1:], by_key, strict=False):
        begins[place] |= keys[this] != keys[before]
