"""Avro object container files: read as columns, written, and copied from as they are encoded.

:mod:`app.table.manifests` reads and writes metadata with it, :mod:`app.table.commits` merges manifests, and
:mod:`app.building` reads data files block by block.
"""
