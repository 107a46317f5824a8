"""Avro object container files: read as columns, written, or copied record by record without decoding.

:mod:`app.table.manifests`, :mod:`app.table.commits` and :mod:`app.building` (data files) use it.
"""
