"""Reads many ranges of files in parallel, joining close ranges of one file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from app.errors import (
    DeadlineExceededError,
    LimitExceededError,
    PaimonIndexError,
    PathNotAllowedError,
    StorageError,
)
from app.observation import StorageOperation
from app.storage.locations import Roots
from app.storage.readers import Readers
from app.storage.retry import RetryPolicy
from app.storage.stores import Attempt, Store
from app.work import LEDGER

# Reading such a gap costs less than another request, from a disk as from an object store.
_WIDEST_GAP_BYTES = 8 << 10
_LONGEST_MERGED_BYTES = 8 << 20

# A small local file takes less time to read than a handover between threads.
_LOCAL_FILES_AT_ONCE = 16
_LOCAL_BYTES_AT_ONCE = 1 << 20

# As many ranges of 64 KiB as are in flight at once.
_BYTES_TOGETHER = 16 << 20
_MOST_TOGETHER = 1024


class FileRange(NamedTuple):
    """``length`` bytes of the file at ``path``, from ``offset`` on."""

    path: str
    offset: int
    length: int

    @property
    def end(self) -> int:
        """Offset of the first byte after it."""
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class MergedRange:
    """One range read for several requested ones. Its parts are sorted by offset."""

    whole: FileRange
    parts: Sequence[FileRange]


_Places = dict[str, tuple[Store, str]]


@dataclass(frozen=True, slots=True)
class RangeReader:
    """Reads ranges of a warehouse's files."""

    roots: Roots
    retry: RetryPolicy
    readers: Readers
    max_bytes: int

    def read(self, ranges: Sequence[FileRange]) -> list[bytes | PaimonIndexError]:
        """Return bytes or an error for each of ``ranges``, in order."""
        answers: dict[FileRange, bytes | PaimonIndexError] = {}
        places: _Places = {}
        missing: list[FileRange] = []
        for file_range in dict.fromkeys(ranges):
            if (refusal := self._refusal(file_range, places)) is not None:
                answers[file_range] = refusal
            elif not file_range.length:
                answers[file_range] = b""
            else:
                missing.append(file_range)
        answers |= self._read(places, missing)
        return [answers[file_range] for file_range in ranges]

    def _read(
        self, places: _Places, ranges: Iterable[FileRange]
    ) -> dict[FileRange, bytes | PaimonIndexError]:
        answers: dict[FileRange, bytes | PaimonIndexError] = {}

        def read_batch(attempts: Mapping[FileRange, Attempt[bytes]], batch: Sequence[MergedRange]) -> None:
            for merged in batch:
                try:
                    answers.update(self._contents(places, merged, attempts.get(merged.whole)))
                except DeadlineExceededError:
                    raise
                except PaimonIndexError as error:
                    answers.update(dict.fromkeys(merged.parts, error))

        def read_in_room(batch: Sequence[MergedRange], read: Callable[[], object]) -> None:
            size = sum(merged.whole.length for merged in batch)
            try:
                with self.readers.room(size, batch[0].whole.path):
                    read()
            except LimitExceededError as error:
                # The error concerns these ranges alone: the caller decides what it means for their file.
                answers.update((part, error) for merged in batch for part in merged.parts)

        def read_together(group: Sequence[MergedRange]) -> None:
            attempts = self._attempt_batch(places, group)
            answered = {merged.whole for merged in group if _is_read(attempts.get(merged.whole))}
            # Ranges that were read need no helpers; only retries do.
            read_batch(attempts, [merged for merged in group if merged.whole in answered])
            failed = ([merged] for merged in group if merged.whole not in answered)
            self.readers.map(partial(read_batch, attempts), failed)

        merged = merge_ranges(ranges)
        if self.roots.are_local:
            self.readers.map(
                lambda batch: read_in_room(batch, partial(read_batch, {}, batch)),
                portions(merged, _LOCAL_FILES_AT_ONCE, _LOCAL_BYTES_AT_ONCE),
                may_be_quick=True,
            )
            return answers
        for group in portions(merged, _MOST_TOGETHER, min(LEDGER.portion, _BYTES_TOGETHER)):
            read_in_room(group, partial(read_together, group))
        return answers

    def _attempt_batch(
        self, places: _Places, batch: Iterable[MergedRange]
    ) -> Mapping[FileRange, Attempt[bytes]]:
        """Ask each store for all of its ranges in one batch, once. Return attempts by range."""
        by_store: dict[Store, list[tuple[FileRange, str]]] = defaultdict(list)
        for merged in batch:
            store, place = places[merged.whole.path]
            by_store[store].append((merged.whole, place))
        attempts: dict[FileRange, Attempt[bytes]] = {}
        for store, requested in by_store.items():
            results = store.read_many(
                [(place, whole.offset, whole.end) for whole, place in requested], self.readers.calls
            )
            if results is not None:
                attempts |= zip((whole for whole, _ in requested), results, strict=True)
        return attempts

    def _contents(
        self, places: _Places, merged: MergedRange, first: Attempt[bytes] | None
    ) -> Mapping[FileRange, bytes]:
        """Read a merged range, starting from its first attempt, and cut it into parts."""
        path, start, _ = merged.whole
        store, place = places[path]
        content = self.retry.call(
            path,
            lambda: store.read(place, start, merged.whole.end),
            kind=StorageOperation.READ_RANGE,
            first=first,
        )
        return {part: content[part.offset - start : part.end - start] for part in merged.parts}

    def _refusal(self, file_range: FileRange, places: _Places) -> PaimonIndexError | None:
        """Return the error of a range that may not be read. Otherwise enter its file into ``places``."""
        path, offset, length = file_range
        if offset < 0 or length < 0:
            return StorageError(f"bytes {offset} to {file_range.end} of {path} are not a range", path=path)
        if path not in places:
            try:
                places[path] = self.roots.locate(path)
            except PathNotAllowedError as error:
                return error
        return too_large(path, length, self.max_bytes)


def too_large(path: str, size: int, max_bytes: int) -> LimitExceededError | None:
    """Return an error if reading ``size`` bytes of a file exceeds the limit."""
    if size <= max_bytes:
        return None
    return LimitExceededError(
        f"{path} is larger than the {max_bytes} bytes that may be read of one file", limit=max_bytes
    )


def _is_read(attempt: Attempt[bytes] | None) -> bool:
    return attempt is not None and attempt.error is None


def merge_ranges(ranges: Iterable[FileRange]) -> list[MergedRange]:
    """Join ranges of one file that overlap or are close together, up to some length."""
    wholes: list[FileRange] = []
    parts: list[list[FileRange]] = []
    for file_range in sorted(ranges):
        joined = _join(wholes[-1], file_range) if wholes else None
        if joined is None:
            wholes.append(file_range)
            parts.append([file_range])
        else:
            wholes[-1] = joined
            parts[-1].append(file_range)
    return [MergedRange(*merged) for merged in zip(wholes, parts, strict=True)]


def portions(ranges: Iterable[MergedRange], most: int, most_bytes: int) -> Iterator[list[MergedRange]]:
    """Cut ranges into batches of at most ``most`` ranges and ``most_bytes``, or of one longer range."""
    batch: list[MergedRange] = []
    size = 0
    for merged in ranges:
        if batch and (len(batch) == most or size + merged.whole.length > most_bytes):
            yield batch
            batch, size = [], 0
        batch.append(merged)
        size += merged.whole.length
    if batch:
        yield batch


def _join(before: FileRange, after: FileRange) -> FileRange | None:
    """Join two ranges, the second of which begins no earlier.

    Return None if they are too far apart or too long.
    """
    if after.path != before.path or after.offset > before.end + _WIDEST_GAP_BYTES:
        return None
    length = max(before.end, after.end) - before.offset
    fits = length <= max(_LONGEST_MERGED_BYTES, before.length)
    return FileRange(before.path, before.offset, length) if fits else None
