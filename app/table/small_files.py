"""Snapshots, tags, schemas and hints, which are read whole: how large each may be.

=======================  ===============================================================================
file                     what its size depends on
=======================  ===============================================================================
snapshot, tag,           about 1 KB; some releases add an offset for each bucket, and properties
changelog
schema                   100 to 500 bytes for each column, with its comment, and the options of the table
hint                     a number
=======================  ===============================================================================

Whoever may write one table could otherwise take all memory of a server with a file that costs nothing.
"""

from __future__ import annotations

from typing import Final

from app.errors import CorruptMetadataError
from app.table.decoding import report_undecodable
from app.table.storage import SmallFiles

SNAPSHOT_BYTES: Final = 1 << 20
SCHEMA_BYTES: Final = 8 << 20
HINT_BYTES: Final = 64


def read_small(storage: SmallFiles, path: str, most_bytes: int) -> bytes:
    """The whole of a snapshot, tag, changelog or schema.

    Raises:
        CorruptMetadataError: it is larger than ``most_bytes``, of which no more is read.
        FileMissingError: there is none.
        StorageError: it cannot be read.
    """
    content = storage.read_start(path, most_bytes + 1)
    if len(content) > most_bytes:
        report_undecodable(path)
        raise CorruptMetadataError(
            f"expected at most {most_bytes} bytes, found more, so that no writer of tables has written it; "
            f"look at the file, and restore or remove it",
            path=path,
        )
    return content
