"""File indexes: which rows of a data file can satisfy a filter.

A leaf of the filter becomes a condition (:mod:`app.file_index.answers`) on keys
(:mod:`app.file_index.keys`), which each kind of index answers in its own room; answers combine as
:mod:`app.file_index.answers` says.
"""
