"""Index files without a table: what they say of a filter, and what is in them.

Only :mod:`app.planning.service` uses it.
"""
