"""Deletes rows: the changes to a bucket's vector files when rows of its data files are deleted.

Files of vectors are immutable, so a changed vector needs a new file in place of its old one. The number of
files depends on the table:

* A bucket of a table with buckets has one file, which every change writes again as a whole
  (:func:`delete_in_bucket`).
* An append table without buckets has several for each partition. A file is replaced if one of its vectors
  changes. Then all its vectors, and those of data files that had no vector, are written to new files
  (:func:`delete_without_buckets`).

Unchanged vectors keep their bytes, all vectors keep their order, and 64-bit vectors keep their width. Rows
that are already deleted change nothing, so a repeated deletion writes nothing.

The engine writes all vectors of a bucket into one file, even if there are none. Without buckets it begins
another file once the last one exceeds a target, so that each file exceeds the target by less than its last
vector.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from pyroaring import BitMap64

from app.deletion_vectors import vector32, vector64
from app.deletion_vectors.file import (
    RECORD_MARGIN_BYTES,
    VERSION,
    DeletionVector,
    read_vectors,
    stored_data,
    write_record,
)
from app.deletion_vectors.positions import RowNumbers, positions_of, union
from app.errors import CorruptIndexError, CorruptMetadataError, RequestError
from app.options import VectorOptions
from app.types.index_files import DELETION_VECTORS, DeletionRange, IndexFileMeta
from app.types.roaring import Positions


@dataclass(frozen=True, slots=True)
class EncodedVector:
    """The vector of one data file, with magic but without size and checksum."""

    data_file: str
    data: bytes
    cardinality: int

    @classmethod
    def encode(cls, data_file: str, rows: RowNumbers, *, is64: bool) -> Self:
        """Encode rows as a vector. Raises RequestError if this width cannot hold one of them."""
        try:
            positions = positions_of(rows)
            # The engine writes an empty vector without even a first bitmap.
            data = vector64.write(positions or BitMap64()) if is64 else vector32.write(positions)
        except RequestError as error:
            raise RequestError(f"data file {data_file!r}: {error}") from error
        return cls(data_file, data, len(positions))


@dataclass(frozen=True, slots=True)
class VectorFile:
    """A file of deletion vectors."""

    meta: IndexFileMeta
    content: bytes


def write_file(vectors: Iterable[EncodedVector], name: str) -> VectorFile:
    """Write all vectors into one file. Raises RequestError if two vectors are of one data file."""
    file = _OpenFile()
    for vector in _without_repetition(vectors):
        file.append(vector)
    return file.close(name)


def write_files(
    vectors: Iterable[EncodedVector], names: Iterator[str], target_bytes: int
) -> tuple[VectorFile, ...]:
    """Write vectors, in order, into as many files as they fill, or none if there are no vectors.

    ``target_bytes``: a file that exceeds it is followed by another one. Raises RequestError if two vectors
    are of one data file.
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


@dataclass(frozen=True, slots=True)
class VectorChange:
    """Changes to the vector files of a bucket, empty if all rows were deleted already.

    ``removed``: replaced files, whose entries in the index manifest must be deleted. ``added``: new files,
    which must be stored under their names before a snapshot lists them.
    """

    removed: tuple[IndexFileMeta, ...] = ()
    added: tuple[VectorFile, ...] = ()


def delete_in_bucket(
    previous: VectorFile | None, deletions: Mapping[str, RowNumbers], name: str, options: VectorOptions
) -> VectorChange:
    """Delete rows of a bucket of a table that has buckets.

    Raises RequestError if rows are not row positions, or only a 64-bit vector can hold them. Raises
    CorruptIndexError if the previous file is damaged, or does not fit the index manifest. Raises
    CorruptMetadataError if a data file has two vectors.
    """
    _check_unique(() if previous is None else (previous.meta,))
    pending = _pending(deletions)
    vectors, grew = ([], False) if previous is None else _merge(previous, pending, options)
    if not grew and not pending:
        return VectorChange()
    file = write_file([*vectors, *_encode(pending, options)], name)
    return VectorChange(() if previous is None else (previous.meta,), (file,))


def delete_without_buckets(
    previous: Sequence[IndexFileMeta],
    contents: Mapping[str, bytes],
    deletions: Mapping[str, RowNumbers],
    names: Iterator[str],
    options: VectorOptions,
) -> VectorChange:
    """Delete rows of a partition of an append table without buckets.

    ``contents``: bytes by name of the files that :func:`files_to_read` selects.

    Raises RequestError if rows are not row positions, or only a 64-bit vector can hold them, or content is
    missing. Raises CorruptIndexError if a previous file is damaged, or does not fit the index manifest.
    Raises CorruptMetadataError if a data file has two vectors.
    """
    _check_unique(previous)
    pending = _pending(deletions)
    removed: list[IndexFileMeta] = []
    vectors: list[EncodedVector] = []
    for meta in files_to_read(previous, deletions):
        if meta.file_name not in contents:
            raise RequestError(
                f"index file {meta.file_name!r} has vectors of these data files: pass its content"
            )
        merged, grew = _merge(VectorFile(meta, contents[meta.file_name]), pending, options)
        if grew:
            removed.append(meta)
            vectors += merged
    vectors += _encode(pending, options)
    return VectorChange(tuple(removed), write_files(vectors, names, options.target_bytes))


def files_to_read(
    previous: Iterable[IndexFileMeta], data_files: Collection[str]
) -> tuple[IndexFileMeta, ...]:
    """Select the files that have a vector of one of ``data_files``."""
    return tuple(meta for meta in previous if any(vector.data_file in data_files for vector in meta.ranges))


def _pending(deletions: Mapping[str, RowNumbers]) -> dict[str, Positions]:
    pending = {}
    for data_file, rows in deletions.items():
        try:
            positions = positions_of(rows)
        except RequestError as error:
            raise RequestError(f"data file {data_file!r}: {error}") from error
        if positions:
            pending[data_file] = positions
    return pending


def _merge(
    file: VectorFile, pending: dict[str, Positions], options: VectorOptions
) -> tuple[list[EncodedVector], bool]:
    """Move deletions from ``pending`` into a file's vectors. Return all its vectors, and True if one grew."""
    vectors = []
    has_grown = False
    for place, old in zip(file.meta.ranges, _read(file), strict=True):
        new = pending.pop(place.data_file, None)
        positions = old.positions if new is None else union(old.positions, new)
        if len(positions) > old.cardinality:
            has_grown = True
            is64 = old.is64 or options.bitmap64
            vectors.append(EncodedVector.encode(place.data_file, positions, is64=is64))
        else:
            # Unchanged vectors keep their bytes.
            data = stored_data(file.content, place.offset)
            vectors.append(EncodedVector(place.data_file, data, old.cardinality))
    return vectors, has_grown


def _read(file: VectorFile) -> list[DeletionVector]:
    meta, content = file.meta, file.content
    if len(content) != meta.file_size:
        raise CorruptIndexError(
            f"expected a file of {meta.file_size} bytes, found {len(content)}", path=meta.file_name
        )
    try:
        vectors = read_vectors(content, [(place.offset, place.length) for place in meta.ranges])
    except CorruptIndexError as error:
        raise error.at(meta.file_name) from error
    for place, vector in zip(meta.ranges, vectors, strict=True):
        if place.cardinality not in (None, vector.cardinality):
            raise CorruptIndexError(
                f"expected {place.cardinality} deleted rows of {place.data_file}, found {vector.cardinality}",
                offset=place.offset,
                path=meta.file_name,
            )
    return vectors


def _encode(pending: Mapping[str, Positions], options: VectorOptions) -> list[EncodedVector]:
    return [
        EncodedVector.encode(data_file, positions, is64=options.bitmap64)
        for data_file, positions in pending.items()
    ]


def _check_unique(files: Iterable[IndexFileMeta]) -> None:
    owners: dict[str, str] = {}
    for meta in files:
        for place in meta.ranges:
            if place.data_file in owners:
                raise CorruptMetadataError(
                    f"data file {place.data_file!r} has two deletion vectors, in "
                    f"{owners[place.data_file]!r} and {meta.file_name!r}"
                )
            owners[place.data_file] = meta.file_name
