"""The file indexes of many files at once, for the question which of the files can hold a matching row.

Where a reader of :mod:`app.file_index` decodes the index of one file and answers with rows, a *stack* here
holds one kind of index on one column of many files as arrays over a buffer that all of them share, and
answers with files. Both take their layouts, keys, hashes, conditions and rules of evaluation from the same
modules.

A stack is no easier to fool than a reader: it checks all that a reader checks when it opens an index, and
more. An index that fails is left out of the arrays, and whoever asks it is told what the reader says of it.
"""
