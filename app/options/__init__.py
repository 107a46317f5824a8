"""The options of a table as its schema has them, text by name: each is parsed here, and nowhere else.

Formats, tables and planning import this package; it imports types only. Parsers raise
RequestError for a wrong option that is given, CorruptMetadataError for one that is stored; the message names
it and says what it may be.
"""
