"""Which rows of data files are deleted.

:mod:`~app.planning.deletions.deletions` answers requests; :mod:`~app.planning.deletions.vectors` loads
deletion vectors for it and for plans.
"""
