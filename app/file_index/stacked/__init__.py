"""The file indexes of many files: heads, and what their indexes say.

A *stack* holds one kind of index on one column of many files as arrays over a buffer that all of them share.
It answers with files, and with the rows of one. The indexes of one file are a stack of one.
"""
