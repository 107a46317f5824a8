"""Counts, ends, sums and facets of tables, answered by indexes and statistics without reading data."""
