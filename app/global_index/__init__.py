"""Global indexes: which rows of a range of row ids have a key, in files of their own.

A search (:mod:`app.global_index.search`) names the pieces of index files that it needs, and somebody who
knows storage reads them. Kinds: :mod:`app.global_index.btree` and :mod:`app.global_index.bitmap`.
"""

from app.global_index.index_file import KeyBounds, Piece, Search
from app.global_index.inspection import describe, kind_of
from app.global_index.keys import same_keys, takes
from app.global_index.search import KINDS, Part, is_met_by_others, searches

__all__ = [
    # Kinds of files by the names that index manifests give them.
    "KINDS",
    # The first and last key of a file, as its entry tells them.
    "KeyBounds",
    # A file, and the keys that its entry tells of.
    "Part",
    # A part of a file to read.
    "Piece",
    # A search, which asks for pieces until it knows its rows.
    "Search",
    # Describes what is in a file.
    "describe",
    # Whether the rows that searches find are those that do not match.
    "is_met_by_others",
    # Tells the kind of a file by its name and bytes.
    "kind_of",
    # Whether values of two types are serialized alike.
    "same_keys",
    # Searches for the rows of a condition.
    "searches",
    # Whether global indexes hold values of a type.
    "takes",
]
