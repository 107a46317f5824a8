"""Index keys: the form of values inside an index, from single values, Arrow arrays and stored records."""

from app.file_index.keys.arrow_keys import Keys
from app.file_index.keys.keys import FloatingKeys, Key, KeySpace, after, key_space

__all__ = [
    # Keys of FLOAT and DOUBLE.
    "FloatingKeys",
    # The form in which an index holds a value.
    "Key",
    # Keys of one type, and their order.
    "KeySpace",
    # Keys of many rows.
    "Keys",
    # The smallest key above a key.
    "after",
    # The keys of a type.
    "key_space",
]
