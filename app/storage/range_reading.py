"""Many ranges of files at once, read side by side; those of one file that lie close together in one go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

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

_CACHED_SECONDS: Final = 0.002
"""A batch of what the operating system has in memory takes less than this; from a disk, much more."""

# Reading this much for nothing costs less than another request, from a disk as from an object store.
_WIDEST_GAP_BYTES = 8 << 10
_LONGEST_MERGED_BYTES = 8 << 20

# A small file of this machine takes less time to read than threads take to hand over to each other.
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


_Places = dict[str, tuple[Store, str]]


@dataclass(frozen=True, slots=True)
class RangeReader:
    """Reads ranges of a warehouse's files."""

    roots: Roots
    retry: RetryPolicy
    readers: Readers
    max_bytes: int

    def read(self, ranges: Sequence[FileRange]) -> list[bytes | PaimonIndexError]:
        """In the order of ``ranges`` their bytes, or why there are none."""
        answers: dict[FileRange, bytes | PaimonIndexError] = {}
        places: _Places = {}
        missing: list[FileRange] = []
        for one in dict.fromkeys(ranges):
            if (why := self._refused(one, places)) is not None:
                answers[one] = why
            elif not one.length:
                answers[one] = b""
            else:
                missing.append(one)
        answers |= self._read(places, missing)
        return [answers[one] for one in ranges]

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
                # There can never be room for it; whoever asked knows what that means for a file.
                answers.update((part, error) for merged in batch for part in merged.parts)

        def read_together(portion: Sequence[MergedRange]) -> None:
            attempts = self._ask_together(places, portion)
            made = {merged.whole for merged in portion if _is_read(attempts.get(merged.whole))}
            # What was read already needs no helpers.
            read_batch(attempts, [merged for merged in portion if merged.whole in made])
            others = ([merged] for merged in portion if merged.whole not in made)
            self.readers.map(partial(read_batch, attempts), others)

        merged = merge_ranges(ranges)
        if self.roots.are_local:
            self.readers.map(
                lambda batch: read_in_room(batch, partial(read_batch, {}, batch)),
                portions(merged, _LOCAL_FILES_AT_ONCE, _LOCAL_BYTES_AT_ONCE),
                alone_seconds=_CACHED_SECONDS,
            )
            return answers
        for portion in portions(merged, _MOST_TOGETHER, min(LEDGER.portion, _BYTES_TOGETHER)):
            read_in_room(portion, partial(read_together, portion))
        return answers

    def _ask_together(
        self, places: _Places, portion: Iterable[MergedRange]
    ) -> Mapping[FileRange, Attempt[bytes]]:
        """Asks stores for ranges, all side by side, each once; what became of that, by range."""
        by_store: dict[Store, list[tuple[FileRange, str]]] = defaultdict(list)
        for merged in portion:
            store, place = places[merged.whole.path]
            by_store[store].append((merged.whole, place))
        attempts: dict[FileRange, Attempt[bytes]] = {}
        for store, wanted in by_store.items():
            made = store.read_many(
                [(place, whole.offset, whole.end) for whole, place in wanted], self.readers.calls
            )
            if made is not None:
                attempts |= zip((whole for whole, _ in wanted), made, strict=True)
        return attempts

    def _contents(
        self, places: _Places, merged: MergedRange, first: Attempt[bytes] | None
    ) -> Mapping[FileRange, bytes]:
        """The parts of a merged range, of which a first attempt may have been made."""
        path, start, _ = merged.whole
        store, place = places[path]
        content = self.retry.call(
            path,
            lambda: store.read(place, start, merged.whole.end),
            kind=StorageOperation.READ_RANGE,
            first=first,
        )
        return {part: content[part.offset - start : part.end - start] for part in merged.parts}

    def _refused(self, wanted: FileRange, places: _Places) -> PaimonIndexError | None:
        """Why a range may not be read, if so; otherwise ``places`` has where its file lies."""
        path, offset, length = wanted
        if offset < 0 or length < 0:
            return StorageError(f"bytes {offset} to {wanted.end} of {path} are no range", path=path)
        if path not in places:
            try:
                places[path] = self.roots.locate(path)
            except PathNotAllowedError as error:
                return error
        return too_large(path, length, self.max_bytes)


def too_large(path: str, size: int, max_bytes: int) -> LimitExceededError | None:
    """Why so much of a file may not be read, if it may not."""
    if size <= max_bytes:
        return None
    return LimitExceededError(
        f"{path} is larger than the {max_bytes} bytes that may be read of one file", limit=max_bytes
    )


def _is_read(attempt: Attempt[bytes] | None) -> bool:
    return attempt is not None and attempt.error is None


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


def portions(ranges: Iterable[MergedRange], most: int, most_bytes: int) -> Iterator[list[MergedRange]]:
    """Cuts ranges into lists of at most so many and so many bytes, or of one longer range."""
    portion: list[MergedRange] = []
    size = 0
    for each in ranges:
        if portion and (len(portion) == most or size + each.whole.length > most_bytes):
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
