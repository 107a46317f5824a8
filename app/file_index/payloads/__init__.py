"""Bytes of payloads read front to back: of one, of many side by side; names in them, and bitmaps' extents."""
