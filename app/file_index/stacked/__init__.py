"""The file indexes of many files at once, for the question which of the files can hold a matching row.

A *stack* holds one kind of index on one column of many files as arrays over a buffer that all of them share,
and answers with files, where the reader of one file answers with rows. It checks all that a reader checks
when it opens an index; whoever asks one that fails is told what the reader says of it.
"""
