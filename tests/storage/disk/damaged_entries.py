"""Damage to entries of the disk cache: files that take the names of others, to which nobody writes."""

from collections.abc import Callable
from pathlib import Path


def replace_entries(directory: Path, change: Callable[[bytes], bytes]) -> None:
    for path in [found for found in directory.rglob("*") if found.is_file()]:
        written = path.read_bytes()
        path.unlink()
        path.write_bytes(change(written))


def invert(content: bytes) -> bytes:
    return bytes(byte ^ 0xFF for byte in content)
