"""Index keys: the form of values inside an index, read from values, Arrow arrays and stored records."""

from app.file_index.keys.arrow_keys import ArrowKeys
from app.file_index.keys.keys import FloatingKeys, Key, KeySpace, after, key_space

__all__ = [
    # Keys of many rows.
    "ArrowKeys",
    # Keys of FLOAT and DOUBLE.
    "FloatingKeys",
    # The form in which an index holds a value.
    "Key",
    # Keys of one type, and their order.
    "KeySpace",
    # The smallest key above a key.
    "after",
    # The keys of a type.
    "key_space",
]
