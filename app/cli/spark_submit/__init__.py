"""The program that ``spark-submit`` is given.

It stands alone in its directory, since Python looks there first for every module that a program imports.
"""
