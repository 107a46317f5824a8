"""BinaryRow: rows as bytes, the form of partitions, keys and statistics, and what keys are hashed from.

:mod:`~app.types.binary_row.layout` has the layout; :mod:`~app.types.binary_row.row` reads and writes one row,
:mod:`~app.types.binary_row.matrix` writes many at once, :mod:`~app.types.binary_row.columns` reads many.
"""
