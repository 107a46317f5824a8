"""Metadata in ORC and Parquet files, as columns, decoded by a process of its own."""
