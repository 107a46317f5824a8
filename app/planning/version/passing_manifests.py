"""The manifests of a version that takes more memory than there is for them: some are held at a time.

A plan goes over the manifests in their order, and says beforehand which it is going to look at. These are
read portion by portion, each portion side by side; of what was read before, as much stays as there is room
for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Self, overload

from app.table.manifests.manifest import Manifest
from app.table.manifests.manifest_list import ManifestFile

Read = Callable[[Sequence[ManifestFile]], Sequence[Manifest]]

_EXPANSION: Final = 16
"""Hardly any manifest takes more than so many times its bytes once it is decoded."""
_SHARE: Final = 4
"""One plan holds at most so much of what all plans together may keep."""


class PassingManifests(Sequence["Manifest"]):
    """Manifests that are read again whenever they are asked for and are not held any more.

    Args:
        files: the manifests, as their lists name them.
        read: reads some of them.
        decoded_bytes: memory that all of them would take, about.
        most_bytes: memory that those that are held may take; one manifest is always held.
    """

    def __init__(
        self, files: Sequence[ManifestFile], read: Read, decoded_bytes: int, most_bytes: int
    ) -> None:
        self.decoded_bytes = decoded_bytes
        self._files = files
        self._read = read
        self._most_bytes = most_bytes
        stored = sum(size for _, size in files)
        self._expansion = decoded_bytes / stored if stored else 0.0
        self._held: dict[int, Manifest] = {}

    @overload
    def __getitem__(self, at: int) -> Manifest: ...
    @overload
    def __getitem__(self, at: slice) -> Self: ...
    def __getitem__(self, at: int | slice) -> Manifest | Self:
        if isinstance(at, slice):
            return self.some(range(len(self))[at])
        at = range(len(self))[at]
        held = self._held.get(at)
        return self._hold([at])[0] if held is None else held

    def __iter__(self) -> Iterator[Manifest]:
        return map(self.__getitem__, self.ahead(range(len(self))))

    def __len__(self) -> int:
        return len(self._files)

    def some(self, numbers: Iterable[int]) -> Self:
        """The manifests of these numbers, in this order, which hold nothing yet."""
        files = [self._files[number] for number in numbers]
        decoded_bytes = int(self._expansion * sum(size for _, size in files))
        return type(self)(files, self._read, decoded_bytes, self._most_bytes)

    def ahead(self, numbers: Iterable[int]) -> Iterator[int]:
        """Numbers of manifests as they were given, each when its manifest is there."""
        for portion in self.portions(numbers):
            self._hold(portion)
            yield from portion

    def portions(self, numbers: Iterable[int]) -> Iterator[list[int]]:
        """Numbers of manifests cut up into what can be held at the same time."""
        portion: list[int] = []
        expected = 0.0
        for number in numbers:
            more = self._expansion * self._files[number][1]
            if portion and expected + more > self._most_bytes:
                yield portion
                portion, expected = [], 0.0
            portion.append(number)
            expected += more
        if portion:
            yield portion

    def _hold(self, portion: Sequence[int]) -> list[Manifest]:
        """Reads the manifests of a portion that are not held, and lets go of the eldest of others."""
        missing = [number for number in portion if number not in self._held]
        known = self._held
        if missing:
            read = self._read([self._files[number] for number in missing])
            known = known | dict(zip(missing, read, strict=True))
        here = {number: known[number] for number in portion}
        kept = {number: each for number, each in self._held.items() if number not in here}
        room = self._most_bytes - sum(each.decoded_bytes for each in here.values())
        for number in reversed([*kept]):
            room -= kept[number].decoded_bytes
            if room < 0:
                del kept[number]
        self._held = kept | here
        return [*here.values()]


def hold_or_pass(
    files: Sequence[ManifestFile], read: Read, pass_by: Read, room: int, known_bytes: int | None = None
) -> Sequence[Manifest]:
    """The manifests of a version, all held if they fit.

    Args:
        files: the manifests, as their lists name them.
        read: reads some of them, and keeps them for other plans.
        pass_by: reads some of them, and keeps none.
        room: memory that there is for manifests of all plans; 0 for as much as it takes.
        known_bytes: memory that all of them take, if that is known.
    """
    if room == 0 or (known_bytes is not None and known_bytes <= room):
        return tuple(read(files))
    if known_bytes is not None:
        return PassingManifests(files, pass_by, known_bytes, room // _SHARE)
    held: list[Manifest] = []
    stored = decoded = 0
    for portion in _portions(files, room // _EXPANSION):
        held += read(portion)
        stored += sum(size for _, size in portion)
        decoded += sum(each.decoded_bytes for each in held[-len(portion) :])
        # The others are probably like these.
        expected = decoded * sum(size for _, size in files) // max(stored, 1)
        if expected > room:
            return PassingManifests(files, pass_by, expected, room // _SHARE)
    return tuple(held)


def _portions(files: Sequence[ManifestFile], most_bytes: int) -> Iterator[Sequence[ManifestFile]]:
    start = size = 0
    for at, (_, more) in enumerate(files):
        if at > start and size + more > most_bytes:
            yield files[start:at]
            start, size = at, 0
        size += more
    if start < len(files):
        yield files[start:]
