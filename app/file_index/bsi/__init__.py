"""The kind ``bsi``: layout, reader, writer, form over many files; others use :mod:`.kind`."""
