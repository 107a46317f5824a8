"""Lengths of strings and lists in an ORC file: runs of numbers, version 2 of the encoding.

A run begins with two bits that tell its kind, and what follows them depends on that. ``w`` stands for five
bits that tell a width, ``n`` for nine bits: the number of values, less one; numbers are big endian.

=====================  ======================================================================================
kind                   run
=====================  ======================================================================================
0, short repeat        3 bits bytes of the value less one, 3 bits number of values less three, the value
1, direct              w, n, the values, of that width each
2, patched base        w, n, 3 bits bytes of the base less one, w of patches, 3 bits width of gaps less one,
                       5 bits number of patches, the base, the values less the base, the patches
3, delta               w (0: steps are all the same), n, the first value and the first step, seven bits a
                       byte, the step a zigzag; the further steps, of that width each
=====================  ======================================================================================

A patch is a gap, the distance to the value that it belongs to, and the bits of that value above its width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from app.errors import CorruptMetadataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WIDTHS: Final = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
_MAX_LENGTH: Final = 1 << 40
_MAX_BITS: Final = 63
_SHORT, _DIRECT, _PATCHED = 0, 1, 2


def read_lengths(stream: bytes, count: int) -> NDArray[np.int64]:
    """The first numbers of a stream without its compression: ``count``, or as many as there are.

    Returns:
        Numbers that are not negative, shape (n,).

    Raises:
        CorruptMetadataError: a run is cut, or a number is no length.
    """
    cursor = _Cursor(stream)
    runs: list[NDArray[np.int64]] = []
    found = 0
    while cursor.at < len(stream) and found < count:
        kind = stream[cursor.at] >> 6
        if kind == _SHORT:
            run = cursor.short()
        elif kind == _DIRECT:
            run = cursor.direct()
        elif kind == _PATCHED:
            run = cursor.patched()
        else:
            run = cursor.delta()
        if ((run < 0) | (run > _MAX_LENGTH)).any():
            raise CorruptMetadataError(f"a length of {int(run.max())}, or one below zero")
        runs.append(run)
        found += len(run)
    return np.concatenate([np.zeros(0, np.int64), *runs])[:count]


class _Cursor:
    """A position in the stream, in front of a run."""

    def __init__(self, stream: bytes) -> None:
        self.stream = stream
        self.at = 0

    def short(self) -> NDArray[np.int64]:
        head = self._take(1)[0]
        value = int.from_bytes(self._take((head >> 3 & 7) + 1))
        return np.full((head & 7) + 3, min(value, _MAX_LENGTH + 1), np.int64)

    def head(self) -> tuple[int, int]:
        """Width and number of values."""
        first, second = self._take(2)
        return _WIDTHS[first >> 1 & 31], ((first & 1) << 8 | second) + 1

    def direct(self) -> NDArray[np.int64]:
        width, count = self.head()
        return self.packed(count, width)

    def packed(self, count: int, width: int) -> NDArray[np.int64]:
        """Numbers of a width each; they end with a byte."""
        content = np.frombuffer(self._take((count * width + 7) // 8), np.uint8)
        bits = np.unpackbits(content)[: count * width].reshape(count, width)
        if bits[:, : max(0, width - _MAX_BITS)].any():
            raise CorruptMetadataError("a length of 64 bits")
        return bits[:, -_MAX_BITS:] @ (1 << np.arange(min(width, _MAX_BITS), dtype=np.int64)[::-1])

    def patched(self) -> NDArray[np.int64]:
        width, count = self.head()
        third, fourth = self._take(2)
        base = self._take((third >> 5) + 1)
        patch_width, gap_width = _WIDTHS[third & 31], (fourth >> 5) + 1
        if base[0] & 0x80 or width + patch_width > _MAX_BITS:
            raise CorruptMetadataError("a length of 64 bits, or one below zero")
        values = self.packed(count, width)
        stored_width = next(each for each in _WIDTHS if each >= min(patch_width + gap_width, _WIDTHS[-1]))
        patches = self.packed(fourth & 31, stored_width)
        places = np.cumsum(patches >> patch_width)
        if (places >= count).any():
            raise CorruptMetadataError("a patch behind the last length of its run")
        np.bitwise_or.at(values, places, (patches & (1 << patch_width) - 1) << width)
        return values + min(int.from_bytes(base), _MAX_LENGTH + 1)

    def delta(self) -> NDArray[np.int64]:
        code = self.stream[self.at] >> 1 & 31
        width, count = self.head()
        first, zigzag = self._number(), self._number()
        step = (zigzag >> 1) ^ -(zigzag & 1)
        if max(first, abs(step)) > _MAX_LENGTH:
            raise CorruptMetadataError(f"a length of {first}, or one that differs by {step}")
        steps = np.full(count, step, np.int64)
        steps[0] = first
        if code and count > 2:  # noqa: PLR2004 - the first value and the first step stand by themselves
            further = self.packed(count - 2, width)
            if (further > _MAX_LENGTH).any():
                raise CorruptMetadataError("lengths that differ by more than any length")
            steps[2:] = further if step >= 0 else -further
        return np.cumsum(steps)

    def _number(self) -> int:
        value = shift = 0
        while shift <= _MAX_BITS:
            (byte,) = self._take(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:  # noqa: PLR2004 - the continuation bit
                return value
        raise CorruptMetadataError("expected a number of at most ten bytes in a run")

    def _take(self, length: int) -> bytes:
        taken = self.stream[self.at : self.at + length]
        if len(taken) < length:
            raise CorruptMetadataError("a run of lengths that is cut")
        self.at += length
        return taken
