"""Index keys: what values become inside of an index, from single values, Arrow arrays and stored records."""
