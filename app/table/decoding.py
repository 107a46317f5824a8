"""Reads and decodes metadata files; errors say which file it was, and files that are read whole are bounded.

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

import traceback
from collections.abc import Callable
from typing import Final, TypeVar

from app.errors import CorruptMetadataError, PaimonIndexError, UnsupportedFormatError
from app.observation import FileFormat, observer
from app.table.storage import SmallFiles

Decoded = TypeVar("Decoded")
Content = TypeVar("Content")

_FORMATS = (
    ("schema-", FileFormat.SCHEMA),
    ("index-manifest-", FileFormat.INDEX_MANIFEST),
    ("manifest-list-", FileFormat.MANIFEST_LIST),
    ("manifest-", FileFormat.MANIFEST),
)
"""What files are by the beginnings of their names; the others are snapshots and tags."""


def decode(path: str, data: Content, read: Callable[[Content], Decoded]) -> Decoded:
    """What ``read`` makes of a file's bytes; its errors say which file it was."""
    try:
        return read(data)
    except PaimonIndexError as error:
        _let_go(error)
        match error:
            case CorruptMetadataError():
                report_undecodable(path)
                raise error.at(path) from error
            case UnsupportedFormatError():
                report_undecodable(path)
                raise UnsupportedFormatError(f"{path}: {error}") from error
            case _:
                raise


def _let_go(error: BaseException | None) -> None:
    """Drops what decoders held when they failed, which would live for as long as somebody has the error."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def report_undecodable(path: str) -> None:
    """Tells the observer that a metadata file is not what its format says."""
    name = path.rpartition("/")[2]
    found = (kind for prefix, kind in _FORMATS if name.startswith(prefix))
    observer().undecodable(next(found, FileFormat.SNAPSHOT))


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
