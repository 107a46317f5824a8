"""Spark SQL conditions read as unbound predicates: tokens, operands, tests, and how these are joined.

:func:`~app.predicates.sql.reader.read_sql` is the way in; names of columns are also split by
:func:`~app.predicates.sql.tokens.read_names`.
"""
