"""Global indexes: files that list, by key, rows of a range of row ids.

A search (:mod:`app.global_index.search`) names the pieces of index files that it needs, and the caller reads
them from storage. Kinds: :mod:`app.global_index.btree` and :mod:`app.global_index.bitmap`.
"""

from app.global_index.index_file import KeyBounds, Piece, Search
from app.global_index.inspection import describe, kind_of
from app.global_index.keys import same_keys, takes
from app.global_index.search import KINDS, FoundRows, Part, searches

__all__ = [
    # Kinds of files by the names that index manifests give them.
    "KINDS",
    # Searches for the rows of a condition, or for the other rows.
    "FoundRows",
    # The first and last key of a file, from its entry.
    "KeyBounds",
    # A file and the bounds of its keys.
    "Part",
    # A part of a file to read.
    "Piece",
    # A search, which names pieces to read until it has its rows.
    "Search",
    # Describes the content of a file.
    "describe",
    # Detects the kind of a file from its name and bytes.
    "kind_of",
    # Returns True if values of two types are serialized alike.
    "same_keys",
    # Chooses the searches for the rows of a condition.
    "searches",
    # Returns True if global indexes hold values of a type.
    "takes",
]
