"""Index files made of data files: building them, proving them, and advice on which to have."""
