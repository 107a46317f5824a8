"""Bounds-checked readers of one payload or of many side by side, and the joining of parts."""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass
from io import BytesIO
from typing import Self

import numpy as np
from numpy.typing import NDArray

from app.errors import CorruptIndexError
from app.types import BytesColumn
from app.types.roaring import (
    BITS_BYTES,
    COOKIE_WITH_RUNS,
    COOKIE_WITHOUT_RUNS,
    FEWEST_WITH_OFFSETS,
    MAX_ARRAY_VALUES,
    MAX_CONTAINERS,
    Buffer,
    bitmap_size,
)

_U16 = struct.Struct(">H")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")

# Below this number of strings, reading them one by one beats another round of array operations.
NO_LONGER_WORTH_A_STEP = 16

_KEY_BYTES = 2
_KEY_AND_CARDINALITY_BYTES = 4
_OFFSET_BYTES = 4
_RUN_BYTES = 4


def join_parts(parts: deque[Buffer]) -> bytes:
    """Join the parts of a payload, removing each from the queue."""
    payload = BytesIO()
    # Freeing each part at once keeps the peak at one payload instead of two.
    while parts:
        payload.write(parts.popleft())
    return payload.getvalue()


class Cursor:
    """A position in a buffer of big-endian fields. Reads move it, or raise :class:`CorruptIndexError`."""

    __slots__ = ("buffer", "position")

    def __init__(self, buffer: Buffer, position: int = 0) -> None:
        self.buffer = buffer
        self.position = position

    @property
    def remaining(self) -> int:
        """Bytes between the position and the end."""
        return len(self.buffer) - self.position

    def u16(self, label: str) -> int:
        """Read an unsigned 16-bit integer."""
        return self._number(_U16, label)

    def i32(self, label: str) -> int:
        """Read a signed 32-bit integer."""
        return self._number(_I32, label)

    def i64(self, label: str) -> int:
        """Read a signed 64-bit integer."""
        return self._number(_I64, label)

    def count(self, label: str, *, each_bytes: int = 0) -> int:
        """Read a 32-bit count of things that take at least ``each_bytes`` of the buffer each."""
        start = self.position
        number = self._number(_I32, label)
        if number < 0 or number * each_bytes > self.remaining:
            raise CorruptIndexError(
                f"expected the {label} to fit the {self.remaining} bytes that are left, found {number}",
                offset=start,
            )
        return number

    def take(self, size: int, label: str) -> Buffer:
        """Take the next ``size`` bytes."""
        start, end = self.position, self.position + size
        if size < 0 or end > len(self.buffer):
            raise CorruptIndexError(
                f"expected {label} of {size} bytes, found {len(self.buffer) - start}", offset=start
            )
        self.position = end
        return self.buffer[start:end]

    def _number(self, form: struct.Struct, label: str) -> int:
        start, end = self.position, self.position + form.size
        if not 0 <= start <= end <= len(self.buffer):
            raise CorruptIndexError(
                f"expected the {label} ({form.size} bytes), found {max(0, len(self.buffer) - start)} bytes",
                offset=start,
            )
        self.position = end
        number: int = form.unpack_from(self.buffer, start)[0]
        return number


class Cursors:
    """A position in each of n byte strings of one buffer. Each read moves all of them forward.

    A string that ends too early, or fails a check, is no longer *sound*: every later read of it gives 0, so
    that sizes and counts computed from it are 0 too. *Strict* cursors raise :class:`CorruptIndexError`
    instead, with the expectation and the offset in the buffer.

    Attributes:
        data: the buffer, uint8.
        at: int64, shape (n,): offset of the next byte of each string in ``data``.
        ends: int64, shape (n,): end of each string.
        sound: bool, shape (n,).
        field: int64, shape (n,): start of the field that was read last.
    """

    __slots__ = ("at", "data", "ends", "field", "sound", "strict")

    def __init__(
        self,
        data: NDArray[np.uint8],
        at: NDArray[np.int64],
        ends: NDArray[np.int64],
        sound: NDArray[np.bool_],
        *,
        strict: bool = False,
    ) -> None:
        self.data = data
        self.at = at
        self.field = at
        self.ends = ends
        self.sound = sound
        self.strict = strict

    @classmethod
    def of(cls, payloads: BytesColumn, *, strict: bool = False) -> Self:
        """Return cursors at the front of each string. Nulls are not sound."""
        ends = payloads.starts + payloads.lengths
        return cls(payloads.data, payloads.starts, ends, ~payloads.is_null, strict=strict)

    def within(
        self,
        at: NDArray[np.int64],
        ends: NDArray[np.int64],
        inside: NDArray[np.bool_],
        stated: NDArray[np.int64],
        label: str,
    ) -> Self:
        """Return cursors of nested strings, sound if ``inside``. ``stated``: offsets of their references."""
        cursors = type(self)(
            self.data, np.where(inside, at, 0), ends, np.ones(len(at), np.bool_), strict=self.strict
        )
        cursors.field = stated
        cursors.expect(inside, label)
        return cursors

    def take(self, chosen: NDArray[np.int64]) -> Self:
        """Return independent cursors of the ``chosen`` strings, at their current positions."""
        return type(self)(
            self.data, self.at[chosen], self.ends[chosen], self.sound[chosen], strict=self.strict
        )

    @property
    def remaining(self) -> NDArray[np.int64]:
        """Bytes between position and end of each string. 0 if it is not sound."""
        return np.where(self.sound, self.ends - self.at, 0)

    def put(self, chosen: NDArray[np.int64], moved: Cursors) -> None:
        """Write back positions and soundness of the ``chosen`` strings, in :meth:`take`'s order."""
        # Copies, since other cursors may share these arrays.
        self.at, self.sound = self.at.copy(), self.sound.copy()
        self.at[chosen], self.sound[chosen] = moved.at, moved.sound

    def i8(self, label: str) -> NDArray[np.int64]:
        """Read a signed byte of each string."""
        return self._next(">i1", label)

    def i32(self, label: str) -> NDArray[np.int64]:
        """Read a signed 32-bit integer of each string."""
        return self._next(">i4", label)

    def i64(self, label: str) -> NDArray[np.int64]:
        """Read a signed 64-bit integer of each string."""
        return self._next(">i8", label)

    def u16_le(self, label: str) -> NDArray[np.int64]:
        """Read an unsigned little-endian 16-bit integer of each string."""
        return self._next("<u2", label)

    def u32_le(self, label: str) -> NDArray[np.int64]:
        """Read an unsigned little-endian 32-bit integer of each string."""
        return self._next("<u4", label)

    def count(self, label: str, each_bytes: int = 0) -> NDArray[np.int64]:
        """Read a 32-bit count of things that take at least ``each_bytes`` of the string each."""
        numbers = self.i32(label)
        self.expect(
            (numbers >= 0) & (numbers * each_bytes <= self.remaining),
            f"the {label} to fit the bytes that are left",
            numbers,
        )
        return np.where(self.sound, numbers, 0)

    def version(self, label: str, *supported: int) -> NDArray[np.int64]:
        """Read a version byte, which must be one of ``supported``."""
        versions = self.i8(f"version of the {label}")
        is_supported = np.zeros(len(versions), np.bool_)
        for version in supported:
            is_supported |= versions == version
        self.expect(is_supported, f"version {' or '.join(map(str, supported))} of the {label}", versions)
        return versions

    def flag(self, label: str) -> NDArray[np.int64]:
        """Read a byte that is 0 or 1."""
        flags = self.i8(label)
        self.expect((flags == 0) | (flags == 1), f"0 or 1 as {label}", flags)
        return flags

    def skip(self, sizes: NDArray[np.int64] | int, label: str) -> None:
        """Move on by ``sizes`` bytes."""
        self.field = self.at
        remaining, sizes = self.remaining, np.asarray(sizes)
        self.expect((remaining >= sizes) & (sizes >= 0), f"bytes of {label}", remaining)
        self.at = np.where(self.sound, self.at + sizes, self.at)

    def expect(self, holds: NDArray[np.bool_], label: str, values: NDArray[np.int64] | None = None) -> None:
        """Mark strings for which ``holds`` is false as not sound."""
        if self.strict and (wrong := np.flatnonzero(self.sound & ~holds)).size:
            shown = "" if values is None else f", found {np.broadcast_to(values, self.at.shape)[wrong[0]]}"
            raise CorruptIndexError(f"expected {label}{shown}", offset=int(self.field[wrong[0]]))
        self.sound = self.sound & holds

    def fail(self, string: int, error: CorruptIndexError) -> None:
        """Mark one string as not sound."""
        if self.strict:
            raise error
        self.sound[string] = False

    def _next(self, form: str, label: str) -> NDArray[np.int64]:
        width = np.dtype(form).itemsize
        self.field = self.at
        remaining = self.remaining
        self.expect(remaining >= width, f"the {label} ({width} bytes)", remaining)
        numbers = integers(self.data, np.where(self.sound, self.at, 0), form)
        # Cursors that are not sound have read at offset 0.
        numbers[~self.sound] = 0
        self.at = np.where(self.sound, self.at + width, self.at)
        return numbers


def integers(data: NDArray[np.uint8], at: NDArray[np.int64], form: str) -> NDArray[np.int64]:
    """Read integers of the NumPy type ``form`` at offsets within the buffer. Shape as ``at``."""
    # Cursors that are not sound read at 0, also from a buffer that is too short for an integer.
    if len(data) < np.dtype(form).itemsize:
        return np.zeros_like(at)
    return _windows(data, form)[at].astype(np.int64)


def words(data: NDArray[np.uint8], at: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Read eight bytes at each offset as a big-endian integer. The buffer holds at least eight."""
    return _windows(data, ">u8")[at].astype(np.uint64)


def _windows(data: NDArray[np.uint8], form: str) -> NDArray[np.generic]:
    width = np.dtype(form).itemsize
    return np.ndarray((len(data) - width + 1,), form, np.ascontiguousarray(data), strides=(1,))


def runs_of(
    starts: NDArray[np.int64], counts: NDArray[np.int64], stride: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return owner i and offset of each item: ``counts[i]`` of them from ``starts[i]``, ``stride`` apart."""
    owners = np.repeat(np.arange(len(starts)), counts)
    before = np.cumsum(counts) - counts
    places = (starts - before * stride)[owners]
    places += np.arange(len(owners)) * stride
    return owners, places


@dataclass(frozen=True, slots=True, eq=False)
class RoaringHeads:
    """Heads of n roaring bitmaps. Offsets are int64, shape (n,), and undefined without a container."""

    with_runs: NDArray[np.bool_]
    containers: NDArray[np.int64]
    flags_at: NDArray[np.int64]
    keys_at: NDArray[np.int64]

    @classmethod
    def read(cls, cursors: Cursors) -> Self:
        """Read the heads. Sound cursors end at the first container."""
        cookies = cursors.u32_le("cookie of a roaring bitmap")
        with_runs = cookies & 0xFFFF == COOKIE_WITH_RUNS
        cursors.expect(
            with_runs | (cookies == COOKIE_WITHOUT_RUNS), "the cookie of a roaring bitmap", cookies
        )
        containers = (cookies >> 16) + 1
        plain = np.flatnonzero(~with_runs)
        counting = cursors.take(plain)
        containers[plain] = counting.u32_le("number of containers")
        counting.expect(containers[plain] <= MAX_CONTAINERS, f"at most {MAX_CONTAINERS} containers")
        cursors.put(plain, counting)
        flags_at = cursors.at
        cursors.skip(np.where(with_runs, (containers + 7) >> 3, 0), "run flags")
        keys_at = cursors.at
        cursors.skip(_KEY_AND_CARDINALITY_BYTES * containers, "keys of containers")
        has_offsets = ~with_runs | (containers >= FEWEST_WITH_OFFSETS)
        cursors.skip(np.where(has_offsets, _OFFSET_BYTES * containers, 0), "offsets of containers")
        return cls(with_runs, np.where(cursors.sound, containers, 0), flags_at, keys_at)

    def cardinalities(
        self, data: NDArray[np.uint8], chosen: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return bitmap and number of values of each container of the ``chosen`` bitmaps."""
        counts = np.where(chosen, self.containers, 0)
        owners, places = runs_of(self.keys_at + _KEY_BYTES, counts, _KEY_AND_CARDINALITY_BYTES)
        return owners, integers(data, places, "<u2") + 1


def skip_bitmaps(cursors: Cursors) -> None:
    """Move the cursors past the next bitmap. A cursor that is not at a bitmap is no longer sound."""
    starts = cursors.at
    heads = RoaringHeads.read(cursors)
    owners, values = heads.cardinalities(cursors.data, ~heads.with_runs)
    cursors.skip(np.bincount(owners, _plain_bytes(values), len(starts)).astype(np.int64), "containers")
    bitmaps, container = np.flatnonzero(cursors.sound & heads.with_runs), 0
    # The head has no lengths of containers of runs, so bitmaps with such containers are walked, one container
    # at a time.
    while len(bitmaps) > NO_LONGER_WORTH_A_STEP:
        walking = cursors.take(bitmaps)
        walking.skip(_container_bytes(walking, heads, bitmaps, container), "a container")
        cursors.put(bitmaps, walking)
        container += 1
        bitmaps = bitmaps[walking.sound & (heads.containers[bitmaps] > container)]
    view, rest = cursors.data.data, cursors.take(bitmaps)
    for at, bitmap in enumerate(bitmaps.tolist()):
        try:
            rest.at[at] = starts[bitmap] + bitmap_size(view[: cursors.ends[bitmap]], int(starts[bitmap]))
        except CorruptIndexError as error:
            rest.fail(at, error)
    cursors.put(bitmaps, rest)


def _container_bytes(
    walking: Cursors, heads: RoaringHeads, bitmaps: NDArray[np.int64], container: int
) -> NDArray[np.int64]:
    flags = walking.data[heads.flags_at[bitmaps] + (container >> 3)]
    at = heads.keys_at[bitmaps] + container * _KEY_AND_CARDINALITY_BYTES + _KEY_BYTES
    sizes = _plain_bytes(integers(walking.data, at, "<u2") + 1)
    of_runs = np.flatnonzero(flags >> (container & 7) & 1)
    counting = walking.take(of_runs)
    sizes[of_runs] = _RUN_BYTES * counting.u16_le("number of runs")
    walking.put(of_runs, counting)
    return sizes


def _plain_bytes(values: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.where(values > MAX_ARRAY_VALUES, BITS_BYTES, 2 * values)
