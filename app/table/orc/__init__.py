"""Metadata in ORC files, as columns; :mod:`app.table.manifests.record_files` calls it."""
