"""Every exception that this project raises.

::

    PaimonIndexError
    ├── CorruptFileError            bytes violate their format
    │   ├── CorruptIndexError       a file index, deletion vector file or hash index
    │   └── CorruptMetadataError    a snapshot, schema, manifest list, manifest or index manifest
    ├── UnsupportedFormatError      a well-formed file of a version or kind that this release cannot read
    ├── RequestError                the caller erred
    │   ├── FilterError             a filter, literal, key or partition does not fit the table
    │   ├── IndexWriteError         a column, type or value that an index cannot hold
    │   ├── LimitExceededError      the request is larger than the operator allows
    │   ├── PageTokenError          a page token that is forged or belongs to another request
    │   └── CommitConflictError     changes that conflict with another commit
    ├── NotFoundError               warehouse, database, table, snapshot, tag, branch or file
    │   ├── UnknownPlaceError       a warehouse or database. Callers may not learn all names
    │   └── SnapshotExpiredError    the snapshot went away while it was read
    ├── PathNotAllowedError         a path leaves its warehouse, or is outside the external roots
    ├── JobError                    a job cannot be done. Its table is as it was
    ├── SettingsError               the operator's settings cannot be used. Nothing starts
    ├── OverloadedError             more requests than the process can serve at once
    │   ├── MemoryShortError        the process would leave its memory limit
    │   └── BusyError               the limit of requests in flight is reached
    └── StorageError                storage failed after retries
        ├── FileMissingError        storage reports that the file does not exist
        ├── UncertainCommitError    it is unknown whether a snapshot was made
        └── DeadlineExceededError   the request's time is used up
            └── RequestCancelledError   its caller went away, so no time is left for it

Decoders get bytes, not paths: they raise with an offset, and the code that read the file adds the path with
:meth:`CorruptFileError.at`.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Self

from app.suggestions import hint


class PaimonIndexError(Exception):
    """Root of every exception that this project raises on purpose."""


class CorruptFileError(PaimonIndexError):
    """Bytes that violate their format.

    ``expectation``: the expected and the found content. ``offset``: byte offset of the fault inside the file
    or payload, if it has a single place. ``path``: the file, once the code that knows it has added it.
    """

    def __init__(self, expectation: str, *, offset: int | None = None, path: str | None = None) -> None:
        self.expectation = expectation
        self.offset = offset
        self.path = path
        super().__init__(expectation)

    def at(self, path: str, base_offset: int = 0) -> Self:
        """Copy the error with the file's path, and add ``base_offset`` bytes to its offset."""
        offset = None if self.offset is None else self.offset + base_offset
        return type(self)(self.expectation, offset=offset, path=self.path or path)

    def __str__(self) -> str:
        where = self.path or "<bytes>"
        place = "" if self.offset is None else f" at byte {self.offset}"
        return f"{where}{place}: {self.expectation}"


class CorruptIndexError(CorruptFileError):
    """A file index, deletion vector file or hash index that cannot be decoded."""


class CorruptMetadataError(CorruptFileError):
    """A snapshot, schema, manifest list, manifest or index manifest that cannot be decoded."""


class UnsupportedFormatError(PaimonIndexError):
    """A well-formed file of a version or kind that this release cannot read."""


class RequestError(PaimonIndexError):
    """The caller's mistake. The message says how to correct it."""


class FilterError(RequestError):
    """A filter, literal, key or partition that does not fit. ``position``: 0-based character in its text."""

    def __init__(self, message: str, *, column: str | None = None, position: int | None = None) -> None:
        self.column = column
        self.position = position
        super().__init__(message)


class IndexWriteError(RequestError):
    """A column, type or value that an index cannot hold. ``row``: 0-based, if one value is to blame."""

    def __init__(self, message: str, *, column: str, row: int | None = None) -> None:
        self.column = column
        self.row = row
        place = f"column {column!r}" if row is None else f"column {column!r}, row {row}"
        super().__init__(f"{place}: {message}")


class LimitExceededError(RequestError):
    """A request larger than the operator allows."""

    def __init__(self, message: str, *, limit: int) -> None:
        self.limit = limit
        super().__init__(message)


class PageTokenError(RequestError):
    """A page token that is forged, damaged or belongs to another request."""


class CommitConflictError(RequestError):
    """Changes that conflict with a commit. Rebuilt on the latest snapshot, they may succeed."""


class NotFoundError(PaimonIndexError):
    """A warehouse, database, table, snapshot, tag, branch or file that does not exist."""


class UnknownPlaceError(NotFoundError):
    """A warehouse or database that does not exist.

    ``existing``: existing names, which the message omits; :meth:`naming` adds those that the caller may
    see. ``warehouse``: the warehouse that lacks the database.
    """

    def __init__(self, name: str, existing: Sequence[str], *, warehouse: str | None = None) -> None:
        self.name = name
        self.existing = existing
        self.warehouse = warehouse
        super().__init__(f"there is no {'warehouse' if warehouse is None else 'database'} {name!r:.200}")

    def naming(self, names: Sequence[str]) -> str:
        """Return the message with a suggestion from ``names``."""
        plural = "warehouses" if self.warehouse is None else "databases"
        # Without names the caller may lack rights, so the message must not say that there are none.
        return f"{self}{hint(self.name, names, plural=plural)}" if names else str(self)


class SnapshotExpiredError(NotFoundError):
    """A snapshot whose files went away while they were read. A new request reads a newer one."""

    def __init__(self, message: str, *, path: str | None = None) -> None:
        self.path = path
        super().__init__(message)


class PathNotAllowedError(PaimonIndexError):
    """A path that leaves its warehouse or is outside the allowed external roots."""

    def __init__(self, message: str, *, path: str) -> None:
        self.path = path
        super().__init__(message)


class JobError(PaimonIndexError):
    """A job that failed. The message says why. Its table is unchanged."""


class SettingsError(PaimonIndexError):
    """Settings that cannot be used. The message has one line per setting."""


class OverloadedError(PaimonIndexError):
    """More requests than this process can serve at once. A later one may succeed."""


class MemoryShortError(OverloadedError):
    """A request that needs memory which the process may not take now."""


class BusyError(OverloadedError):
    """A request over the limit of those in flight. ``pause_seconds``: estimated wait for a free place."""

    def __init__(self, message: str, *, limit: int, pause_seconds: int) -> None:
        self.limit = limit
        self.pause_seconds = pause_seconds
        super().__init__(message)


class StorageError(PaimonIndexError):
    """Storage failed, after retries."""

    def __init__(self, message: str, *, path: str | None = None) -> None:
        self.path = path
        super().__init__(message)


class FileMissingError(StorageError):
    """A file that storage does not have."""


class UncertainCommitError(StorageError):
    """A commit with an unknown outcome. The message says how to find out."""


class DeadlineExceededError(StorageError):
    """A request whose time is used up."""


class RequestCancelledError(DeadlineExceededError):
    """A request whose caller has gone away."""


def release_frames(error: BaseException | None) -> None:
    """Clear the finished frames of an error's tracebacks, which keep what the failed calls had loaded."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
