"""The kind ``bloom-filter``: layout, reader, writer. Other packages use :mod:`.kind`."""

from app.file_index.bloom_filter.bloom_filter import (
    DEFAULT_FPP,
    DEFAULT_ITEMS,
    BloomFilter,
    hash_keys,
    payload_bytes,
    places,
)
from app.file_index.bloom_filter.kind import BLOOM_FILTER, BloomFilterOptions, rounded_items

__all__ = [
    # The kind.
    "BLOOM_FILTER",
    # The rate of false positives where no option sets it.
    "DEFAULT_FPP",
    # The number of items where no option sets it.
    "DEFAULT_ITEMS",
    # The layout: bits that hashes of values set.
    "BloomFilter",
    # The number of items and the rate of false positives.
    "BloomFilterOptions",
    # Hashes of many keys, in batches.
    "hash_keys",
    # The size of a payload, before it is made.
    "payload_bytes",
    # The bits that hashes set.
    "places",
    # Rounds a number of items up to two digits.
    "rounded_items",
]
