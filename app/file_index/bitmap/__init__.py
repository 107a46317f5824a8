"""The kind ``bitmap``: layout, reader, writer; others use :mod:`.kind`."""
