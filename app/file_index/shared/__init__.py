"""Parts that several kinds of index share: rows by bits of a code, null rows, directories of keys."""
