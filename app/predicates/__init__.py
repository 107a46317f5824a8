"""Filters: read from SQL or JSON, bound to columns, simplified, and decided by bounds of columns.

:mod:`~app.predicates.model` is the bound predicate that planning and indexes evaluate. Above it stand two
packages: :mod:`~app.predicates.sql` and :mod:`~app.predicates.json_reader` read text and JSON to the unbound
form (:mod:`~app.predicates.unbound`), which :mod:`~app.predicates.binding` binds.
"""
