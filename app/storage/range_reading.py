"""Many ranges of files at once, read side by side; those of one file that lie close together in one go."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Final

from app.errors import DeadlineExceededError, LimitExceededError, PaimonIndexError, StorageError
from app.observation import StorageOperation
from app.storage.deadline import check_deadline, wait_for
from app.storage.disk_entry import Piece
from app.storage.disk_tier import DiskTier
from app.storage.locations import Neighbours, Root
from app.storage.ranges import FileRange, MergedRange, batches, merge_ranges, portions
from app.storage.readers import Readers
from app.storage.retry import Attempt, RetryPolicy

_CACHED_SECONDS: Final = 0.002
"""A batch of what the operating system has in memory takes less than this; from a disk, much more."""

_RANGES_AHEAD: Final = 512
"""Ranges that are read in one go, ahead of the one that is looked at."""

_PORTIONS_AHEAD: Final = 2

_Portion = tuple[FileRange, ...]
_Found = list[bytes | PaimonIndexError]


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
    _under_way: dict[_Portion, Future[_Found]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, ranges: Sequence[FileRange], *, immutable: bool) -> list[bytes | PaimonIndexError]:
        """In the order of ``ranges`` their bytes, or why there are none.

        Args:
            ranges: each of any file.
            immutable: whether these files never change, so that the disk may keep the ranges.

        Raises:
            DeadlineExceededError: the request's time was used up, or its caller went away.
        """
        answers: dict[FileRange, bytes | PaimonIndexError] = {}
        missing = set()
        for one in ranges:
            if (why := self._refused(one)) is not None:
                answers[one] = why
            elif one.length:
                missing.add(one)
            else:
                answers[one] = b""
        neighbours = Neighbours(self.locate)

        def read_batch(ahead: _Ahead, batch: Sequence[MergedRange]) -> None:
            for merged in batch:
                try:
                    answers.update(self._contents(neighbours, ahead, merged, immutable=immutable))
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

    def read_ahead(self, ranges: Iterable[FileRange]) -> Iterator[bytes | PaimonIndexError]:
        """As :meth:`read`, in order: the next ones are read while those before are looked at.

        Ranges that several requests read alike at the same time are read once.

        Args:
            ranges: taken as they are needed.

        Raises:
            DeadlineExceededError: the request's time was used up, or its caller went away.
        """
        waiting = iter(ranges)
        under_way: deque[tuple[_Portion, Future[_Found]]] = deque()
        while True:
            while len(under_way) < _PORTIONS_AHEAD and (portion := tuple(islice(waiting, _RANGES_AHEAD))):
                under_way.append((portion, self._begin(portion)))
            if not under_way:
                return
            portion, reading = under_way.popleft()
            try:
                found = wait_for(reading)
            except DeadlineExceededError:
                # Another request began this, whose time was up.
                check_deadline()
                found = self.read(portion, immutable=False)
            yield from found

    def _begin(self, portion: _Portion) -> Future[_Found]:
        """Has a thread read a portion, unless one does."""
        with self._lock:
            reading = self._under_way.get(portion)
            if reading is None:
                reading = self.readers.begin(partial(self.read, portion, immutable=False))
                self._under_way[portion] = reading
                reading.add_done_callback(lambda _: self._under_way.pop(portion, None))
            return reading

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
        if immutable and self.disk is not None:
            recalled = ahead.recalled.get(merged.whole)
            if recalled is None:
                # What may not be read may not come from the disk tier either.
                neighbours.locate(path)
                recalled = self._recall(merged.parts)
            if len(recalled) == len(merged.parts):
                return recalled
        content = self.retry.call(
            path,
            lambda: neighbours.read(path, first, merged.whole.end),
            kind=StorageOperation.READ_RANGE,
            first=ahead.attempts.get(merged.whole),
        )
        found = {part: content[part.offset - first : part.end - first] for part in merged.parts}
        if immutable:
            self._remember(found)
        return found

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
