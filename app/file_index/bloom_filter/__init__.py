"""The kind ``bloom-filter``: layout, reader, writer; others use :mod:`.kind`."""
