"""Bounds and null counts of data files in the columns of the schema of a plan, and ranks of keys."""
