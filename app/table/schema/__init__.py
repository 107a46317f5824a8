"""Schemas, the options in them, and partition values; imports no other package of :mod:`app.table`."""
