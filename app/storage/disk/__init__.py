"""Pieces of files, and what is made of files, kept in a directory over restarts."""
