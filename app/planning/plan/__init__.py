"""A plan: the decisions about its files while it is made, and the answer that becomes of them.

:mod:`app.planning.scan` makes decisions, the HTTP layer and the command line write the answer.
"""
