"""File indexes: which rows of a data file can satisfy a filter.

:class:`app.file_index.container.FileIndex` reads a file; :func:`app.file_index.evaluation.evaluate`,
:func:`app.file_index.top_n.top_n` and :func:`app.file_index.inspect.inspect` are what it is read for. A leaf
of the filter becomes a condition (:mod:`app.file_index.answers.conditions`) on keys
(:mod:`app.file_index.keys`), which each kind of index answers in its own module; answers combine as
:mod:`app.file_index.answers.result` says.

:func:`app.file_index.container.write_index` writes an index of a column of keys
(:mod:`app.file_index.keys.key_column`).
"""
