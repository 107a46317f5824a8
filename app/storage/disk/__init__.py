"""Keeps pieces of files, and columns derived from files, in a directory across restarts."""

from app.storage.disk.disk_tier import DiskCacheState, DiskTier
from app.storage.disk.spilling import spill, temporary_directory

__all__ = [
    # The numbers of the disk cache, as answers have them.
    "DiskCacheState",
    # Keeps entries across restarts, in a directory that is made if it is not there.
    "DiskTier",
    # Writes columns, each of one item, to a temporary file, and maps it.
    "spill",
    # Returns the directory for temporary files; raises if there is none on a disk.
    "temporary_directory",
]
