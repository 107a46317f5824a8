"""Many ranges of files at once, read side by side; those of one file that lie close together in one go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from app.errors import DeadlineExceededError, LimitExceededError, PaimonIndexError, StorageError
from app.observation import StorageOperation
from app.storage.disk_entry import Piece
from app.storage.disk_tier import DiskTier
from app.storage.locations import Neighbours, Root
from app.storage.ranges import FileRange, MergedRange, batches, merge_ranges, portions
from app.storage.readers import Readers
from app.storage.retry import Attempt, RetryPolicy

_CACHED_SECONDS: Final = 0.002
"""A batch of what the operating system has in memory takes less than this; from a disk, much more."""

Found = TypeVar("Found", bytes, int)


@dataclass(frozen=True, slots=True)
class _Ahead:
    """What is known of merged ranges before a thread looks at them, by the whole of each.

    Attributes:
        recalled: parts that the disk keeps, of those that were looked up there.
        attempts: what became of the first call for each of those that were asked for together.
    """

    recalled: Mapping[FileRange, Mapping[FileRange, bytes]]
    attempts: Mapping[FileRange, Attempt[bytes]]


_NOTHING: Final = _Ahead({}, {})


@dataclass(frozen=True, slots=True)
class RangeReader:
    """Reads ranges of a warehouse's files.

    Attributes:
        locate: the root of a path, and its path inside of that root's filesystem.
        retry: how failing calls are repeated.
        readers: read side by side.
        disk: keeps ranges of files that never change, if there is one.
        identity: what tells the warehouse from all others that share the disk.
        max_bytes: no range is longer.
        is_local: whether all files lie on this machine.
    """

    locate: Callable[[str], tuple[Root, str]]
    retry: RetryPolicy
    readers: Readers
    disk: DiskTier | None
    identity: str
    max_bytes: int
    is_local: bool

    def read(self, ranges: Sequence[FileRange], *, immutable: bool) -> list[bytes | PaimonIndexError]:
        """In the order of ``ranges`` their bytes, or why there are none.

        Args:
            ranges: each of any file.
            immutable: whether these files never change, so that the disk may keep the ranges.

        Raises:
            DeadlineExceededError: the request's time was used up, or its caller went away.
        """
        return self._read_all(ranges, b"", partial(self._contents, immutable=immutable), immutable=immutable)

    def read_into(
        self, ranges: Sequence[FileRange], buffer: memoryview, *, immutable: bool
    ) -> list[int | PaimonIndexError]:
        """As :meth:`read`, but the bytes go to a buffer, and it is said how many there are of each range.

        Args:
            ranges: each of any file.
            buffer: their lengths together; each range has the place that follows from those before it.
            immutable: as of :meth:`read`.

        Raises:
            DeadlineExceededError: the request's time was used up, or its caller went away.
        """
        targets: dict[FileRange, memoryview] = {}
        again: list[tuple[FileRange, memoryview]] = []
        at = 0
        for one in ranges:
            target = buffer[at : at + one.length] if one.length > 0 else buffer[:0]
            at += len(target)
            if targets.setdefault(one, target) is not target:
                again.append((one, target))
        fill = partial(self._fill, targets, immutable=immutable)
        counts = self._read_all(ranges, 0, fill, immutable=immutable)
        for one, target in again:
            target[:] = targets[one]
        return counts

    def _read_all(
        self,
        ranges: Sequence[FileRange],
        nothing: Found,
        read: Callable[[Neighbours, _Ahead, MergedRange], Mapping[FileRange, Found]],
        *,
        immutable: bool,
    ) -> list[Found | PaimonIndexError]:
        """What ``read`` finds of each range; ``nothing`` of empty ones."""
        answers: dict[FileRange, Found | PaimonIndexError] = {}
        missing = set()
        for one in ranges:
            if (why := self._refused(one)) is not None:
                answers[one] = why
            elif one.length:
                missing.add(one)
            else:
                answers[one] = nothing
        neighbours = Neighbours(self.locate)

        def read_batch(ahead: _Ahead, batch: Sequence[MergedRange]) -> None:
            for merged in batch:
                try:
                    answers.update(read(neighbours, ahead, merged))
                except DeadlineExceededError:
                    raise
                except PaimonIndexError as error:
                    answers.update(dict.fromkeys(merged.parts, error))

        merged = merge_ranges(missing)
        if self.is_local:
            self.readers.map(
                partial(read_batch, _NOTHING),
                batches(merged, is_local=True),
                size_of=_bytes_of,
                alone_seconds=_CACHED_SECONDS,
            )
        else:
            for portion in portions(merged, self.readers.bytes_in_flight):
                with self.readers.room(_bytes_of(portion)):
                    ahead = self._ask_together(neighbours, portion, immutable=immutable)
                    self.readers.map(
                        partial(read_batch, ahead),
                        batches(portion, is_local=False),
                        # What was read already needs no helpers.
                        alone_seconds=_CACHED_SECONDS if ahead.attempts else 0,
                    )
        return [answers[one] for one in ranges]

    def _ask_together(
        self, neighbours: Neighbours, portion: Sequence[MergedRange], *, immutable: bool
    ) -> _Ahead:
        """Asks object stores for ranges that the disk does not keep, all side by side, each once."""
        recalled: dict[FileRange, Mapping[FileRange, bytes]] = {}
        by_root: dict[int, tuple[Root, list[tuple[FileRange, str]]]] = {}
        for merged in portion:
            try:
                root, place = neighbours.locate(merged.whole.path)
            except PaimonIndexError:
                # Whoever reads it by itself says what is wrong.
                continue
            parts = recalled[merged.whole] = self._recall(merged.parts) if immutable else {}
            if len(parts) < len(merged.parts):
                by_root.setdefault(id(root), (root, []))[1].append((merged.whole, place))
        attempts: dict[FileRange, Attempt[bytes]] = {}
        for root, wanted in by_root.values():
            made = root.read_many(
                [(place, whole.offset, whole.end) for whole, place in wanted], self.readers.calls
            )
            attempts |= {
                whole: attempt
                for (whole, _), attempt in zip(wanted, made, strict=True)
                if attempt is not None
            }
        return _Ahead(recalled, attempts)

    def _contents(
        self, neighbours: Neighbours, ahead: _Ahead, merged: MergedRange, *, immutable: bool
    ) -> Mapping[FileRange, bytes]:
        """The parts of a merged range."""
        path, first, _ = merged.whole
        # What may not be read may not come from the disk tier either.
        root, place = neighbours.locate(path)
        recalled = ahead.recalled.get(merged.whole)
        if recalled is None:
            recalled = self._recall(merged.parts) if immutable else {}
        if len(recalled) == len(merged.parts):
            return recalled
        content = self.retry.call(
            path,
            lambda: root.read(place, first, merged.whole.end),
            kind=StorageOperation.READ_RANGE,
            first=ahead.attempts.get(merged.whole),
        )
        found = {part: content[part.offset - first : part.end - first] for part in merged.parts}
        if immutable:
            self._remember(found)
        return found

    def _fill(
        self,
        targets: Mapping[FileRange, memoryview],
        neighbours: Neighbours,
        ahead: _Ahead,
        merged: MergedRange,
        *,
        immutable: bool,
    ) -> Mapping[FileRange, int]:
        """How many bytes of each part of a merged range are in its target now."""
        if len(merged.parts) == 1 and (self.disk is None or not immutable):
            (part,) = merged.parts
            path, start, _ = part
            count = self.retry.call(
                path,
                lambda: neighbours.read_into(path, targets[part], start),
                kind=StorageOperation.READ_RANGE,
            )
            if count is not None:
                return {part: count}
        found = self._contents(neighbours, ahead, merged, immutable=immutable)
        for part, content in found.items():
            targets[part][: len(content)] = content
        return {part: len(content) for part, content in found.items()}

    def _recall(self, parts: Sequence[FileRange]) -> Mapping[FileRange, bytes]:
        if self.disk is None:
            return {}
        found = {part: self.disk.get(self._piece(part)) for part in parts}
        return {part: content for part, content in found.items() if content is not None}

    def _remember(self, found: Mapping[FileRange, bytes]) -> None:
        if self.disk is None:
            return
        for part, content in found.items():
            # Less than was asked for is all there is of an object, and of a local file all there is so far.
            if len(content) == part.length or not self.is_local:
                self.disk.put(self._piece(part), content)

    def _piece(self, part: FileRange) -> Piece:
        return Piece(self.identity, part.path, None, part.offset, part.length)

    def _refused(self, wanted: FileRange) -> PaimonIndexError | None:
        path, offset, length = wanted
        if offset < 0 or length < 0:
            return StorageError(f"bytes {offset} to {wanted.end} of {path} are no range", path=path)
        return too_large(path, length, self.max_bytes)


def _bytes_of(batch: Sequence[MergedRange]) -> int:
    return sum(merged.whole.length for merged in batch)


def too_large(path: str, size: int, max_bytes: int) -> LimitExceededError | None:
    """Why so much of a file may not be read, if it may not."""
    if size <= max_bytes:
        return None
    return LimitExceededError(
        f"{path} is larger than the {max_bytes} bytes that may be read of one file", limit=max_bytes
    )
