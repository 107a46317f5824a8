"""Parts of files, and which of them are worth reading in one go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# Reading this much for nothing costs less than another request, from a disk as from an object store.
_WIDEST_GAP_BYTES = 8 << 10
_LONGEST_MERGED_BYTES = 8 << 20


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


def _join(before: FileRange, after: FileRange) -> FileRange | None:
    """Both as one range, if it is worth it; ``after`` does not begin before the other."""
    if after.path != before.path or after.offset > before.end + _WIDEST_GAP_BYTES:
        return None
    length = max(before.end, after.end) - before.offset
    fits = length <= max(_LONGEST_MERGED_BYTES, before.length)
    return FileRange(before.path, before.offset, length) if fits else None
