"""Counts, extremes, sums and facets of tables, from indexes and statistics without reading data."""

from app.aggregates.aggregation import aggregate
from app.aggregates.answers import AggregateAnswer, AggregateRequest, Function

__all__ = [
    # Groups, and the files that leave them open.
    "AggregateAnswer",
    # Asks for aggregates of the rows that satisfy a filter.
    "AggregateRequest",
    # A function such as COUNT.
    "Function",
    # Computes the aggregates of a version.
    "aggregate",
]
