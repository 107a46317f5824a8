"""Where bitmap indexes of many files hold their rows: what of a stack the selection of rows reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from app.types.bytes_column import BytesColumn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from app.file_index.bitmap.stack import BitmapStack
    from app.file_index.keys.keys import Key, KeySpace
    from app.file_index.shared.directory import Directory


@dataclass(frozen=True, slots=True, eq=False)
class StoredRows:
    """Indexes of k files, all of which can be read.

    Attributes:
        payloads: the indexes.
        bodies: int64, shape (k,): where the bitmaps of each file start in the buffer of ``payloads``.
        versions: int64, shape (k,).
        with_nulls: bool, shape (k,): which files have null rows.
        row_counts: int64, shape (k,): rows of each file.
        texts: finds keys that are byte strings.
        space: how values become keys.
    """

    payloads: BytesColumn
    bodies: NDArray[np.int64]
    versions: NDArray[np.int64]
    with_nulls: NDArray[np.bool_]
    row_counts: NDArray[np.int64]
    texts: tuple[StoredTexts, ...]
    space: KeySpace

    @classmethod
    def of(cls, stack: BitmapStack, files: NDArray[np.int64]) -> Self:
        """Those of some files of a stack; the bytes stay where they are."""
        return cls(
            stack.payloads.take(files),
            stack.bodies.take(files),
            stack.versions.take(files),
            stack.with_nulls.take(files),
            stack.row_counts.take(files),
            (StoredTexts.of(stack, files),),
            stack.space,
        )

    @classmethod
    def of_parts(cls, parts: Sequence[tuple[BitmapStack, NDArray[np.int64]]]) -> Self:
        """Those of some files of several stacks (at least one); the bytes of several are copied."""
        taken = [cls.of(stack, files) for stack, files in parts]
        if len(taken) == 1:
            return taken[0]
        payloads = BytesColumn.gathered([each.payloads for each in taken])
        moved = payloads.starts - np.concatenate([each.payloads.starts for each in taken])
        ends = np.cumsum([len(each) for each in taken]).tolist()
        return cls(
            payloads,
            np.concatenate([each.bodies for each in taken]) + moved,
            np.concatenate([each.versions for each in taken]),
            np.concatenate([each.with_nulls for each in taken]),
            np.concatenate([each.row_counts for each in taken]),
            tuple(
                texts.behind(end - len(each), moved[end - len(each) : end])
                for each, end in zip(taken, ends, strict=True)
                for texts in each.texts
            ),
            taken[0].space,
        )

    def __len__(self) -> int:
        return len(self.bodies)


@dataclass(frozen=True, slots=True, eq=False)
class StoredTexts:
    """Keys that are byte strings, of a stack that k of the files are in.

    Attributes:
        directory: of the stack.
        asked: int64, shape (m,): for each file of the stack its number among those that are asked; -1 if it
            is none of them.
        first: number of the first of the k files.
        moved: int64, shape (k,): how many bytes further on the index of each of them lies now.
    """

    directory: Directory
    asked: NDArray[np.int64]
    first: int
    moved: NDArray[np.int64]

    @classmethod
    def of(cls, stack: BitmapStack, files: NDArray[np.int64]) -> Self:
        """The keys of some files of a stack."""
        asked = np.full(len(stack.row_counts), -1)
        asked[files] = np.arange(len(files))
        return cls(stack.directory, asked, 0, np.zeros(len(files), np.int64))

    def behind(self, first: int, moved: NDArray[np.int64]) -> StoredTexts:
        """The same with ``first`` other files before them, and each index elsewhere."""
        return StoredTexts(self.directory, self.asked, first, moved)

    def between(self, start: Key | None, stop: Key | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where keys from ``start`` up to, but without, ``stop`` are stored.

        Returns:
            The number of the file of each key, and the place of its stored form in the buffer.
        """
        files, places = self.directory.stored_between(start, stop)
        owners = self.asked[files]
        is_asked = owners >= 0
        owners = owners[is_asked]
        return owners + self.first, places[is_asked].astype(np.int64) + self.moved[owners]
