"""Which version of a table a caller means: a snapshot, and the schema that filters are about.

The latest version is looked for each time, unless the caller is content with what was the latest a moment
ago. The files that tell are guessed from what was found last and read side by side.

What was guessed wrong is read as if nobody had guessed.
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
from app.table.decoding import HINT_BYTES, SCHEMA_BYTES, SNAPSHOT_BYTES, Snapshot, decode
from app.table.references import References, hint_path, schema_path, snapshot_path, tag_path
from app.table.schema.schema import SchemaIds, TableSchema
from app.table.storage import SmallFiles, Storage, TableReader
from app.types.digest import content_digest
from app.work import wait_for


@dataclass(frozen=True, slots=True)
class Seen:
    """What was found last where the same version was asked for; without a snapshot where there was none."""

    snapshot_id: int | None
    schemas: SchemaIds

    @property
    def nbytes(self) -> int:
        """About how much memory the object takes."""
        return 200


def expected_files(
    directory: str, seen: Seen | None, snapshot_id: int | None, tag: str | None, schemas: SchemaIds | None
) -> Iterator[tuple[str, int]]:
    """The files that a version is probably made of, each with the most bytes that it may have."""
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
    """Storage that answers once for each file that was read ahead, and asks for all the rest.

    Once, since a file that is asked for again may have come or gone in between. ``contents`` are by
    path; None where there is no file, or why it could not be read.
    """

    def __init__(self, storage: Storage, contents: dict[str, bytes | PaimonIndexError | None]) -> None:
        self._storage = storage
        self._contents = contents

    @classmethod
    def of(cls, storage: Storage, readers: Readers, files: Iterable[tuple[str, int]]) -> Self:
        """Storage that has read these files, by path at most so many bytes and one more."""
        wanted = dict(files)

        def read(path: str) -> bytes | PaimonIndexError | None:
            try:
                return storage.start_of(path, wanted[path] + 1)
            except PaimonIndexError as error:
                return error

        # Files of this machine are there before threads have handed over to each other.
        read_all = map if storage.is_local else readers.map
        return cls(storage, dict(zip(wanted, read_all(read, wanted), strict=True)))

    @override
    def start_of(self, path: str, count: int) -> bytes | None:
        if path not in self._contents:
            return self._storage.start_of(path, count)
        content = self._contents.pop(path)
        if isinstance(content, PaimonIndexError):
            raise content
        return None if content is None else content[:count]

    @override
    def list_names(self, directory: str) -> list[str]:
        return self._storage.list_names(directory)


_MEMORY_PER_VERSION: Final = 2_000
_MEMORY_PER_BYTE: Final = 32
"""Of a schema while it is decoded: empty objects are the smallest JSON for what they take."""

_SIDE_BY_SIDE: Final = 16
"""Snapshots of a store that are read at one time: more would find it in fewer round trips, but cost more."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The version that a caller wants: at most one of the first three, and without them the latest."""

    snapshot_id: int | None = None
    tag: str | None = None
    timestamp_millis: int | None = None
    schemas: SchemaIds | None = None

    @property
    def is_time_travel(self) -> bool:
        """Whether it is a version by its name, and not the latest."""
        return (self.snapshot_id, self.tag, self.timestamp_millis) != (None, None, None)


@dataclass(frozen=True, slots=True)
class ResolvedSnapshot:
    """A version of a table, and the schema that filters on it are about.

    Attributes:
        snapshot: None for a table or branch that has never been written to.
        schema: the newest schema of the table or branch. A version that was asked for by its name has the
            columns of its snapshot under the newest options, as the engine reads it.
        identity: changes with anything that could change an answer: a snapshot number means something else
            after a rollback, or when the table was dropped and made anew; so does a schema number.
        seen_at: when storage was asked for it, on the monotonic clock; versions are equal without it.
        level: of the data files, only those of this level are read; None for all.
    """

    snapshot: Snapshot | None
    schema: TableSchema
    branch: str | None
    tag: str | None
    directory: str
    identity: str
    seen_at: float = field(compare=False)
    level: int | None = None

    def on_level(self, level: int) -> Self:
        """The same version, as far as the data files of one level tell."""
        identity = content_digest(self.identity.encode(), str(level).encode())
        return replace(self, level=level, identity=identity)

    def in_columns_of(self, schema: TableSchema) -> Self:
        """The same version under its own options, with filters about the columns of another schema."""
        if schema == self.schema:
            return self
        identity = content_digest(self.identity.encode(), schema.digest.encode())
        return replace(self, schema=schema.with_options_of(self.schema), identity=identity)

    @property
    def age_ms(self) -> float:
        """Milliseconds since storage was asked for it."""
        return (time.monotonic() - self.seen_at) * 1000

    @property
    def nbytes(self) -> int:
        """About how much memory the object takes; its schema is kept by itself."""
        return _MEMORY_PER_VERSION


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions of a table or of one of its branches."""

    reader: TableReader
    directory: str
    branch: str | None
    what: str

    def find(self, wanted: Wanted, max_staleness_ms: int) -> ResolvedSnapshot:
        """The version that is wanted; arguments and errors as of :meth:`app.table.table.Table.resolve`."""
        is_newest = wanted == Wanted()
        if is_newest and max_staleness_ms:
            remembered: ResolvedSnapshot | None = self.reader.metadata.get(self._newest_key)
            if remembered is not None and remembered.age_ms <= max_staleness_ms:
                return remembered
        resolved = self._look_up(wanted)
        if is_newest:
            self.reader.metadata.put(self._newest_key, resolved)
        return resolved

    def forget_newest(self, resolved: ResolvedSnapshot) -> None:
        """Has the next request look for the latest version, since this one has gone away."""
        self.reader.metadata.put(self._newest_key, replace(resolved, seen_at=-math.inf))

    def _look_up(self, wanted: Wanted) -> ResolvedSnapshot:
        asked_at = time.monotonic()
        key = self._seen_key(wanted)
        is_guessed = wanted.timestamp_millis is None
        known: Seen | None = self.reader.metadata.get(key) if is_guessed else None
        seen = known
        if seen is None:
            # Of a version that nobody has asked for, the newest one tells at least the newest schema.
            newest: Seen | None = self.reader.metadata.get(self._seen_key(Wanted()))
            seen = self._first_look() if wanted == Wanted() else newest
        guess = seen if is_guessed else None
        ahead = expected_files(self.directory, guess, wanted.snapshot_id, wanted.tag, wanted.schemas)
        storage = ReadAhead.of(self.reader.storage, self.reader.readers, ahead)
        references = References(storage, self.directory, self.what)
        snapshot = self._snapshot(references, wanted)
        if wanted.schemas is not None:
            columns, options = (read_schema(self.reader, references, number) for number in wanted.schemas)
            schema = self._combined(columns, options)
        elif snapshot is None:
            schema = self._newest_schema(references, seen, None)
        else:
            schema = self._schema_of_filters(references, seen, snapshot, wanted)
        now = Seen(None if snapshot is None else snapshot.id, schema.ids)
        if is_guessed and wanted.schemas is None and now != known:
            self.reader.metadata.put(key, now)
        facts = (self.reader.storage.name, self.directory, snapshot.digest if snapshot else "", schema.digest)
        identity = content_digest(*(fact.encode() for fact in facts))
        return ResolvedSnapshot(snapshot, schema, self.branch, wanted.tag, self.directory, identity, asked_at)

    def _snapshot(self, references: References, wanted: Wanted) -> Snapshot | None:
        if wanted.snapshot_id is not None:
            return references.snapshot(wanted.snapshot_id)
        if wanted.tag is not None:
            return references.tag(wanted.tag)
        if wanted.timestamp_millis is not None:
            count = 1 if self.reader.storage.is_local else _SIDE_BY_SIDE
            return references.at_time(wanted.timestamp_millis, self.reader.readers, count)
        return references.latest()

    def _first_look(self) -> Seen | None:
        """What the latest version is probably made of, of a table in a store that nobody has asked about."""
        if self.reader.storage.is_local:
            return None
        references = References(self.reader.storage, self.directory, self.what)
        hint = self.reader.readers.begin(references.hint)
        try:
            schema_ids = references.schema_ids()
            return Seen(wait_for(hint), SchemaIds(schema_ids[-1], schema_ids[-1]))
        except PaimonIndexError:
            # Whoever looks at one after the other says what is wrong.
            return None

    def _schema_of_filters(
        self, references: References, seen: Seen | None, snapshot: Snapshot, wanted: Wanted
    ) -> TableSchema:
        """The schema that filters on a snapshot are about."""
        try:
            newest = self._newest_schema(references, seen, snapshot)
            if newest.id >= snapshot.schema_id:
                if not wanted.is_time_travel or newest.id == snapshot.schema_id:
                    return newest
                return self._combined(read_schema(self.reader, references, snapshot.schema_id), newest)
        except NotFoundError:
            pass
        raise FileMissingError(
            f"the schema is not there, but snapshot {snapshot.id} of {self.what} needs it: restore it",
            path=references.schema_path(snapshot.schema_id),
        )

    def _combined(self, columns: TableSchema, options: TableSchema) -> TableSchema:
        """The columns of one schema under the options of another, made once for all requests."""
        key = ("schema", columns.digest, options.digest)
        schema: TableSchema = self.reader.metadata.get_or_load(key, lambda: columns.with_options_of(options))
        return schema

    def _newest_schema(
        self, references: References, seen: Seen | None, snapshot: Snapshot | None
    ) -> TableSchema:
        if seen is not None:
            newest = references.newest_schema_id(seen.schemas.options, snapshot)
            try:
                return read_schema(self.reader, references, newest)
            except NotFoundError:
                # The table was made anew; what is there decides.
                pass
        return read_schema(self.reader, references, references.schema_ids()[-1])

    def _seen_key(self, wanted: Wanted) -> tuple[object, ...]:
        return "seen", self.reader.storage.name, self.directory, wanted.snapshot_id, wanted.tag

    @property
    def _newest_key(self) -> tuple[str, str, str]:
        return "newest", self.reader.storage.name, self.directory


def read_schema(reader: TableReader, references: References, schema_id: int) -> TableSchema:
    """The schema of this number."""
    path, data = references.schema_path(schema_id), references.read_schema(schema_id)

    def load() -> TableSchema:
        with reader.readers.decoding(path) as claim:
            claim.grow_to(_MEMORY_PER_BYTE * len(data))
            return decode(path, data, TableSchema.read)

    schema: TableSchema = reader.metadata.get_or_load(("schema", content_digest(data)), load)
    if schema.id != schema_id:
        raise CorruptMetadataError(f"expected schema {schema_id}, found {schema.id}", path=path)
    return schema
