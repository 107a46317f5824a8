"""Parts of files, and which of them are worth reading in one go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
    """One range that is read for several that were asked for.

    Attributes:
        whole: what is read.
        parts: the ranges that were asked for, by their offsets.
    """

    whole: FileRange
    parts: Sequence[FileRange]


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
    """What is asked of an object store in one go, all side by side.

    Args:
        ranges: what is to be read.
        most_bytes: that may be under way; a longer range is a portion of its own.
    """
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
