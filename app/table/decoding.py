"""Decodes metadata files, so that errors say which file it was."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import TypeVar

from app.errors import CorruptMetadataError, PaimonIndexError, UnsupportedFormatError
from app.observation import FileFormat, observer

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
