"""Parts that kinds of index have in common: rows by bits of a code, null rows, directories of keys."""
