"""The kind ``range-bitmap``: layout, reader, writer; others use :mod:`.kind`."""
