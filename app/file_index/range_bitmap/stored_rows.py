"""Where range-bitmaps of many files hold their rows: what of a stack the selection of rows reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from app.file_index.payloads.cursors import integers, runs_of
from app.file_index.range_bitmap.bit_slice_index import ENTRY
from app.file_index.range_bitmap.ordered_keys import OrderedKeys
from app.types.bytes_column import BytesColumn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from app.file_index.keys.keys import KeySpace
    from app.file_index.range_bitmap.stack import RangeBitmapStack

_NO_LENGTH = -2
_NOWHERE = -1


@dataclass(frozen=True, slots=True, eq=False)
class StoredRows:
    """Indexes of k files, all of which can be read.

    Attributes:
        payloads: the indexes.
        existing: the bitmap of the rows that have a value, of each file, in the buffer of ``payloads``.
        slices: int64, shape (k,): how many bit slices each file has; their table ends where ``existing``
            starts.
        row_counts: int64, shape (k,): rows of each file.
        ordered: the keys of each file; None if they have to be read from ``payloads``.
        space: how values become keys.
    """

    payloads: BytesColumn
    existing: BytesColumn
    slices: NDArray[np.int64]
    row_counts: NDArray[np.int64]
    ordered: OrderedKeys | None
    space: KeySpace

    @classmethod
    def of(cls, stack: RangeBitmapStack, files: NDArray[np.int64]) -> Self:
        """Those of some files of a stack; the bytes stay where they are."""
        ordered = stack.dictionary.ordered
        return cls(
            stack.payloads.take(files),
            stack.existing.take(files),
            stack.slices.take(files),
            stack.row_counts.take(files),
            None if ordered is None else ordered.take(files),
            stack.space,
        )

    @classmethod
    def of_parts(cls, parts: Sequence[tuple[RangeBitmapStack, NDArray[np.int64]]]) -> Self:
        """Those of some files of several stacks (at least one); the bytes of several are copied."""
        taken = [cls.of(stack, files) for stack, files in parts]
        if len(taken) == 1:
            return taken[0]
        payloads = BytesColumn.gathered([each.payloads for each in taken])
        moved = payloads.starts - np.concatenate([each.payloads.starts for each in taken])
        ordered = [each.ordered for each in taken if each.ordered is not None]
        return cls(
            payloads,
            BytesColumn(
                payloads.data,
                np.concatenate([each.existing.starts for each in taken]) + moved,
                np.concatenate([each.existing.lengths for each in taken]),
            ),
            np.concatenate([each.slices for each in taken]),
            np.concatenate([each.row_counts for each in taken]),
            OrderedKeys.concat(ordered) if len(ordered) == len(taken) else None,
            taken[0].space,
        )

    def __len__(self) -> int:
        return len(self.slices)

    def take(self, files: NDArray[np.int64]) -> Self:
        """Those of some of the files, without their keys."""
        return type(self)(
            self.payloads.take(files),
            self.existing.take(files),
            self.slices.take(files),
            self.row_counts.take(files),
            None,
            self.space,
        )


@dataclass(frozen=True, slots=True, eq=False)
class StoredParts:
    """Where the bitmaps of k files lie: first the rows of each that have a value, then all slices.

    Attributes:
        starts: int64, shape (n,): where each starts; anything may stand there.
        lengths: int64, shape (n,): its bytes.
        limits: int64, shape (n,): where the index that it is a part of ends.
        row_counts: int64, shape (n,): rows of its file.
        owners: int64, shape (n,): its file.
        firsts: int64, shape (k,): the first slice of each file.
    """

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    limits: NDArray[np.int64]
    row_counts: NDArray[np.int64]
    owners: NDArray[np.int64]
    firsts: NDArray[np.int64]

    @classmethod
    def read(cls, stored: StoredRows, slices: NDArray[np.int64]) -> Self:
        """Reads the tables of slices.

        Args:
            stored: the indexes of the k files.
            slices: shape (k,): how many slices are asked for, all of a file's or none.
        """
        existing, payloads, data = stored.existing, stored.payloads, stored.payloads.data
        bodies, ends = existing.starts + existing.lengths, payloads.starts + payloads.lengths
        of_slice, places = runs_of(existing.starts - slices * ENTRY.size, slices, ENTRY.size)
        starts = bodies.take(of_slice) + integers(data, places, ">i4")
        # In front of an index lies that of another file.
        starts[starts < payloads.starts.take(of_slice)] = _NOWHERE
        lengths = integers(data, places + ENTRY.size // 2, ">i4")
        # Slices never overlap: with more bytes than there are, none of the file is read here.
        too_many = np.bincount(of_slice, np.maximum(lengths, 0), len(stored)) > ends - bodies
        lengths[too_many.take(of_slice)] = _NO_LENGTH
        owners = np.concatenate([np.arange(len(stored)), of_slice])
        return cls(
            np.concatenate([existing.starts, starts]),
            np.concatenate([existing.lengths, lengths]),
            ends.take(owners),
            stored.row_counts.take(owners),
            owners,
            len(stored) + np.cumsum(slices) - slices,
        )
