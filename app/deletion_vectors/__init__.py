"""Deletion vectors: the deleted rows of a data file."""

from app.deletion_vectors.deleting import (
    EncodedVector,
    VectorChange,
    VectorFile,
    delete_in_bucket,
    delete_without_buckets,
    files_to_read,
    write_file,
    write_files,
)
from app.deletion_vectors.file import (
    MAGICS,
    RECORD_MARGIN_BYTES,
    DeletionVector,
    read_file,
    read_vector,
    read_vectors,
)
from app.deletion_vectors.positions import RowNumbers
from app.options import VectorOptions
from app.types.roaring import Positions

__all__ = [
    "MAGICS",
    "RECORD_MARGIN_BYTES",
    "DeletionVector",
    "EncodedVector",
    "Positions",
    "RowNumbers",
    "VectorChange",
    "VectorFile",
    "VectorOptions",
    "delete_in_bucket",
    "delete_without_buckets",
    "files_to_read",
    "read_file",
    "read_vector",
    "read_vectors",
    "write_file",
    "write_files",
]
