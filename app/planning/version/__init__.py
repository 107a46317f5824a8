"""One version of one table: its data files as columns, its schemas, statistics and deletion vectors' places.

:class:`~app.planning.version.version.Version` is what the packages above plan with. Imports no other package
of :mod:`app.planning`.
"""
