"""The kind ``bsi``: layout, reader, writer; others use :mod:`.kind`."""
