"""Metadata in ORC and Parquet files, decoded into columns by a separate process."""
