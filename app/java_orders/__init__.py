"""Orders in which Java's collections iterate, emulated: nothing else of the project needs them to be so.

The engine writes some bytes in the order of a ``java.util.HashMap`` or of fastutil's ``IntOpenHashSet``.
Readers do not care; files are the engine's byte for byte only with these orders. Writers of formats use it:
:mod:`app.file_index` (bitmap bodies, containers) and :mod:`app.bucket_index` (hash index files, buckets).
"""
