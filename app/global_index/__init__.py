"""Global indexes: which rows of a range of row ids have a key, in files of their own.

A search (:mod:`app.global_index.search`) names the pieces of index files that it needs, and somebody who
knows storage reads them. Kinds: :mod:`app.global_index.btree` and :mod:`app.global_index.bitmap`.
"""
