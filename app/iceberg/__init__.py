"""Apache Iceberg's REST catalog over Paimon tables: read only, with scans planned here.

What Iceberg's clients are told is made of a table's schemas, snapshots and plans, and lies nowhere on disk.
What could not be read right is refused with the reason, see :mod:`app.iceberg.refusals`.
"""
