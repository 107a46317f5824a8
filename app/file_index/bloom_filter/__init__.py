"""The kind ``bloom-filter``: layout, reader, writer, form over many files; others use :mod:`.kind`."""
