"""Binds predicates to columns: names, literals that fit or do not fit the column's type, CHAR padding, zones.

:func:`~app.predicates.binding.binding.bind` is the way in; :mod:`~app.predicates.binding.names` also resolves
the columns of ORDER BY.
"""
