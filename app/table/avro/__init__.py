"""Avro object container files, read as columns and written: metadata as a whole, data files block by block.

:mod:`app.table.manifests` reads and writes metadata with it, :mod:`app.building` reads data files.
"""
