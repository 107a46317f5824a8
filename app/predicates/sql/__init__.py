"""Reads Spark SQL conditions as unbound predicates, by :func:`~app.predicates.sql.reader.read_sql`."""
