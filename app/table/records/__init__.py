"""What metadata in Avro, ORC and Parquet has in common: expected records, columns, codecs, bounds on memory.

For :mod:`app.table.avro` and :mod:`app.table.columnar`; the manifests above read columns.
"""
