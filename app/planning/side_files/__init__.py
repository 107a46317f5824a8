"""The file indexes of a version's files, stacked: those in manifests, and those in ``.index`` files.

:class:`~app.planning.side_files.file_indexes.FileIndexes` is what a plan asks; how files are fetched,
cut into segments and cached is private to this package.
"""
