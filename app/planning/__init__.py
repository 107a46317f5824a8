"""Answers about tables and index files, from requests to answers; no HTTP.

:class:`~app.planning.service.IndexService` is the only way in: the HTTP layer and the command line call it,
and read the requests (:mod:`app.planning.request`) and answers that the packages below it define. From the
bottom up, a package imports packages of lower lines only:

=================================== ==================================================================
``service``, ``watch``              the service; new snapshots of tables that it loads ahead of requests
``scan``, ``evaluated_files``       makes a plan; evaluates index files without a table
``plan``, ``side_files``            the answer of a plan; file indexes in manifests and ``.index`` files
``keys``, ``deletions``             buckets of keys; deleted rows
``version``, ``request``            one version of a table; what callers ask, and how much they may ask
=================================== ==================================================================
"""
