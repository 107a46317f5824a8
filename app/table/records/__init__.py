"""What metadata in Avro, ORC and Parquet has in common: expected records, columns, codecs, bounds on memory.

For :mod:`app.table.avro`, :mod:`app.table.orc` and :mod:`app.table.parquet`; the manifests above read
columns.
"""
