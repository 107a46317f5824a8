"""Reading a table in Spark through the engine's connector, as plain Parquet, and through the service."""
