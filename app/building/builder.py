"""Builds the index file of a data file from its columns, and writes it atomically."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from app.building.columns import Advance, ignore_progress
from app.errors import RequestError, StorageError
from app.file_index import FileIndexOptions, IndexDefinition, KeyColumn
from app.file_index.container import write, write_index
from app.options import split_map_key
from app.storage import sync_directory

if TYPE_CHECKING:
    import pyarrow as pa


IndexPayloads: TypeAlias = Mapping[tuple[str, str], bytes | None]
"""Payloads of indexes by column and kind; None for an empty entry."""


@dataclass(frozen=True, slots=True)
class BuiltEntry:
    """One index of a built container, on a column or ``column[key]``. An empty entry has no bytes."""

    column: str
    kind: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class BuiltIndex:
    """A container, and the entries that were built for it."""

    content: bytes
    entries: tuple[BuiltEntry, ...]
    in_manifest: bool  # True if the engine would embed it in the manifest.


def build(
    columns: Mapping[str, pa.ChunkedArray],
    options: FileIndexOptions,
    advance: Advance = ignore_progress,
    kept: IndexPayloads | None = None,
) -> BuiltIndex:
    """Build the container that the engine would write for a data file.

    ``columns``: one value a row, for every column to index.
    ``kept``: indexes to copy in addition to the built ones.

    Raises IndexWriteError if an index cannot hold a column or a value. Raises RequestError if there is
    nothing to index.
    """
    if not options.indexes and not kept:
        raise RequestError("there is nothing to index: set file-index.<type>.columns")
    definitions: dict[str, dict[str, IndexDefinition]] = {}
    for definition in options.indexes:
        definitions.setdefault(definition.column, {})[definition.kind] = definition
    payloads: dict[str, list[tuple[str, bytes | None]]] = {}
    for column, kinds in sorted(definitions.items()):
        ordered = [definition for _, definition in sorted(kinds.items())]
        keys = KeyColumn.of(columns[column], ordered[0].data_type, column)
        for definition in ordered:
            payloads.setdefault(column, []).append((definition.kind, _payload(keys, definition)))
            advance(1)
    entries = tuple(
        BuiltEntry(column, kind, len(payload or b""))
        for column, listed in payloads.items()
        for kind, payload in listed
    )
    for (column, kind), payload in (kept or {}).items():
        payloads.setdefault(column, []).append((kind, payload))
    # Columns, kinds and bitmaps ascend, unlike in the engine. Their order means nothing to readers.
    content = write(
        {column: sorted(listed, key=itemgetter(0)) for column, listed in sorted(payloads.items())}
    )
    return BuiltIndex(content, entries, len(content) <= options.in_manifest_threshold_bytes)


def _payload(keys: KeyColumn, definition: IndexDefinition) -> bytes | None:
    # For a file without rows, the engine writes an empty entry for a map key, but whole indexes for columns.
    if keys.row_count == 0 and split_map_key(definition.column)[1] is not None:
        return None
    return write_index(definition.kind, keys, definition.options)


def write_file(path: Path, content: bytes, *, replace: bool = False) -> None:
    """Write a file under its final name once it is complete on the disk.

    Raises RequestError if the name is taken, StorageError if the file cannot be written. The temporary file
    is removed in any case.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        _publish(draft, path, replace=replace)
        sync_directory(path.parent)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}", path=str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def _publish(draft: Path, path: Path, *, replace: bool) -> None:
    if replace:
        draft.replace(path)
        return
    try:
        # A link, unlike a rename, fails where the name is taken.
        path.hardlink_to(draft)
    except FileExistsError as error:
        raise RequestError(f"{path} exists: choose another name, or allow to replace it") from error
