"""Schemas, the options in them, and partition values. Imports no other package of :mod:`app.table`."""
