"""Many ranges of files at once, read side by side; those of one file that lie close together in one go."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from app.errors import DeadlineExceededError, LimitExceededError, PaimonIndexError, StorageError
from app.observation import StorageOperation
from app.storage.disk_entry import Piece
from app.storage.disk_tier import DiskTier
from app.storage.locations import Neighbours, Root
from app.storage.readers import Readers
from app.storage.retry import Attempt, RetryPolicy
from app.work.deadline import check_deadline, wait_for
from app.work.ledger import LEDGER, Claim

_CACHED_SECONDS: Final = 0.002
"""A batch of what the operating system has in memory takes less than this; from a disk, much more."""

_RANGES_AHEAD: Final = 512
"""Ranges that are read in one go, ahead of the one that is looked at."""

_PORTIONS_AHEAD: Final = 2

# Reading this much for nothing costs less than another request, from a disk as from an object store.
_WIDEST_GAP_BYTES = 8 << 10
_LONGEST_MERGED_BYTES = 8 << 20

_LOCAL_FILES_AT_ONCE = 16
_LOCAL_BYTES_AT_ONCE = 1 << 20

# Of 64 KiB each, as many as are under way at the same time.
_BYTES_TOGETHER = 16 << 20
_MOST_TOGETHER = 1024


class FileRange(NamedTuple):
    """``length`` bytes of the file at ``path``, from ``offset`` on."""

    path: str
    offset: int
    length: int

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class MergedRange:
    """One range that is read for several that were asked for; its parts are by their offsets."""

    whole: FileRange
    parts: Sequence[FileRange]


_Portion = tuple[FileRange, ...]
_Found = list[bytes | PaimonIndexError]


@dataclass(frozen=True, slots=True)
class RangeReader:
    """Reads ranges of a warehouse's files.

    The disk, if there is one, keeps ranges of files that never change, apart from those of other warehouses
    by ``identity``.
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
        """In the order of ``ranges`` their bytes, or why there are none; the disk may keep immutable ones."""
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
        if self.disk is None or not immutable:
            answers |= self._read(neighbours, missing)
        else:
            recalled = self._recall(self.disk, neighbours, missing)
            found = self._read(neighbours, missing - recalled.keys())
            self._remember(self.disk, found)
            answers |= recalled | found
        return [answers[one] for one in ranges]

    def _read(
        self, neighbours: Neighbours, ranges: Iterable[FileRange]
    ) -> dict[FileRange, bytes | PaimonIndexError]:
        answers: dict[FileRange, bytes | PaimonIndexError] = {}

        def read_batch(attempts: Mapping[FileRange, Attempt[bytes]], batch: Sequence[MergedRange]) -> None:
            for merged in batch:
                try:
                    answers.update(self._contents(neighbours, merged, attempts.get(merged.whole)))
                except DeadlineExceededError:
                    raise
                except PaimonIndexError as error:
                    answers.update(dict.fromkeys(merged.parts, error))

        def read_alone(batch: Sequence[MergedRange]) -> None:
            with self._room(batch):
                read_batch({}, batch)

        merged = merge_ranges(ranges)
        if self.is_local:
            self.readers.map(read_alone, batches(merged, is_local=True), alone_seconds=_CACHED_SECONDS)
        else:
            for portion in portions(merged, LEDGER.portion):
                with self._room(portion):
                    attempts = self._ask_together(neighbours, portion)
                    self.readers.map(
                        partial(read_batch, attempts),
                        batches(portion, is_local=False),
                        # What was read already needs no helpers.
                        alone_seconds=_CACHED_SECONDS if attempts else 0,
                    )
        return answers

    def read_ahead(self, ranges: Iterable[FileRange]) -> Iterator[bytes | PaimonIndexError]:
        """As :meth:`read`, in order: the next ones are read while those before are looked at.

        Ranges that several requests read alike at the same time are read once.
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
        with self._lock:
            reading = self._under_way.get(portion)
            if reading is None:
                reading = self.readers.begin(partial(self.read, portion, immutable=False))
                self._under_way[portion] = reading
                reading.add_done_callback(lambda _: self._under_way.pop(portion, None))
            return reading

    def _room(self, batch: Sequence[MergedRange]) -> AbstractContextManager[Claim]:
        return self.readers.room(sum(merged.whole.length for merged in batch), batch[0].whole.path)

    def _ask_together(
        self, neighbours: Neighbours, portion: Sequence[MergedRange]
    ) -> Mapping[FileRange, Attempt[bytes]]:
        """Asks object stores for ranges, all side by side, each once; what became of that, by range."""
        by_root: dict[int, tuple[Root, list[tuple[FileRange, str]]]] = {}
        for merged in portion:
            try:
                root, place = neighbours.locate(merged.whole.path)
            except PaimonIndexError:
                # Whoever reads it by itself says what is wrong.
                continue
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
        return attempts

    def _contents(
        self, neighbours: Neighbours, merged: MergedRange, first: Attempt[bytes] | None
    ) -> Mapping[FileRange, bytes]:
        """The parts of a merged range, of which a first attempt may have been made."""
        path, start, _ = merged.whole
        content = self.retry.call(
            path,
            lambda: neighbours.read(path, start, merged.whole.end),
            kind=StorageOperation.READ_RANGE,
            first=first,
        )
        return {part: content[part.offset - start : part.end - start] for part in merged.parts}

    def _recall(
        self, disk: DiskTier, neighbours: Neighbours, ranges: Iterable[FileRange]
    ) -> dict[FileRange, bytes]:
        found: dict[FileRange, bytes] = {}
        for one in ranges:
            # What may not be read may not come from the disk tier either.
            with suppress(PaimonIndexError):
                neighbours.locate(one.path)
                if (content := disk.get(self._piece(one))) is not None:
                    found[one] = content
        return found

    def _remember(self, disk: DiskTier, found: Mapping[FileRange, bytes | PaimonIndexError]) -> None:
        for part, content in found.items():
            # Less than was asked for is all there is of an object, and of a local file all there is so far.
            if isinstance(content, bytes) and (len(content) == part.length or not self.is_local):
                disk.put(self._piece(part), content)

    def _piece(self, part: FileRange) -> Piece:
        return Piece(self.identity, part.path, None, part.offset, part.length)

    def _refused(self, wanted: FileRange) -> PaimonIndexError | None:
        path, offset, length = wanted
        if offset < 0 or length < 0:
            return StorageError(f"bytes {offset} to {wanted.end} of {path} are no range", path=path)
        return too_large(path, length, self.max_bytes)


def too_large(path: str, size: int, max_bytes: int) -> LimitExceededError | None:
    """Why so much of a file may not be read, if it may not."""
    if size <= max_bytes:
        return None
    return LimitExceededError(
        f"{path} is larger than the {max_bytes} bytes that may be read of one file", limit=max_bytes
    )


def merge_ranges(ranges: Iterable[FileRange]) -> list[MergedRange]:
    """Joins ranges of one file that overlap or lie close together, up to some length."""
    wholes: list[FileRange] = []
    parts: list[list[FileRange]] = []
    for wanted in sorted(ranges):
        joined = _join(wholes[-1], wanted) if wholes else None
        if joined is None:
            wholes.append(wanted)
            parts.append([wanted])
        else:
            wholes[-1] = joined
            parts[-1].append(wanted)
    return [MergedRange(*found) for found in zip(wholes, parts, strict=True)]


def batches(ranges: Iterable[MergedRange], *, is_local: bool) -> Iterator[list[MergedRange]]:
    """What one thread reads before it looks for more to do.

    A small file of this machine takes less time to read than threads take to hand over to each other; one
    of an object store is asked for by itself, so that many are at the same time.
    """
    batch: list[MergedRange] = []
    size = 0
    for each in ranges:
        batch.append(each)
        size += each.whole.length
        if not is_local or len(batch) == _LOCAL_FILES_AT_ONCE or size >= _LOCAL_BYTES_AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def portions(ranges: Iterable[MergedRange], most_bytes: int) -> Iterator[list[MergedRange]]:
    """What is asked of an object store in one go, side by side: ``most_bytes``, or one longer range."""
    portion: list[MergedRange] = []
    size, most_bytes = 0, min(most_bytes, _BYTES_TOGETHER)
    for each in ranges:
        if portion and (len(portion) == _MOST_TOGETHER or size + each.whole.length > most_bytes):
            yield portion
            portion, size = [], 0
        portion.append(each)
        size += each.whole.length
    if portion:
        yield portion


def _join(before: FileRange, after: FileRange) -> FileRange | None:
    """Both as one range, if it is worth it; ``after`` does not begin before the other."""
    if after.path != before.path or after.offset > before.end + _WIDEST_GAP_BYTES:
        return None
    length = max(before.end, after.end) - before.offset
    fits = length <= max(_LONGEST_MERGED_BYTES, before.length)
    return FileRange(before.path, before.offset, length) if fits else None
