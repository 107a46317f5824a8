"""What callers send: bodies and query parameters."""
