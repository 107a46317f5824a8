"""Deletion vectors: which rows of a data file are deleted."""

from app.deletion_vectors.file import (
    RECORD_MARGIN_BYTES,
    DeletionVector,
    read_file,
    read_vector,
    read_vectors,
)
from app.deletion_vectors.vector64 import Positions

__all__ = [
    "RECORD_MARGIN_BYTES",
    "DeletionVector",
    "Positions",
    "read_file",
    "read_vector",
    "read_vectors",
]
