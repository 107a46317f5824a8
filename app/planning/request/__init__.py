"""Requests, the filters and partitions in them, and how large they may be: the same for every caller.

Imports no other package of :mod:`app.planning`; everything above may use it.
"""
