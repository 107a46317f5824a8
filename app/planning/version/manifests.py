"""The manifests of a version: all of them in memory, or as many at a time as there is room for.

A plan goes over the manifests in their order, and says beforehand which it is going to look at. Where they
take more memory than there is, these are read portion by portion, each portion side by side; of what was read
before, as much stays as there is room for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import Final, Self, overload

import numpy as np
from numpy.typing import NDArray

from app.table.manifests.manifest import Manifest
from app.table.manifests.manifest_list import ManifestFile
from app.types.digest import content_digest

Read = Callable[[Sequence[ManifestFile]], Sequence[Manifest]]

_EXPANSION: Final = 16
"""Hardly any manifest takes more than so many times its bytes once it is decoded."""
_SHARE: Final = 4
"""One plan holds at most so much of what all plans together may keep."""


class Manifests(Sequence["Manifest"]):
    """Some manifests of a version; those that there is no room for are read again whenever they are needed.

    ``most_bytes``: memory that those at hand may take, one at least; None for as much as it takes.
    """

    def __init__(
        self, files: Sequence[ManifestFile], read: Read, decoded_bytes: int, most_bytes: int | None = None
    ) -> None:
        self.decoded_bytes = decoded_bytes
        self._files = files
        self._read = read
        self._most_bytes = most_bytes
        stored = sum(size for _, size in files)
        self._expansion = decoded_bytes / stored if stored else 0.0
        self._at_hand: dict[int, Manifest] = {}

    @classmethod
    def of(cls, manifests: Sequence[Manifest]) -> Self:
        """Manifests that are in memory, and stay there."""
        made = cls(
            [("", 0)] * len(manifests), lambda _: (), sum(manifest.decoded_bytes for manifest in manifests)
        )
        made._at_hand = dict(enumerate(manifests))
        return made

    @property
    def in_memory(self) -> bool:
        """Whether all of them stay in memory."""
        return self._most_bytes is None

    @overload
    def __getitem__(self, at: int) -> Manifest: ...
    @overload
    def __getitem__(self, at: slice) -> Self: ...
    def __getitem__(self, at: int | slice) -> Manifest | Self:
        if isinstance(at, slice):
            return self.choose(range(len(self))[at])
        at = range(len(self))[at]
        manifest = self._at_hand.get(at)
        return self._fetch([at])[0] if manifest is None else manifest

    def __iter__(self) -> Iterator[Manifest]:
        return map(self.__getitem__, self.load_in_order(range(len(self))))

    def __len__(self) -> int:
        return len(self._files)

    def choose(self, numbers: Iterable[int]) -> Self:
        """The manifests of these numbers, in this order."""
        if self._most_bytes is None:
            return self.of([self._at_hand[number] for number in numbers])
        files = [self._files[number] for number in numbers]
        decoded_bytes = int(self._expansion * sum(size for _, size in files))
        return type(self)(files, self._read, decoded_bytes, self._most_bytes)

    def load_in_order(self, numbers: Iterable[int]) -> Iterator[int]:
        """Yields each number once its manifest is loaded."""
        if self._most_bytes is None:
            yield from numbers
            return
        for portion in self.portions(numbers):
            self._fetch(portion)
            yield from portion

    def portions(self, numbers: Iterable[int]) -> Iterator[list[int]]:
        """Numbers cut up into those of manifests that there is room for at the same time."""
        portion: list[int] = []
        expected = 0.0
        room = math.inf if self._most_bytes is None else self._most_bytes
        for number in numbers:
            more = self._expansion * self._files[number][1]
            if portion and expected + more > room:
                yield portion
                portion, expected = [], 0.0
            portion.append(number)
            expected += more
        if portion:
            yield portion

    def _fetch(self, portion: Sequence[int]) -> list[Manifest]:
        missing = [number for number in portion if number not in self._at_hand]
        known = self._at_hand
        if missing:
            read = self._read([self._files[number] for number in missing])
            known = known | dict(zip(missing, read, strict=True))
        fetched = {number: known[number] for number in portion}
        if self._most_bytes is not None:
            others = {number: manifest for number, manifest in self._at_hand.items() if number not in fetched}
            room = self._most_bytes - sum(manifest.decoded_bytes for manifest in fetched.values())
            for number in reversed([*others]):
                room -= others[number].decoded_bytes
                if room < 0:
                    del others[number]
            self._at_hand = others | fetched
        return [*fetched.values()]


def read_manifests(
    files: Sequence[ManifestFile],
    read: Read,
    read_uncached: Read,
    room: int,
    decoded_bytes: int | None = None,
) -> Manifests:
    """The manifests of a version, all in memory if they fit.

    ``room``: memory that there is for manifests of all plans; 0 for as much as it takes.
    """
    if room == 0 or (decoded_bytes is not None and decoded_bytes <= room):
        return Manifests.of(read(files))
    if decoded_bytes is not None:
        return Manifests(files, read_uncached, decoded_bytes, room // _SHARE)
    manifests: list[Manifest] = []
    stored = decoded = 0
    for portion in _portions(files, room // _EXPANSION):
        manifests += read(portion)
        stored += sum(size for _, size in portion)
        decoded += sum(manifest.decoded_bytes for manifest in manifests[-len(portion) :])
        # Extrapolated from the manifests read so far.
        expected = decoded * sum(size for _, size in files) // max(stored, 1)
        if expected > room:
            return Manifests(files, read_uncached, expected, room // _SHARE)
    return Manifests.of(manifests)


def _portions(files: Sequence[ManifestFile], most_bytes: int) -> Iterator[Sequence[ManifestFile]]:
    start = size = 0
    for at, (_, more) in enumerate(files):
        if at > start and size + more > most_bytes:
            yield files[start:at]
            start, size = at, 0
        size += more
    if start < len(files):
        yield files[start:]


@dataclass(frozen=True, eq=False)
class NeededManifests:
    """The manifests that a filter needs, and what lists and snapshot say of all of them.

    Attributes:
        are_needed: bool, shape (manifests,).
        files: how many files the version has, those that no batch read sees included.
        rows: how many rows these have.
    """

    are_needed: NDArray[np.bool_]
    files: int
    rows: int

    def of(self, manifests: Sequence[ManifestFile]) -> tuple[ManifestFile, ...]:
        """Those of all manifests that are needed."""
        return tuple(compress(manifests, self.are_needed))

    @cached_property
    def digest(self) -> str:
        """Differs between sets of needed manifests of one version."""
        return content_digest(self.are_needed.tobytes())
