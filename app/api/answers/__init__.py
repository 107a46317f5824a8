"""What callers get: JSON, NDJSON and Arrow, selections of rows, pages and tags."""
