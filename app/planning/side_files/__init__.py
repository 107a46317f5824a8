"""The file indexes of a version's files, stacked: those in manifests, and those in ``.index`` files.

Plans ask :class:`~app.planning.side_files.file_indexes.FileIndexes`. The rest is private to this package.
"""
