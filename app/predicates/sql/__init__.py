"""Spark SQL conditions read as unbound predicates: tokens, operands, tests, expressions.

:func:`~app.predicates.sql.reader.read_sql` is the way in; names of columns are also split by
:mod:`~app.predicates.sql.cursor`.
"""
