"""Makes snapshots.

A commit writes, in this order: an index manifest if it changes index files, manifests of its changes, merged
manifests (:mod:`app.table.commits.merging`), a list of all earlier manifests, a list of its own, and last the
snapshot, which is created only if its number is free (:class:`app.storage.writing.Writing`). Nothing is
overwritten but the hint ``LATEST``. If another commit was first, the files are removed, and the commit is
retried on top of that one if it still fits (:meth:`Changes.check`).
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

import orjson
import tenacity

from app.errors import (
    CommitConflictError,
    FileMissingError,
    PaimonIndexError,
    SnapshotExpiredError,
    StorageError,
    UncertainCommitError,
)
from app.options import ManifestOptions
from app.storage import Warehouse, Writing
from app.table.commits.changes import Changes
from app.table.commits.manifest_writing import (
    ListedManifests,
    Outline,
    RewrittenEntries,
    listed,
    manifest_options,
    manifests_of,
)
from app.table.commits.merging import merge_manifests
from app.table.decoding import SNAPSHOT_BYTES, read_small
from app.table.manifests.index_manifest import write_combined
from app.table.manifests.manifest import Manifest
from app.table.resolution import ResolvedSnapshot
from app.table.schema.schema import TableSchema
from app.table.table import Table
from app.types.digest import content_digest

_Content = TypeVar("_Content")

_log = logging.getLogger("paimon_index.commits")

_VERSION: Final = 3
# Identifier that the engine's batch writers give their only commit.
_BATCH_IDENTIFIER: Final = (1 << 63) - 1
_ATTEMPTS: Final = 30
_FIRST_WAIT_SECONDS: Final = 0.01
_MAX_WAIT_SECONDS: Final = 2.0
# Members that are not carried over to the next snapshot; the properties may hold the highest sequence number.
_OF_ONE_COMMIT: Final = frozenset(
    {
        "uuid",
        "writerVersion",
        "operation",
        "properties",
        "changelogManifestList",
        "changelogManifestListSize",
        "changelogRecordCount",
    }
)


class LostRaceError(CommitConflictError):
    """Another commit took the number of the snapshot."""


class OverwrittenError(LostRaceError):
    """The snapshot was created, and another one has been written over it."""


@dataclass(frozen=True, slots=True)
class Committer:
    """Commits to the main branch of a table."""

    table: Table
    writing: Writing
    user: str = field(default_factory=lambda: str(uuid.uuid4()))

    def check(self) -> None:
        """Check that commits to the table are possible, before any work is done."""
        manifest_options(self.table.name, self.table.resolve().schema)

    def commit(self, changes: Changes) -> int:
        """Make a snapshot with ``changes``, and return its number.

        Raises CommitConflictError if the changes do not fit what others have committed. All files of the
        commit are removed. Raises UncertainCommitError if storage failed while the snapshot was created, or
        it was overwritten and cannot be made again. The files stay.
        """
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(_ATTEMPTS),
            wait=tenacity.wait_random_exponential(_FIRST_WAIT_SECONDS, _MAX_WAIT_SECONDS),
            # Files of the latest snapshot may expire during the attempt.
            retry=tenacity.retry_if_exception_type((LostRaceError, SnapshotExpiredError)),
            reraise=True,
        )

        overwritten: list[int] = []

        def attempt() -> int:
            is_first = retrying.statistics["attempt_number"] == 1
            return _Attempt(self, changes, overwritten, merges=is_first).make()

        try:
            return retrying(attempt)
        except PaimonIndexError as error:
            if not overwritten or isinstance(error, UncertainCommitError):
                raise
            raise UncertainCommitError(
                f"snapshot {overwritten[-1]} of {self.table.name} was made, overwritten by another writer "
                f"and cannot be made again: {error}; another commit may have been built on it, so what it "
                f"names stays: check whether the changes are in the table, and if not, run it again"
            ) from error


@dataclass(slots=True)
class _Attempt:
    committer: Committer
    changes: Changes
    overwritten: list[int]
    merges: bool
    written: list[str] = field(default_factory=list)
    _names: uuid.UUID = field(default_factory=uuid.uuid4)
    _counts: dict[str, int] = field(default_factory=dict)

    def make(self) -> int:
        try:
            return self._make()
        except (UncertainCommitError, OverwrittenError):
            # Files written so far may be in use.
            raise
        except PaimonIndexError:
            self._clean_up()
            raise

    def _make(self) -> int:
        table = self.committer.table
        resolved = table.resolve()
        made = self._made_before(resolved)
        if made is not None:
            return made
        options = manifest_options(table.name, resolved.schema)
        index_entries, mode = table.metadata.index_entries(resolved), resolved.schema.bucket_mode
        manifests = table.metadata.manifests(resolved)
        self.changes.check(manifests, index_entries, mode)
        index_manifest = None if resolved.snapshot is None else resolved.snapshot.index_manifest
        if self.changes.index_files:
            before = None if index_manifest is None else self._read(index_manifest)
            combined = write_combined(before, self.changes.index_files, mode, options.compression)
            index_manifest = self._write("index-manifest", combined)[0]
        listed_before = self._listed(resolved)
        rewritten = RewrittenEntries.read(
            self.changes.files, manifests, partial(self._read_manifests, listed_before)
        )
        own = []
        for entries in manifests_of(self.changes.files, options.target_bytes):
            content = rewritten.write(entries, options.compression)
            own.append(self._write_manifest(content, Outline.of(entries), resolved.schema))
        base = self._write(
            "manifest-list",
            self._base(listed_before, manifests, options, resolved.schema).write(options.compression),
        )
        delta = self._write("manifest-list", ListedManifests(tuple(own)).write(options.compression))
        document = self._document(resolved) | {
            "baseManifestList": base[0],
            "baseManifestListSize": base[1],
            "deltaManifestList": delta[0],
            "deltaManifestListSize": delta[1],
            "indexManifest": index_manifest,
        }
        snapshot_id = int(document["id"])
        self._publish(snapshot_id, {name: value for name, value in document.items() if value is not None})
        return snapshot_id

    def _made_before(self, latest: ResolvedSnapshot) -> int | None:
        """Find a snapshot that builds on an overwritten one of this commit and contains its changes."""
        table = self.committer.table
        # The next snapshot may contain the changes of an overwritten one; if not, and they no longer fit, the
        # outcome is unknown.
        for following in (number + 1 for number in self.overwritten):
            if latest.snapshot is not None and following <= latest.snapshot.id:
                resolved = table.resolve(snapshot_id=following)
                metadata = table.metadata
                if self.changes.are_in(metadata.manifests(resolved), metadata.index_entries(resolved)):
                    return following
        return None

    def _listed(self, resolved: ResolvedSnapshot) -> ListedManifests:
        snapshot = resolved.snapshot
        if snapshot is None:
            return ListedManifests()
        base, delta = (
            ListedManifests.read(self._read(name))
            for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list)
        )
        return base.followed_by(delta)

    def _base(
        self,
        before: ListedManifests,
        manifests: Sequence[Manifest],
        options: ManifestOptions,
        schema: TableSchema,
    ) -> ListedManifests:
        if not self.merges:
            return before
        sizes = [record["_FILE_SIZE"] for record in before.records]
        merged = merge_manifests(
            sizes, manifests, options, lambda numbers: self._read_manifests(before, numbers, bytes)
        )
        records = tuple(
            before.records[part]
            if isinstance(part, int)
            else self._write_manifest(part.content, part.manifest, schema)
            for part in merged
        )
        # A new manifest lacks the unknown fields of those merged into it, so these become nullable.
        return ListedManifests(records, before.followed_by(ListedManifests()).fields)

    def _read_manifests(
        self, before: ListedManifests, numbers: Sequence[int], read: Callable[[bytes], _Content]
    ) -> list[_Content]:
        records = before.records

        def read_one(number: int) -> _Content:
            name = records[number]["_FILE_NAME"]
            with self._warehouse.readers.room(records[number]["_FILE_SIZE"], name):
                return read(self._read(name))

        return self._warehouse.readers.map(read_one, numbers)

    def _read(self, name: str) -> bytes:
        path = f"{self.committer.table.directory}/manifest/{name}"
        try:
            return self._warehouse.read(path)
        except FileMissingError as error:
            raise SnapshotExpiredError(f"{path} is gone: its snapshot has expired", path=path) from error

    def _document(self, resolved: ResolvedSnapshot) -> dict[str, Any]:
        previous = self._previous(resolved)
        row_count = self.changes.row_count
        document = {name: value for name, value in previous.items() if name not in _OF_ONE_COMMIT}
        if previous.get("schemaId") != resolved.schema.id:
            document["statistics"] = None
        return document | {
            "version": _VERSION,
            "id": previous.get("id", 0) + 1,
            "schemaId": resolved.schema.id,
            "commitUser": self.committer.user,
            "commitIdentifier": _BATCH_IDENTIFIER,
            "commitKind": self.changes.kind.value,
            "timeMillis": time.time_ns() // 1_000_000,
            "totalRecordCount": (previous.get("totalRecordCount") or 0) + row_count,
            "deltaRecordCount": row_count,
        }

    def _previous(self, resolved: ResolvedSnapshot) -> Mapping[str, Any]:
        if resolved.snapshot is None:
            return {"nextRowId": 0}
        path = self._snapshot_path(resolved.snapshot.id)
        try:
            content = read_small(self._warehouse, path, SNAPSHOT_BYTES)
        except FileMissingError as error:
            raise SnapshotExpiredError(f"{path} is gone", path=path) from error
        if content_digest(content) != resolved.snapshot.digest:
            raise LostRaceError(f"{path} was overwritten")
        document: dict[str, Any] = orjson.loads(content)
        return document

    def _publish(self, snapshot_id: int, document: Mapping[str, Any]) -> None:
        path, content = self._snapshot_path(snapshot_id), orjson.dumps(document, option=orjson.OPT_INDENT_2)
        try:
            is_ours = self.committer.writing.create(path, content)
        except StorageError as error:
            raise UncertainCommitError(
                f"it is unknown whether snapshot {snapshot_id} of {self.committer.table.name} was made: "
                f"{error}; check whether {path} names commitUser {self.committer.user}",
                path=path,
            ) from error
        if not is_ours:
            raise LostRaceError(f"another commit has made snapshot {snapshot_id} first")
        self._check_stored(snapshot_id, path, content)

    def _check_stored(self, snapshot_id: int, path: str, content: bytes) -> None:
        """Write the hint, and check that the snapshot was not overwritten."""
        writing = self.committer.writing
        try:
            writing.replace(f"{self.committer.table.directory}/snapshot/LATEST", str(snapshot_id).encode())
        except Exception as error:  # noqa: BLE001 - whatever it is, the snapshot is there
            # The hint is only an optimization.
            _log.warning("snapshot %d was made, but: %s", snapshot_id, error)
        try:
            stored = read_small(self._warehouse, path, SNAPSHOT_BYTES)
        except FileMissingError:
            # The snapshot has expired already, so others built on it.
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, the snapshot is there
            _log.warning("snapshot %d was made, but: %s", snapshot_id, error)
            return
        # Engines without a catalog check for a snapshot and then rename theirs into place, which may
        # overwrite one created in between. An overwritten snapshot is made again, but its files stay, since
        # other commits may already build on it.
        if stored != content:
            self.overwritten.append(snapshot_id)
            raise OverwrittenError(f"another commit has overwritten snapshot {snapshot_id}")

    def _write_manifest(
        self, content: bytes, manifest: Manifest | Outline, schema: TableSchema
    ) -> dict[str, Any]:
        return listed(*self._write("manifest", content), manifest, schema)

    def _write(self, kind: str, content: bytes) -> tuple[str, int]:
        number = self._counts[kind] = self._counts.get(kind, -1) + 1
        name = f"{kind}-{self._names}-{number}"
        path = f"{self.committer.table.directory}/manifest/{name}"
        self.written.append(path)
        if not self.committer.writing.create(path, content):
            raise CommitConflictError(f"{path} exists already")
        return name, len(content)

    def _clean_up(self) -> None:
        for path in self.written:
            try:
                self.committer.writing.delete(path)
            except StorageError as error:
                _log.warning("%s, which nothing refers to, could not be removed: %s", path, error)

    def _snapshot_path(self, snapshot_id: int) -> str:
        return f"{self.committer.table.directory}/snapshot/snapshot-{snapshot_id}"

    @property
    def _warehouse(self) -> Warehouse:
        return self.committer.writing.warehouse
