"""One golden table in memory, of several snapshots, to be changed at will."""

from typing import Final

from tests.golden_tables import DATABASE
from tests.memory_storage import MemoryStorage

NAME: Final = "versions"
DIRECTORY: Final = f"{DATABASE}.db/{NAME}"


def metadata_reads(storage: MemoryStorage) -> list[str]:
    return [path for path in storage.reads if "/manifest/" in path]
