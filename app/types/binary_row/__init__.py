"""BinaryRow: rows as bytes, the form of partitions, keys and statistics, and what keys are hashed from.

:mod:`~app.types.binary_row.row` has the layout and one row, :mod:`~app.types.binary_row.rows` many at once.
"""
