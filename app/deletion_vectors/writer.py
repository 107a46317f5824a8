"""Writes files of deletion vectors; their layout stands in :mod:`app.deletion_vectors.file`.

The engine writes all vectors of a bucket into one file, even if there are none; elsewhere it begins another
file whenever the last one has become larger than a target, so that each file exceeds the target by less than
its last vector.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

from pyroaring import BitMap64

from app.deletion_vectors import vector32, vector64
from app.deletion_vectors.file import RECORD_MARGIN_BYTES, VERSION, write_record
from app.deletion_vectors.positions import Rows, positions_of
from app.errors import RequestError
from app.types.index_files import DELETION_VECTORS, DeletionRange, IndexFileMeta


@dataclass(frozen=True, slots=True)
class EncodedVector:
    """The vector of one data file, ready to be written.

    Attributes:
        data_file: the data file's name.
        data: a whole vector, magic included, without size and checksum.
        cardinality: deleted rows.
    """

    data_file: str
    data: bytes
    cardinality: int

    @classmethod
    def encode(cls, data_file: str, rows: Rows, *, is64: bool) -> Self:
        """A vector of these rows, of this width.

        Raises:
            RequestError: the rows are no row positions, or some that a vector of this width does not hold.
        """
        try:
            positions = positions_of(rows)
            # Of no rows the engine makes a vector without even a first bitmap.
            data = vector64.write(positions or BitMap64()) if is64 else vector32.write(positions)
        except RequestError as error:
            raise RequestError(f"data file {data_file!r}: {error}") from error
        return cls(data_file, data, len(positions))


@dataclass(frozen=True, slots=True)
class VectorFile:
    """A file of deletion vectors.

    Attributes:
        meta: what the index manifest says of it.
        content: the whole file.
    """

    meta: IndexFileMeta
    content: bytes


def write_file(vectors: Iterable[EncodedVector], name: str) -> VectorFile:
    """One file of all vectors, in their order.

    Raises:
        RequestError: two vectors are of the same data file.
    """
    file = _OpenFile()
    for vector in _without_repetition(vectors):
        file.append(vector)
    return file.close(name)


def write_files(
    vectors: Iterable[EncodedVector], names: Iterator[str], target_bytes: int
) -> tuple[VectorFile, ...]:
    """As many files as vectors fill, in their order; none if there are no vectors.

    Args:
        vectors: of different data files.
        names: of the files.
        target_bytes: a file that is larger is followed by another one.

    Raises:
        RequestError: two vectors are of the same data file.
    """
    files: list[VectorFile] = []
    file = _OpenFile()
    for vector in _without_repetition(vectors):
        file.append(vector)
        if len(file.content) > target_bytes:
            files.append(file.close(next(names)))
            file = _OpenFile()
    if file.ranges:
        files.append(file.close(next(names)))
    return tuple(files)


class _OpenFile:
    """A file that vectors are appended to."""

    def __init__(self) -> None:
        self.content = bytearray((VERSION,))
        self.ranges: list[DeletionRange] = []

    def append(self, vector: EncodedVector) -> None:
        margin = RECORD_MARGIN_BYTES if vector.data.startswith(vector64.MAGIC) else 0
        length = len(vector.data) + margin
        self.ranges.append(DeletionRange(vector.data_file, len(self.content), length, vector.cardinality))
        self.content += write_record(vector.data)

    def close(self, name: str) -> VectorFile:
        ranges = tuple(self.ranges)
        meta = IndexFileMeta(DELETION_VECTORS, name, len(self.content), len(ranges), ranges)
        return VectorFile(meta, bytes(self.content))


def _without_repetition(vectors: Iterable[EncodedVector]) -> Iterator[EncodedVector]:
    seen = set()
    for vector in vectors:
        if vector.data_file in seen:
            raise RequestError(
                f"data file {vector.data_file!r} has two deletion vectors; merge them into one"
            )
        seen.add(vector.data_file)
        yield vector
