"""Small files that are about to be asked for, read side by side, so that they take one round trip's time.

What a version is made of is asked one after the other: the hint, whether the next snapshot is there, the
snapshot, the schema. All of it can be guessed from the version that was found last. What was guessed wrong is
read as if nobody had guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

from app.errors import PaimonIndexError
from app.storage import Readers
from app.table.references import hint_path, schema_path, snapshot_path, tag_path
from app.table.small_files import HINT_BYTES, SCHEMA_BYTES, SNAPSHOT_BYTES
from app.table.storage import Storage


@dataclass(frozen=True, slots=True)
class Seen:
    """What was found last where the same version was asked for.

    Attributes:
        snapshot_id: number of the snapshot; None where there was none.
        schema_id: number of the schema that filters referred to.
    """

    snapshot_id: int | None
    schema_id: int

    @property
    def nbytes(self) -> int:
        """About how much memory the object takes."""
        return 200


def expected_files(
    directory: str, seen: Seen | None, snapshot_id: int | None, tag: str | None, schema_id: int | None
) -> Iterator[tuple[str, int]]:
    """The files that a version is probably made of, each with the most bytes that it may have.

    Args:
        directory: of the table or branch.
        seen: what was found last; None if nobody has asked yet.
        snapshot_id: of a version that is asked for by its number.
        tag: of a version that is asked for by its tag.
        schema_id: the schema that is asked for, if one is.
    """
    if snapshot_id is not None:
        yield snapshot_path(directory, snapshot_id), SNAPSHOT_BYTES
    elif tag is not None:
        yield tag_path(directory, tag), SNAPSHOT_BYTES
    elif seen is not None and seen.snapshot_id is not None:
        yield hint_path(directory), HINT_BYTES
        yield snapshot_path(directory, seen.snapshot_id), SNAPSHOT_BYTES
        yield snapshot_path(directory, seen.snapshot_id + 1), SNAPSHOT_BYTES
    if schema_id is not None:
        yield schema_path(directory, schema_id), SCHEMA_BYTES
    elif seen is not None:
        yield schema_path(directory, seen.schema_id), SCHEMA_BYTES
        if snapshot_id is None and tag is None:
            yield schema_path(directory, seen.schema_id + 1), SCHEMA_BYTES


class ReadAhead:
    """Storage that answers once for each file that was read ahead, and asks for all the rest.

    Once, since a file that is asked for again may have come or gone in between.

    Args:
        storage: the warehouse.
        found: contents by path, or why there is none.
    """

    def __init__(self, storage: Storage, found: dict[str, bytes | PaimonIndexError]) -> None:
        self._storage = storage
        self._found = found

    @classmethod
    def of(cls, storage: Storage, readers: Readers, files: Iterable[tuple[str, int]]) -> Self:
        """Storage that has read these files.

        Args:
            storage: the warehouse.
            readers: read side by side.
            files: path of each, and the most bytes that it may have; one more is read.

        Raises:
            DeadlineExceededError: the request's time was used up, or its caller went away.
        """
        wanted = dict(files)

        def read(path: str) -> bytes | PaimonIndexError:
            try:
                return storage.read_start(path, wanted[path] + 1)
            except PaimonIndexError as error:
                return error

        # Files of this machine are there before threads have handed over to each other.
        read_all = map if storage.is_local else readers.map
        return cls(storage, dict(zip(wanted, read_all(read, wanted), strict=True)))

    def read_start(self, path: str, count: int) -> bytes:
        """As :meth:`app.table.storage.SmallFiles.read_start`."""
        found = self._found.pop(path, None)
        if isinstance(found, PaimonIndexError):
            raise found
        return self._storage.read_start(path, count) if found is None else found[:count]

    def list_names(self, directory: str) -> list[str]:
        """As :meth:`app.table.storage.SmallFiles.list_names`."""
        return self._storage.list_names(directory)
