"""Which bucket a key is in, and which a writer would put it into.

:mod:`~app.planning.buckets.lookup` answers requests; :mod:`~app.planning.buckets.directory` and
:mod:`~app.planning.scan.bucket_pruning` serve bucket pruning in :mod:`app.planning.scan`.
"""
