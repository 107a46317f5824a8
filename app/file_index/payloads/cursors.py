"""Reading many payloads side by side without ever reading beyond the end of any of them."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from app.types.bytes_column import BytesColumn

NO_LONGER_WORTH_A_STEP = 16
"""So few strings are read faster one after the other than by another round of array operations."""


class Cursors:
    """A place in each of n byte strings of one buffer; each read moves all of them forward.

    A string that ends too early, or that somebody found wrong, is no longer *sound*: whatever is read of it
    from then on is 0, so that sizes and counts computed of these come out as 0 too.

    Attributes:
        data: the buffer, uint8.
        at: int64, shape (n,): offset of the next byte of each string in ``data``.
        ends: int64, shape (n,): where each string ends.
        sound: bool, shape (n,).
    """

    __slots__ = ("at", "data", "ends", "sound")

    def __init__(
        self,
        data: NDArray[np.uint8],
        at: NDArray[np.int64],
        ends: NDArray[np.int64],
        sound: NDArray[np.bool_],
    ) -> None:
        self.data = data
        self.at = at
        self.ends = ends
        self.sound = sound

    @classmethod
    def of(cls, payloads: BytesColumn) -> Self:
        """Cursors at the front of each string; nulls are not sound."""
        return cls(payloads.data, payloads.starts, payloads.starts + payloads.lengths, ~payloads.is_null)

    def take(self, chosen: NDArray[np.int64]) -> Self:
        """Cursors of their own at the same places, of the ``chosen`` strings."""
        return type(self)(self.data, self.at[chosen], self.ends[chosen], self.sound[chosen])

    @property
    def remaining(self) -> NDArray[np.int64]:
        """Bytes between the place and the end, of each string; 0 where it is not sound."""
        return np.where(self.sound, self.ends - self.at, 0)

    def put(self, chosen: NDArray[np.int64], moved: Cursors) -> None:
        """Takes over what became of the ``chosen`` strings, in :meth:`take`'s order."""
        self.at, self.sound = self.at.copy(), self.sound.copy()
        self.at[chosen], self.sound[chosen] = moved.at, moved.sound

    def i8(self) -> NDArray[np.int64]:
        """A signed byte of each string."""
        return self._next(">i1")

    def i32(self) -> NDArray[np.int64]:
        """A signed 32-bit integer of each string."""
        return self._next(">i4")

    def i64(self) -> NDArray[np.int64]:
        """A signed 64-bit integer of each string."""
        return self._next(">i8")

    def u16_le(self) -> NDArray[np.int64]:
        """An unsigned little-endian 16-bit integer of each string."""
        return self._next("<u2")

    def u32_le(self) -> NDArray[np.int64]:
        """An unsigned little-endian 32-bit integer of each string."""
        return self._next("<u4")

    def count(self, each_bytes: int = 0) -> NDArray[np.int64]:
        """A 32-bit integer that counts things of at least ``each_bytes`` bytes that are still to come."""
        numbers = self.i32()
        self.expect((numbers >= 0) & (numbers * each_bytes <= self.remaining))
        return np.where(self.sound, numbers, 0)

    def skip(self, sizes: NDArray[np.int64] | int) -> None:
        """Moves on by ``sizes`` bytes."""
        self.expect((self.remaining >= sizes) & (np.asarray(sizes) >= 0))
        self.at = np.where(self.sound, self.at + sizes, self.at)

    def expect(self, holds: NDArray[np.bool_]) -> None:
        """Strings for which ``holds`` is false are not sound."""
        self.sound = self.sound & holds

    def _next(self, form: str) -> NDArray[np.int64]:
        width = np.dtype(form).itemsize
        self.expect(self.remaining >= width)
        numbers = integers(self.data, np.where(self.sound, self.at, 0), form)
        numbers[~self.sound] = 0
        self.at = np.where(self.sound, self.at + width, self.at)
        return numbers


def integers(data: NDArray[np.uint8], at: NDArray[np.int64], form: str) -> NDArray[np.int64]:
    """Integers that numpy calls ``form`` at offsets that lie within the buffer, shape as ``at``.

    A buffer too short for a single one reads as zeros.
    """
    if len(data) < np.dtype(form).itemsize:
        return np.zeros_like(at)
    return _windows(data, form)[at].astype(np.int64)


def words(data: NDArray[np.uint8], at: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The eight bytes at offsets that lie within the buffer, as big-endian integers; needs eight bytes."""
    return _windows(data, ">u8")[at].astype(np.uint64)


def _windows(data: NDArray[np.uint8], form: str) -> NDArray[np.generic]:
    width = np.dtype(form).itemsize
    return np.ndarray((len(data) - width + 1,), form, np.ascontiguousarray(data), strides=(1,))


def runs_of(
    starts: NDArray[np.int64], counts: NDArray[np.int64], stride: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Places of things that stand ``stride`` bytes apart, ``counts[i]`` of them from ``starts[i]`` on.

    Returns the ``i`` of each thing, and its place.
    """
    owners = np.repeat(np.arange(len(starts)), counts)
    before = np.cumsum(counts) - counts
    places = (starts - before * stride)[owners]
    places += np.arange(len(owners)) * stride
    return owners, places
