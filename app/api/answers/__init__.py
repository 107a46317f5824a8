"""Encoders of answers: JSON, NDJSON and Arrow, selections of rows, pages and entity tags."""

from app.api.answers.encoding import (
    encode_deletions,
    encode_evaluation,
    encode_lookup,
    encode_plan,
    encode_schemas,
)
from app.api.answers.paging import Window
from app.api.answers.selections import SelectionEncoding

__all__ = [
    # Encodes sets of positions.
    "SelectionEncoding",
    # The share of an answer that goes into one page.
    "Window",
    # One page of deletions.
    "encode_deletions",
    # Decisions of index files.
    "encode_evaluation",
    # Buckets of keys, in request order.
    "encode_lookup",
    # One page of a plan.
    "encode_plan",
    # One page of the schemas of a table.
    "encode_schemas",
]
