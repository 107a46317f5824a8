"""Index files and index manifests that no version of a table names, and their removal.

::

    <table>/manifest/index-manifest-<uuid>-<n>
    <table>/index/index-<uuid>-<n>, or in bucket directories under index-file-in-data-file-dir
    .<one of these names>[.<anything>].tmp beside them, left by a writer that was stopped

A commit under way has written index files, and perhaps its index manifest, before any snapshot names them.
They cannot be told from orphans but by their age.

Files of all other kinds are told by :mod:`app.table.other_orphans`, and left to the engine.

Not removed: files in external directories, which tables may share; global indexes, which have other names;
and ``.index`` side files, which come and go with their data files.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from app.errors import FileMissingError, PaimonIndexError, RequestError
from app.storage import Maintenance, Readers, StoredFile
from app.table.directories import Directories
from app.table.named_files import NamedFiles
from app.table.table import Table

MINIMUM_AGE: Final = dt.timedelta(hours=1)
"""Nothing younger is ever removed: more than clocks differ, or a commit takes at least."""

_NUMBERED_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d+"


class OrphanKind(StrEnum):
    """What an orphan was made as."""

    INDEX_MANIFEST = "index manifest"
    INDEX_FILE = "index file"
    TEMPORARY_FILE = "temporary file"
    DATA_FILE = "data file"
    MANIFEST = "manifest"
    MANIFEST_LIST = "manifest list"
    STATISTICS = "statistics"
    OTHER_FILE = "other file"


# In the order of removal: first what names other files, so that at no moment a file names one that is gone.
_NAMES: Final[Mapping[OrphanKind, re.Pattern[str]]] = {
    OrphanKind.INDEX_MANIFEST: re.compile(rf"index-manifest-{_NUMBERED_UUID}"),
    OrphanKind.INDEX_FILE: re.compile(rf"index-{_NUMBERED_UUID}"),
    OrphanKind.TEMPORARY_FILE: re.compile(rf"\.index-(?:manifest-)?{_NUMBERED_UUID}(?:\..+)?\.tmp"),
}


@dataclass(frozen=True, slots=True)
class Orphan:
    """A file that no version names."""

    kind: OrphanKind
    file: StoredFile


@dataclass(frozen=True, slots=True)
class Orphans:
    """What a search has found.

    Attributes:
        older_than: the age that it asked for.
        found: orphans of that age, by path.
        younger: number of files of less age that no version names yet.
    """

    older_than: dt.timedelta
    found: tuple[Orphan, ...]
    younger: int

    @classmethod
    def among(
        cls, candidates: Sequence[Orphan], named: Container[str], older_than: dt.timedelta, now: dt.datetime
    ) -> Self:
        """Those of some files that no version names."""
        unnamed = [each for each in candidates if each.file.name not in named]
        old = [each for each in unnamed if now - each.file.modified >= older_than]
        return cls(older_than, tuple(sorted(old, key=lambda each: each.file.path)), len(unnamed) - len(old))


@dataclass(frozen=True, slots=True)
class Removal:
    """What came of the orphans of a search; those in neither list turned out to be in use.

    Attributes:
        removed: those that are gone.
        failures: those that are still there, with the reason.
    """

    removed: tuple[Orphan, ...]
    failures: tuple[tuple[Orphan, PaimonIndexError], ...]


class OrphanFiles:
    """Finds and removes the orphans of one table.

    Args:
        table: the table.
        maintenance: of the table's warehouse.
        readers: list, read and delete side by side.
    """

    def __init__(self, table: Table, maintenance: Maintenance, readers: Readers) -> None:
        self._table = table
        self._maintenance = maintenance
        self._readers = readers
        self._named = NamedFiles(maintenance, readers, table.directory)

    def find(self, older_than: dt.timedelta, now: dt.datetime) -> Orphans:
        """Files that no version names.

        Args:
            older_than: time since they were written; commits must not take as long.
            now: the time, with a zone.

        Raises:
            NotFoundError: there is no such table.
            PaimonIndexError: something cannot be read that could name files, as in :meth:`NamedFiles.read`.
        """
        # Listed first: what a commit writes and names after that is not among the candidates, and what it
        # names before the versions are read is in use.
        candidates = self._candidates()
        return Orphans.among(candidates, self._named.read(), older_than, now)

    def remove(self, orphans: Orphans) -> Removal:
        """Removes what :meth:`find` has found, except for what a version has come to name since.

        Raises:
            RequestError: younger files than :data:`MINIMUM_AGE` were asked for; nothing is removed.
            PaimonIndexError: as :meth:`find`; nothing is removed.
        """
        if orphans.older_than < MINIMUM_AGE:
            raise RequestError(
                "files that were written within the last hour may belong to a commit under way and are never "
                "removed: ask for at least 1h"
            )
        named = self._named.read()
        doomed = [each for each in orphans.found if each.file.name not in named]
        outcomes: dict[Orphan, PaimonIndexError | None] = {}
        for kind in _NAMES:
            of_kind = [each for each in doomed if each.kind is kind]
            outcomes |= zip(of_kind, self._readers.map(self._delete, of_kind), strict=True)
        return Removal(
            tuple(each for each in doomed if outcomes[each] is None),
            tuple((each, error) for each in doomed if (error := outcomes[each]) is not None),
        )

    def _delete(self, orphan: Orphan) -> PaimonIndexError | None:
        try:
            self._maintenance.delete(orphan.file.path)
        except FileMissingError:
            # Somebody else has removed it, or an attempt that was believed to have failed.
            return None
        except PaimonIndexError as error:
            return error
        return None

    def _candidates(self) -> list[Orphan]:
        """Every index manifest, index file and temporary file there is."""
        directories = Directories(self._table, self._maintenance, self._readers).of_index_files()
        contents = self._readers.map(self._maintenance.contents, directories)
        files = (file for each in contents for file in each.files)
        return [Orphan(kind, file) for file in files if (kind := index_kind(file.name)) is not None]


def index_kind(name: str) -> OrphanKind | None:
    """What a file of this name was made as, if it is of a kind that is removed here."""
    return next((kind for kind, pattern in _NAMES.items() if pattern.fullmatch(name)), None)
