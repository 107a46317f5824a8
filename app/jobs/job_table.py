"""The table that a job is about, and the warehouse as tasks see it."""

from __future__ import annotations

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
_WHOLE_MANIFESTS: Final = CacheBytes(manifests=1 << 40)
"""Entries are written again with the indexes embedded in them, so no manifest may leave these out."""
_COPIED_BYTES: Final = 16 << 20
"""Of a file that is copied, how much is in memory at a time."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a warehouse is: tasks are given this, and take credentials from their own environment."""

    url: str
    allow_external: tuple[str, ...] = ()

    def open(self) -> Warehouse:
        """The warehouse, opened once in each process."""
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
        """Opens a table.

        Args:
            warehouse: URL or directory; also tasks must be able to reach it.
            rooms: capacities of the caches. By default manifests stay whole, as jobs need them that commit.

        Raises:
            RequestError: the name has no such form.
            SettingsError: the warehouse cannot be opened.
        """
        database, dot, name = table.partition(".")
        if not dot:
            raise RequestError(f"{table!r} is no DATABASE.TABLE")
        place = Place(warehouse, tuple(allow_external))
        service = IndexService({_WAREHOUSE: place.open()}, cache_bytes=rooms, limits=Limits())
        return cls(place, service, TableRef(_WAREHOUSE, database, name))

    @property
    def name(self) -> str:
        """The table's name, for messages."""
        return f"{self.ref.database}.{self.ref.table}"

    def latest(self) -> Version:
        """The latest version."""
        return self.service.resolve(self.ref, SnapshotSelector())

    def check_filter(self, written: str | Mapping[str, Json] | None) -> None:
        """Reads a filter before Spark starts. FilterError: it cannot be read, or does not fit the columns."""
        version = self.latest()
        read_filter(written, version.schema.fields, Limits(), version.relation(None), None)

    def committer(self) -> Committer:
        """Commits as a user of its own."""
        committer = Committer(self.latest().table, self.writing)
        committer.check()
        return committer

    @property
    def writing(self) -> Writing:
        """Writes into the warehouse."""
        return Writing(self.place.open())


@contextmanager
def local_file(warehouse: Warehouse, path: str) -> Iterator[Path]:
    """A file of a warehouse as one of this machine: itself, or a copy for the time of a block."""
    if (place := warehouse.local_path(path)) is not None:
        yield place
        return
    directory = Path(tempfile.mkdtemp(prefix="paimon-index-job-"))
    try:
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
