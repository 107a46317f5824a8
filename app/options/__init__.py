"""The options of a table as its schema has them, text by name: each is parsed here, and nowhere else.

Formats, tables and planning import this package; it imports types only.
"""
