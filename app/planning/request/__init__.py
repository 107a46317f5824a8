"""What callers ask: requests as plain values, the filters and partitions in them, and how large they may be.

Imports no other package of :mod:`app.planning`; everything above may use it.
"""
