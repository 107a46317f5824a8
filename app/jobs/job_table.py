"""The table of a job in the driver, and its warehouse in tasks."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from app.errors import RequestError
from app.planning import IndexService, Version
from app.planning.request import SnapshotSelector, TableRef, read_filter
from app.planning.request.limits import CacheBytes, Limits
from app.storage import Warehouse, Writing
from app.table.commits import Committer
from app.types import Json

_WAREHOUSE: Final = "warehouse"
# Jobs write entries again with their embedded indexes, so manifests must hold these.
_WHOLE_MANIFESTS: Final = CacheBytes(manifests=1 << 40)
# Bytes in memory while a file is copied.
_COPIED_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class Place:
    """Location of a warehouse, sent to tasks. They take credentials from their own environment."""

    url: str
    allow_external: tuple[str, ...] = ()

    def open(self) -> Warehouse:
        """Open the warehouse once in each process."""
        return _opened(self)


@cache
def _opened(place: Place) -> Warehouse:
    return Warehouse(_WAREHOUSE, place.url, allow_external=place.allow_external)


@dataclass(frozen=True, slots=True)
class JobTable:
    """A table in the driver."""

    place: Place
    service: IndexService
    ref: TableRef

    @classmethod
    def open(
        cls,
        warehouse: str,
        table: str,
        *,
        allow_external: Sequence[str] = (),
        rooms: CacheBytes = _WHOLE_MANIFESTS,
    ) -> JobTable:
        """Open a table.

        ``warehouse``: URL or directory, which tasks must be able to reach too.
        ``rooms``: capacities of the caches. The default keeps manifests whole for jobs that commit.

        Raises RequestError if the name is not of the form DATABASE.TABLE. Raises SettingsError if the
        warehouse cannot be opened.
        """
        database, dot, name = table.partition(".")
        if not dot:
            raise RequestError(f"{table!r} is not DATABASE.TABLE")
        place = Place(warehouse, tuple(allow_external))
        service = IndexService({_WAREHOUSE: place.open()}, cache_bytes=rooms, limits=Limits())
        return cls(place, service, TableRef(_WAREHOUSE, database, name))

    @property
    def name(self) -> str:
        """The table's name, for messages."""
        return f"{self.ref.database}.{self.ref.table}"

    def latest(self) -> Version:
        """Resolve the latest version."""
        return self.service.resolve(self.ref, SnapshotSelector())

    def check_filter(self, written: str | Mapping[str, Json] | None) -> None:
        """Check a filter before Spark starts. Raises FilterError if it does not fit the table."""
        version = self.latest()
        read_filter(written, version.schema.fields, Limits(), version.relation)

    def committer(self) -> Committer:
        """Make a committer with a commit user of its own."""
        committer = Committer(self.latest().table, self.writing)
        committer.check()
        return committer

    @property
    def writing(self) -> Writing:
        """Writer of files in the warehouse."""
        return Writing(self.place.open())


@contextmanager
def local_file(warehouse: Warehouse, path: str) -> Iterator[Path]:
    """Yield a local path of a warehouse's file: the file itself, or a temporary copy."""
    if (place := warehouse.local_path(path)) is not None:
        yield place
        return
    # A directory is given: without one, the standard library may take the current directory.
    parent = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 - a private directory is made in it
    directory = Path(tempfile.mkdtemp(prefix="paimon-index-job-", dir=parent))
    try:
        # A copy in parts, so that a file of any size takes little memory.
        copy, size = directory / path.rpartition("/")[2], warehouse.size(path)
        with copy.open("wb") as file:
            for start in range(0, size, _COPIED_BYTES):
                (part,) = warehouse.read_ranges([(path, start, min(_COPIED_BYTES, size - start))])
                if isinstance(part, Exception):
                    raise part
                file.write(part)
        yield copy
    finally:
        shutil.rmtree(directory, ignore_errors=True)
