"""The program that ``spark-submit`` runs.

It is alone in its directory, which Python searches first for every module that a program imports.
"""
