"""References to versions of a table: snapshots, the hints, tags, points in time, and schemas.

::

    snapshot/snapshot-<id>, LATEST, EARLIEST      the hints are numbers as text
    tag/tag-<name>                                a copy of a snapshot, which may itself be gone
    schema/schema-<id>
    branch/branch-<name>/{snapshot,tag,schema}    references of a branch, in this layout

Hints may be stale: LATEST counts only if the snapshot after the one it names does not exist. Otherwise
directories are listed. Nothing here is cached, since all of it changes.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from app.errors import (
    CorruptMetadataError,
    FileMissingError,
    NotFoundError,
    SnapshotExpiredError,
)
from app.storage import Readers
from app.suggestions import hint
from app.table.decoding import HINT_BYTES, SCHEMA_BYTES, SNAPSHOT_BYTES, TableSnapshot, decode, read_small
from app.table.storage import SmallFiles
from app.types.civil_time import NANOS_PER_DAY, NANOS_PER_MILLI, clock_text, date_text
from app.work import pause

# Upper limit of entries per page, whatever the request sets: an object store reads these within a second.
MOST_READS: Final = 256

# Seconds between looks: a first commit may take this long from its first manifest list to its snapshot.
_PAUSES_OF_FIRST_COMMIT: Final = (0.2, 0.8)

_Key = TypeVar("_Key", int, str)
_ListingEntry = TypeVar("_ListingEntry")

_HINT = re.compile(rb"\s*(\d{1,18})\s*")
_NUMBER = re.compile(r"\d{1,18}")
# Read as milliseconds this is in 1973, before any table; read as seconds it is far in the future.
_FEW_MILLIS: Final = 100_000_000_000


@dataclass(frozen=True, slots=True)
class ListingPart(Generic[_Key, _ListingEntry]):
    """A page of a listing."""

    # By key, ascending.
    entries: dict[_Key, _ListingEntry]
    # The key that the next page begins after; None on the last page.
    last: _Key | None

    @classmethod
    def read(
        cls,
        keys: Sequence[_Key],
        after: _Key | None,
        count: int,
        read: Callable[[_Key], _ListingEntry | None],
        readers: Readers,
    ) -> ListingPart[_Key, _ListingEntry]:
        """Read the page that begins after ``after``, or the first page for None.

        ``read`` returns an entry, or None if it is gone. Several threads call it.
        """
        start = 0 if after is None else bisect_right(keys, after)
        chosen = keys[start : start + min(count, MOST_READS)]
        entries = zip(chosen, readers.map(read, chosen), strict=True)
        last = chosen[-1] if start + len(chosen) < len(keys) else None
        return cls({key: entry for key, entry in entries if entry is not None}, last)


def snapshot_path(directory: str, snapshot_id: int) -> str:
    """Return the path of a snapshot."""
    return f"{directory}/snapshot/snapshot-{snapshot_id}"


def hint_path(directory: str) -> str:
    """Return the path of the LATEST hint."""
    return f"{directory}/snapshot/LATEST"


def schema_path(directory: str, schema_id: int) -> str:
    """Return the path of a schema."""
    return f"{directory}/schema/schema-{schema_id}"


def tag_path(directory: str, name: str) -> str:
    """Return the path of a tag."""
    return f"{directory}/tag/tag-{name}"


def _next_middles(low: int, high: int, count: int) -> Iterator[int]:
    """Yield up to ``count`` positions that the next steps of a bisection may probe, breadth first."""
    ranges = deque([(low, high)])
    while ranges and count:
        low, high = ranges.popleft()
        if low < high:
            middle = (low + high - 1) // 2
            yield middle
            count -= 1
            ranges += [(low, middle), (middle + 1, high)]


class References:
    """References in one metadata directory: that of a table, or of a branch."""

    def __init__(self, storage: SmallFiles, directory: str, label: str) -> None:
        self._storage = storage
        self._directory = directory
        self._label = label

    def schema_ids(self) -> list[int]:
        """List the numbers of the schemas, ascending."""
        ids = self._numbered("schema", "schema-")
        if not ids:
            raise NotFoundError(f"there is no {self._label}")
        return ids

    def newest_schema_id(self, seen: int, snapshot: TableSnapshot | None) -> int:
        """Find the newest schema by probing upwards from ``seen``: numbers are consecutive."""
        newest = seen
        while self._is_there(self.schema_path(newest + 1), SCHEMA_BYTES) or (
            snapshot and newest < snapshot.schema_id
        ):
            newest += 1
        return newest

    def schema_path(self, schema_id: int) -> str:
        """Return the path of a schema."""
        return schema_path(self._directory, schema_id)

    def read_schema(self, schema_id: int) -> bytes:
        """Read the bytes of a schema file."""
        try:
            return read_small(self._storage, self.schema_path(schema_id), SCHEMA_BYTES)
        except FileMissingError as error:
            ids = self._numbered("schema", "schema-")
            existing = f": there are schemas {ids[0]} to {ids[-1]}" if ids else ""
            raise NotFoundError(f"{self._label} has no schema {schema_id}{existing}") from error

    def snapshot_ids(self) -> list[int]:
        """List the numbers of the existing snapshots, ascending."""
        return self._numbered("snapshot", "snapshot-")

    def latest(self) -> TableSnapshot | None:
        """Read the newest snapshot. Return None if nothing was ever committed.

        Raises SnapshotExpiredError if snapshots expired faster than they could be read. Raises
        CorruptMetadataError if there are no snapshots, although the hint names one. Raises FileMissingError
        if there are no snapshots, although files of earlier commits exist.
        """
        hinted = self._latest_hint()
        if hinted is not None:
            try:
                return self._read_snapshot(hinted)
            except FileMissingError:
                # The hint runs ahead, or the table was rolled back: the listing decides.
                pass
        ids = self.snapshot_ids()
        if not ids:
            if hinted is None:
                self._check_never_written()
                return None
            raise CorruptMetadataError(
                f"LATEST names snapshot {hinted} of {self._label}, which has no snapshots"
            )
        try:
            return self._read_snapshot(ids[-1])
        except FileMissingError as error:
            raise SnapshotExpiredError(
                f"snapshot {ids[-1]} of {self._label} went away while it was read"
            ) from error

    def snapshot(self, snapshot_id: int) -> TableSnapshot:
        """Read one snapshot.

        Raises NotFoundError if it does not exist. The message names the range of existing snapshots.
        """
        try:
            return self._read_snapshot(snapshot_id)
        except FileMissingError as error:
            raise NotFoundError(f"{self._label} has no snapshot {snapshot_id}: {self._range()}") from error

    def existing_snapshots(
        self, readers: Readers, after: int | None, count: int
    ) -> ListingPart[int, TableSnapshot]:
        """List a page of snapshots, oldest first, without those that expire meanwhile."""
        return ListingPart.read(self.snapshot_ids(), after, count, self._existing_snapshot, readers)

    def at_time(self, millis: int, readers: Readers, count: int) -> TableSnapshot:
        """Find the snapshot that the engine reads for ``millis`` since 1970. Tags do not count.

        ``readers`` read the next ``count`` positions concurrently. Raises NotFoundError if every snapshot is
        newer. Raises SnapshotExpiredError if a snapshot expired during the search.
        """
        ids = self.snapshot_ids()

        def probe(places: Iterable[int]) -> dict[int, TableSnapshot | None]:
            chosen = list(places)
            return dict(
                zip(chosen, readers.map(self._existing_snapshot, [ids[at] for at in chosen]), strict=True)
            )

        # Clocks of writers differ, so times need not rise: the bisection probes exactly the engine's
        # positions, to end at the same snapshot.
        low, high = 0, len(ids)
        read = probe(dict.fromkeys([0, *_next_middles(low, high, count - 1)]) if ids else ())
        oldest, candidate = read.get(0), None
        if oldest is not None and oldest.time_millis > millis:
            high = 0
        while low < high:
            middle = (low + high - 1) // 2
            if middle not in read:
                read = probe(_next_middles(low, high, count))
            snapshot = read[middle]
            if snapshot is not None and snapshot.time_millis > millis:
                high = middle
                continue
            # Snapshots that expired meanwhile are the oldest ones.
            candidate, low = snapshot or candidate, middle + 1
            if snapshot is not None and snapshot.time_millis == millis:
                break
        if candidate is not None:
            return candidate
        if low:
            raise SnapshotExpiredError(f"a snapshot of {self._label} went away while it was read")
        raise NotFoundError(
            f"{self._label} has no snapshot as old as {millis} ms: {self._since(oldest, millis)}"
        )

    def tag(self, name: str) -> TableSnapshot:
        """Read the snapshot of a tag."""
        if any(part in ("", ".", "..") for part in name.split("/")) or not name.isprintable():
            raise NotFoundError(f"{self._label} has no tag {name!r}")
        try:
            path = tag_path(self._directory, name)
            return decode(path, read_small(self._storage, path, SNAPSHOT_BYTES), TableSnapshot.read)
        except FileMissingError as error:
            suggestion = hint(name, self._names("tag", "tag-"), plural="tags")
            raise NotFoundError(f"{self._label} has no tag {name!r}{suggestion}") from error

    def tags(self, readers: Readers, after: str | None, count: int) -> ListingPart[str, TableSnapshot]:
        """List a page of the tags by name. Names with a slash are in no listing."""

        def read(name: str) -> TableSnapshot | None:
            try:
                return self.tag(name)
            except NotFoundError:
                # Deleted since the listing, or the directory of a tag with a slash.
                return None

        return ListingPart.read(sorted(self._names("tag", "tag-")), after, count, read, readers)

    def branches(self) -> list[str]:
        """List the branches by name, without the main one."""
        return self._names("branch", "branch-")

    def _check_never_written(self) -> None:
        """Check that a table without snapshots has never been committed to.

        A writer that failed in its first commit may leave manifests behind, but deletes manifest lists.
        """
        path, trace = f"{self._directory}/snapshot", ""
        for seconds in (0.0, *_PAUSES_OF_FIRST_COMMIT):
            # A first commit in progress has written its lists but not its snapshot: look again.
            pause(seconds)
            tags, lists = self._names("tag", "tag-"), self._names("manifest", "manifest-list-")
            # A first commit may have come between the two looks.
            if not (tags or lists) or self.snapshot_ids():
                return
            trace = f"tag {tags[0]!r}" if tags else f"manifest/manifest-list-{lists[0]}"
            if tags:
                break
        raise FileMissingError(
            f"{self._label} has no snapshots in {path}, though it was written to: {trace} is there; restore "
            f"the directory, or ask again if its first commit is in progress",
            path=path,
        )

    def hint(self) -> int | None:
        """Read the number in LATEST, which may be stale. Return None without a valid hint."""
        content = self._storage.start_of(hint_path(self._directory), HINT_BYTES + 1)
        written = _HINT.fullmatch(content) if content is not None and len(content) <= HINT_BYTES else None
        return None if written is None else int(written.group(1))

    def _latest_hint(self) -> int | None:
        hinted = self.hint()
        if hinted is None or self._is_there(snapshot_path(self._directory, hinted + 1), SNAPSHOT_BYTES):
            return None
        return hinted

    def _is_there(self, path: str, most_bytes: int) -> bool:
        # Libraries of object stores also list to find whether a file exists; a read costs one call.
        return self._storage.start_of(path, most_bytes + 1) is not None

    def _read_snapshot(self, snapshot_id: int) -> TableSnapshot:
        path = snapshot_path(self._directory, snapshot_id)
        snapshot = decode(path, read_small(self._storage, path, SNAPSHOT_BYTES), TableSnapshot.read)
        if snapshot.id != snapshot_id:
            raise CorruptMetadataError(f"expected snapshot {snapshot_id}, found {snapshot.id}", path=path)
        return snapshot

    def _existing_snapshot(self, snapshot_id: int) -> TableSnapshot | None:
        try:
            return self._read_snapshot(snapshot_id)
        except FileMissingError:
            return None

    def _since(self, oldest: TableSnapshot | None, millis: int) -> str:
        if oldest is None:
            return self._range()
        days, clock = divmod(oldest.time_millis * NANOS_PER_MILLI, NANOS_PER_DAY)
        committed = f"{date_text(days)}T{clock_text(clock)}Z"
        oldest_is = f"the oldest, snapshot {oldest.id}, is of {oldest.time_millis} ms, {committed}"
        is_short = 0 < millis < _FEW_MILLIS
        return (
            f"{oldest_is}; milliseconds are expected, and {millis} may be seconds" if is_short else oldest_is
        )

    def _range(self) -> str:
        ids = self.snapshot_ids()
        if ids:
            return f"there are snapshots {ids[0]} to {ids[-1]}"
        self.schema_ids()
        return "there are no snapshots"

    def _numbered(self, directory: str, prefix: str) -> list[int]:
        names = self._names(directory, prefix)
        return sorted(int(name) for name in names if _NUMBER.fullmatch(name))

    def _names(self, directory: str, prefix: str) -> list[str]:
        names = self._storage.list_names(f"{self._directory}/{directory}")
        return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
