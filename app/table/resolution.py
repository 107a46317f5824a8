"""Resolves the version of a table that a caller means: a snapshot, and the schema that filters refer to.

The latest version is looked up each time, unless the caller accepts a recent one. The files involved are
guessed from the previous lookup and prefetched concurrently. A wrong guess is read again the plain way.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, Self

from typing_extensions import override

from app.errors import CorruptMetadataError, FileMissingError, NotFoundError, PaimonIndexError
from app.storage import Readers
from app.table.decoding import HINT_BYTES, SCHEMA_BYTES, SNAPSHOT_BYTES, TableSnapshot, decode
from app.table.references import References, hint_path, schema_path, snapshot_path, tag_path
from app.table.schema.schema import SchemaIds, TableSchema
from app.table.storage import SmallFiles, Storage, TableReader
from app.types.digest import content_digest
from app.work import wait_for

_MEMORY_PER_VERSION: Final = 2_000
# Memory of a schema while it is decoded: empty objects are the most expensive JSON per byte.
_MEMORY_PER_BYTE: Final = 32

# Snapshots that a time travel reads concurrently: more would save round trips, but cost more requests.
_SIDE_BY_SIDE: Final = 16


@dataclass(frozen=True, slots=True)
class LastSeen:
    """Result of the previous lookup of a version. ``snapshot_id`` is None if it had no snapshot."""

    snapshot_id: int | None
    schemas: SchemaIds

    @property
    def nbytes(self) -> int:
        """Approximate memory of the object."""
        return 200


def expected_files(
    directory: str, seen: LastSeen | None, snapshot_id: int | None, tag: str | None, schemas: SchemaIds | None
) -> Iterator[tuple[str, int]]:
    """Yield the files that resolving a version will probably read, each with its maximum size in bytes."""
    if snapshot_id is not None:
        yield snapshot_path(directory, snapshot_id), SNAPSHOT_BYTES
    elif tag is not None:
        yield tag_path(directory, tag), SNAPSHOT_BYTES
    elif seen is not None and seen.snapshot_id is not None:
        yield hint_path(directory), HINT_BYTES
        yield snapshot_path(directory, seen.snapshot_id), SNAPSHOT_BYTES
        yield snapshot_path(directory, seen.snapshot_id + 1), SNAPSHOT_BYTES
    if schemas is not None:
        numbers: tuple[int, ...] = schemas
    elif seen is not None:
        numbers = (*seen.schemas, seen.schemas.options + 1)
    else:
        numbers = ()
    for number in numbers:
        yield schema_path(directory, number), SCHEMA_BYTES


class ReadAhead(SmallFiles):
    """Storage that serves each prefetched file once, and passes every other request on.

    ``contents`` maps paths to bytes, to None for a missing file, or to the error of the read.
    """

    def __init__(self, storage: Storage, contents: dict[str, bytes | PaimonIndexError | None]) -> None:
        self._storage = storage
        self._contents = contents

    @classmethod
    def of(cls, storage: Storage, readers: Readers, files: Iterable[tuple[str, int]]) -> Self:
        """Prefetch ``files``, pairs of a path and its maximum size."""
        max_bytes = dict(files)

        def read(path: str) -> bytes | PaimonIndexError | None:
            try:
                return storage.start_of(path, max_bytes[path] + 1)
            except PaimonIndexError as error:
                return error

        # Local files load faster than threads hand over to each other.
        read_all = map if storage.is_local else readers.map
        return cls(storage, dict(zip(max_bytes, read_all(read, max_bytes), strict=True)))

    @override
    def start_of(self, path: str, count: int) -> bytes | None:
        if path not in self._contents:
            return self._storage.start_of(path, count)
        # Served once: by a second request the file may have appeared or gone.
        content = self._contents.pop(path)
        if isinstance(content, PaimonIndexError):
            raise content
        return None if content is None else content[:count]

    @override
    def list_names(self, directory: str) -> list[str]:
        return self._storage.list_names(directory)


@dataclass(frozen=True, slots=True)
class VersionRequest:
    """Version that a caller requests: at most one of the first three fields. The latest without any."""

    snapshot_id: int | None = None
    tag: str | None = None
    timestamp_millis: int | None = None
    schemas: SchemaIds | None = None

    @property
    def is_time_travel(self) -> bool:
        """True unless the latest version is requested."""
        return (self.snapshot_id, self.tag, self.timestamp_millis) != (None, None, None)


@dataclass(frozen=True, slots=True)
class ResolvedSnapshot:
    """Version of a table, and the schema that filters on it refer to."""

    # None if the table or branch has never been written to.
    snapshot: TableSnapshot | None
    # The newest schema of the table or branch. An older version has the columns of its snapshot under the
    # newest options, as the engine reads it.
    schema: TableSchema
    branch: str | None
    tag: str | None
    directory: str
    # Changes with anything that could change an answer. Numbers of snapshots and schemas do not suffice: they
    # are used again after a rollback, or once a table is dropped and recreated.
    identity: str
    # Monotonic time of the lookup in storage; equality ignores it.
    seen_at: float = field(compare=False)
    # Read data files of this level only; None for all.
    level: int | None = None

    def on_level(self, level: int) -> Self:
        """Restrict the version to data files of one level."""
        identity = content_digest(self.identity.encode(), str(level).encode())
        return replace(self, level=level, identity=identity)

    def in_columns_of(self, schema: TableSchema) -> Self:
        """Take columns from another schema. The options stay."""
        if schema == self.schema:
            return self
        identity = content_digest(self.identity.encode(), schema.digest.encode())
        return replace(self, schema=schema.with_options_of(self.schema), identity=identity)

    @property
    def age_ms(self) -> float:
        """Milliseconds since the lookup in storage."""
        return (time.monotonic() - self.seen_at) * 1000

    @property
    def nbytes(self) -> int:
        """Approximate memory of the object, without its schema, which is cached by itself."""
        return _MEMORY_PER_VERSION


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of a table, or of one of its branches."""

    reader: TableReader
    directory: str
    branch: str | None
    label: str

    def find(self, request: VersionRequest, max_staleness_ms: int) -> ResolvedSnapshot:
        """Resolve a request; :meth:`app.table.table.Table.resolve` documents arguments and errors."""
        is_newest = request == VersionRequest()
        if is_newest and max_staleness_ms:
            remembered: ResolvedSnapshot | None = self.reader.metadata.get(self._newest_key)
            if remembered is not None and remembered.age_ms <= max_staleness_ms:
                return remembered
        resolved = self._look_up(request)
        if is_newest:
            self.reader.metadata.put(self._newest_key, resolved)
        return resolved

    def forget_newest(self, resolved: ResolvedSnapshot) -> None:
        """Have the next request look up the latest version again, because this one is gone."""
        self.reader.metadata.put(self._newest_key, replace(resolved, seen_at=-math.inf))

    def _look_up(self, request: VersionRequest) -> ResolvedSnapshot:
        seen_at = time.monotonic()
        key = self._seen_key(request)
        is_guessed = request.timestamp_millis is None
        previous: LastSeen | None = self.reader.metadata.get(key) if is_guessed else None
        seen = previous
        if seen is None:
            # A version that was never looked up shares at least its newest schema with the latest one.
            newest: LastSeen | None = self.reader.metadata.get(self._seen_key(VersionRequest()))
            seen = self._first_look() if request == VersionRequest() else newest
        guess = seen if is_guessed else None
        ahead = expected_files(self.directory, guess, request.snapshot_id, request.tag, request.schemas)
        storage = ReadAhead.of(self.reader.storage, self.reader.readers, ahead)
        references = References(storage, self.directory, self.label)
        snapshot = self._snapshot(references, request)
        if request.schemas is not None:
            columns, options = (read_schema(self.reader, references, number) for number in request.schemas)
            schema = self._combined(columns, options)
        elif snapshot is None:
            schema = self._newest_schema(references, seen, None)
        else:
            schema = self._schema_of_filters(references, seen, snapshot, request)
        now = LastSeen(None if snapshot is None else snapshot.id, schema.ids)
        if is_guessed and request.schemas is None and now != previous:
            self.reader.metadata.put(key, now)
        facts = (self.reader.storage.name, self.directory, snapshot.digest if snapshot else "", schema.digest)
        identity = content_digest(*(fact.encode() for fact in facts))
        return ResolvedSnapshot(snapshot, schema, self.branch, request.tag, self.directory, identity, seen_at)

    def _snapshot(self, references: References, request: VersionRequest) -> TableSnapshot | None:
        if request.snapshot_id is not None:
            return references.snapshot(request.snapshot_id)
        if request.tag is not None:
            return references.tag(request.tag)
        if request.timestamp_millis is not None:
            count = 1 if self.reader.storage.is_local else _SIDE_BY_SIDE
            return references.at_time(request.timestamp_millis, self.reader.readers, count)
        return references.latest()

    def _first_look(self) -> LastSeen | None:
        """Guess the latest version of a remote table before its first lookup."""
        if self.reader.storage.is_local:
            return None
        references = References(self.reader.storage, self.directory, self.label)
        hint = self.reader.readers.begin(references.hint)
        try:
            schema_ids = references.schema_ids()
            return LastSeen(wait_for(hint), SchemaIds(schema_ids[-1], schema_ids[-1]))
        except PaimonIndexError:
            # The lookup proper reads one file after the other, and raises a precise error.
            return None

    def _schema_of_filters(
        self, references: References, seen: LastSeen | None, snapshot: TableSnapshot, request: VersionRequest
    ) -> TableSchema:
        try:
            newest = self._newest_schema(references, seen, snapshot)
            if newest.id >= snapshot.schema_id:
                if not request.is_time_travel or newest.id == snapshot.schema_id:
                    return newest
                return self._combined(read_schema(self.reader, references, snapshot.schema_id), newest)
        except NotFoundError:
            pass
        raise FileMissingError(
            f"the schema is missing, but snapshot {snapshot.id} of {self.label} needs it: restore it",
            path=references.schema_path(snapshot.schema_id),
        )

    def _combined(self, columns: TableSchema, options: TableSchema) -> TableSchema:
        # Cached, so that all requests share one object.
        key = ("schema", columns.digest, options.digest)
        schema: TableSchema = self.reader.metadata.get_or_load(key, lambda: columns.with_options_of(options))
        return schema

    def _newest_schema(
        self, references: References, seen: LastSeen | None, snapshot: TableSnapshot | None
    ) -> TableSchema:
        if seen is not None:
            newest = references.newest_schema_id(seen.schemas.options, snapshot)
            try:
                return read_schema(self.reader, references, newest)
            except NotFoundError:
                # The table was recreated: the listing decides.
                pass
        return read_schema(self.reader, references, references.schema_ids()[-1])

    def _seen_key(self, request: VersionRequest) -> tuple[object, ...]:
        return "seen", self.reader.storage.name, self.directory, request.snapshot_id, request.tag

    @property
    def _newest_key(self) -> tuple[str, str, str]:
        return "newest", self.reader.storage.name, self.directory


def read_schema(reader: TableReader, references: References, schema_id: int) -> TableSchema:
    """Read the schema with this number. Raises CorruptMetadataError if the file states another one."""
    path, data = references.schema_path(schema_id), references.read_schema(schema_id)

    def load() -> TableSchema:
        with reader.readers.decoding(_MEMORY_PER_BYTE * len(data), path), reader.readers.core():
            return decode(path, data, TableSchema.read)

    schema: TableSchema = reader.metadata.get_or_load(("schema", content_digest(data)), load)
    if schema.id != schema_id:
        raise CorruptMetadataError(f"expected schema {schema_id}, found {schema.id}", path=path)
    return schema
